/** `relay tap`: follows accepted events until Ctrl-C. */
import { Effect, Stream } from "effect"
import { Command } from "effect/cli"
import type { Tapped } from "../../admin/Api.ts"
import { ask } from "../support/adminClient.ts"
import { unreachable } from "../support/CommandError.ts"
import { given, Json, text } from "../support/flags.ts"
import { count, type Paint, paint, plain, print, say, toJson } from "../support/output.ts"
import { lazily } from "../support/Program.ts"

export const line = ({ at, id, type, account, webhook, sinks, replayed }: Tapped, style: Paint): string => {
  const to = sinks.length === 0 ? style("yellow", "→ nowhere") : `→ ${sinks.map(plain).join(", ")}`
  const words = [style("bold", plain(type) || "(no type)"), plain(id) || "(no id)", plain(account), plain(webhook), to]
  const time = style("dim", new Date(at).toISOString())
  return [time, ...words.filter((word) => word !== ""), ...(replayed ? ["(replayed)"] : [])].join("  ")
}

export const tap = Command.make(
  "tap",
  {
    type: text("type", "PATTERN", "Only event types that match, such as appointment.**"),
    webhook: text("webhook", "NAME", "Only of this webhook"),
    sink: text("sink", "NAME", "Only what goes to this sink"),
  },
  Effect.fn(function* (flags) {
    const json = yield* Json
    const style = yield* paint
    const { firstSignal } = yield* lazily(() => import("../../runtime/Runtime.ts"))
    const show = (event: Tapped) => print(json ? toJson(event) : line(event, style))
    const greet = json ? Effect.void : say(style("dim", "accepted events, at most 100 a second; Ctrl-C to stop"))
    const follow = ask((client) =>
      Effect.flatMap(
        Effect.tap(client.tap({ query: given(flags) }), greet),
        Stream.runForEach(
          Effect.fnUntraced(function* ({ events, skipped }) {
            for (const event of events) yield* show(event)
            if (skipped > 0) yield* say(style("dim", `… and ${count(skipped, "event")} more`))
          }),
        ),
      ),
    )
    const ended = Effect.andThen(follow, Effect.fail(unreachable("the relay has stopped")))
    yield* Effect.raceFirst(ended, firstSignal)
  }),
).pipe(
  Command.withDescription("Follow accepted events live, at most 100 a second"),
  Command.withExamples([
    { command: "relay tap", description: "Everything" },
    { command: "relay tap --type 'appointment.meeting.*_failed'", description: "Failures only" },
    { command: "relay tap --sink lake --json", description: "What goes to a sink, one line of JSON for each event" },
  ]),
)
