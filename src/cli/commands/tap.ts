/** `relay tap`: follows accepted events, and refused requests, until Ctrl-C. */
import { Effect, Option, Stream } from "effect"
import { Command } from "effect/cli"
import type { Tapped } from "../../admin/api/LiveTail.ts"
import type { TappedRefusal } from "../../admin/status/Status.ts"
import { firstSignal } from "../../runtime/Runtime.ts"
import { ask } from "../support/adminClient.ts"
import { unreachable } from "../support/CommandError.ts"
import { given, Json, text, type, webhook, withExamples } from "../support/flags.ts"
import { instant, type Paint, paint, plain, print, printWhole, say, toJson } from "../support/output.ts"
import { requirePatterns } from "../support/values.ts"

export const line = ({ at, id, type, account, webhook, sinks, replayed }: Tapped, style: Paint): string => {
  const to = sinks.length === 0 ? style("yellow", "→ nowhere") : `→ ${sinks.map(plain).join(", ")}`
  const words = [style("bold", plain(type) || "(no type)"), plain(id) || "(no id)", plain(account), plain(webhook), to]
  const time = style("dim", instant(at))
  return [time, ...words.filter((word) => word !== ""), ...(replayed ? ["(replayed)"] : [])].join("  ")
}

export const refusalLine = (
  { at, webhook, what, detail, status, requestId, from }: TappedRefusal,
  style: Paint,
): string => {
  const why = detail === "" ? what : `${what}: ${plain(detail)}`
  const words = [style("yellow", `refused ${status}`), why, plain(webhook), plain(from), style("dim", requestId)]
  return [style("dim", instant(at)), ...words.filter((word) => word !== "")].join("  ")
}

export const tap = Command.make(
  "tap",
  {
    type,
    webhook,
    sink: text("sink", "NAME", "Only events that go to this sink"),
  },
  Effect.fn(function* (flags) {
    yield* requirePatterns(Option.toArray(flags.type))
    const json = yield* Json
    const style = yield* paint
    const show = (one: Tapped | TappedRefusal) =>
      json ? printWhole(toJson(one)) : print("refused" in one ? refusalLine(one, style) : line(one, style))
    const greet = json
      ? Effect.void
      : say(style("dim", "accepted events and refused requests, at most 100 a second; Ctrl-C to stop"))
    const follow = ask((client) =>
      Effect.flatMap(
        Effect.tap(client.tap({ query: given(flags) }), greet),
        Stream.runForEach(
          Effect.fnUntraced(function* ({ events, refused, skipped }) {
            for (const item of [...events, ...refused].toSorted((a, b) => a.at - b.at)) yield* show(item)
            if (skipped > 0) yield* say(style("dim", `… and ${skipped.toLocaleString("en-US")} more`))
          }),
        ),
      ),
    )
    const ended = Effect.andThen(follow, Effect.fail(unreachable("the relay has stopped")))
    yield* Effect.raceFirst(ended, firstSignal)
  }),
).pipe(
  withExamples({
    "relay tap": "Everything",
    "relay tap --type 'appointment.meeting.*_failed'": "Failures only",
    "relay tap --sink lake --json": "Events that go to a sink, one line of JSON each",
  }),
)
