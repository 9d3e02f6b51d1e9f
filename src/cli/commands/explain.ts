/**
 * `relay explain TYPE`: which routes take an event type, which don't, and why;
 * or what a sink would be sent of it. `relay explain EVENT_ID` is an event's
 * story, told in `Story.ts`.
 */
import { Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import type { RelayConfig } from "../../config/Config.ts"
import { eventTypes, isKnown, isRelayEvent, relayEventTypes } from "../../event/EventType.ts"
import * as Pattern from "../../routing/Pattern.ts"
import * as Router from "../../routing/Router.ts"
import { usage } from "../support/CommandError.ts"
import { explainEvent } from "../support/eventReport.ts"
import { loadConfig } from "../support/loadConfig.ts"
import { Json } from "../support/options.ts"
import { paint, plain, print, printJson, say } from "../support/output.ts"
import { lazily } from "../support/Program.ts"
import { fixedBody, payloadOf } from "../support/payload.ts"
import { routesTable, sinksOf } from "../support/routesTable.ts"

/** The event type that was typed, as it stands; one that nobody sends is an error with the nearest that somebody does. */
export const meant = (type: string) => {
  const nearest = Pattern.nearest(type, [...eventTypes, ...relayEventTypes])
  return nearest === undefined ? "" : `: did you mean ${nearest}?`
}

/** An event's id, where it can't be a type: those have dots. */
const isEventId = (text: string): boolean =>
  /^(evt|seq)_/.test(text) ||
  !(text.includes(".") || meant(text) !== "" || eventTypes.some((type) => type.startsWith(text)))

const printPayload = Effect.fnUntraced(function* (config: RelayConfig, sink: string, type: string, webhook: string) {
  const lane = config.sinks.find(({ name }) => name === sink)
  if (lane === undefined) {
    const names = config.sinks.map(({ name }) => name).join(", ")
    return yield* usage(`there is no sink ${plain(sink)} in the config; it has ${names}`)
  }
  const { sinkTypes } = yield* lazily(() => import("../../sinks/SinkTypes.ts"))
  const payload = payloadOf(lane, sinkTypes[lane.type], webhook, fixedBody(type))
  if (payload === undefined) return yield* usage(`a ${lane.type} sink can't say what it would be sent`)
  yield* print(payload.split("\n").map(plain).join("\n"))
})

interface Asked {
  readonly webhook: Option.Option<string>
  readonly payload: Option.Option<string>
}

const explainType = Effect.fnUntraced(function* (type: string, { webhook, payload }: Asked) {
  const { config } = yield* loadConfig
  const names = config.webhooks.map(({ name }) => name)
  if (Option.isSome(webhook) && !names.includes(webhook.value)) {
    return yield* usage(`there is no webhook ${plain(webhook.value)} in the config; it has ${names.join(", ")}`)
  }
  if (!type.includes(".")) return yield* usage(`${plain(type)} is no event type${meant(type)}`)
  if (Option.isSome(payload)) {
    const by = isRelayEvent(type) ? "relay" : Option.getOrElse(webhook, () => names[0] ?? "")
    return yield* printPayload(config, payload.value, type, by)
  }
  const explanations = Router.of(config).explain(Option.getOrUndefined(webhook), type)
  const always = sinksOf(explanations, "matches", "resolves")
  const maybe = sinksOf(explanations, "matches when").filter((sink) => !always.includes(sink))
  if (yield* Json) return yield* printJson({ type, sinks: always, conditional: maybe, routes: explanations })

  if (!isKnown(type) && !isRelayEvent(type)) {
    yield* say(`${plain(type)} is not in the sender's catalogue${meant(type)}`)
  }
  const style = yield* paint
  yield* print(routesTable(explanations))
  const reached = always.length === 0 ? "no sink" : always.join(", ")
  yield* print(
    `\n${plain(type)} ${style("bold", `→ ${reached}`)}${maybe.length === 0 ? "" : `, and maybe ${maybe.join(", ")}`}`,
  )
})

export const explain = Command.make(
  "explain",
  {
    what: Argument.String("type|event").pipe(
      Argument.withDescription("An event type, such as appointment.created; or the id of an event that is kept"),
    ),
    webhook: Flag.String("webhook").pipe(
      Flag.withMetavar("NAME"),
      Flag.withDescription("As if it came by this webhook; otherwise by any"),
      Flag.optional,
    ),
    payload: Flag.String("payload").pipe(
      Flag.withMetavar("SINK"),
      Flag.withDescription("Print only what this sink would be sent, of a type that of a sample, without its secrets"),
      Flag.optional,
    ),
    reveal: Flag.Boolean("reveal").pipe(
      Flag.withDescription("Show an event's payload with what may be personal"),
      Flag.withoutNegation,
      Flag.withDefault(false),
    ),
  },
  Effect.fn(function* ({ what, ...asked }) {
    if (isEventId(what)) return yield* explainEvent(what, asked)
    if (asked.reveal) return yield* usage("--reveal is for an event: a type's sample holds nobody's data")
    return yield* explainType(what, asked)
  }),
).pipe(
  Command.withDescription("Say which routes take an event type and why; or tell the whole story of one event"),
  Command.withExamples([
    { command: "relay explain appointment.meeting.create_failed", description: "Where a failed meeting goes" },
    { command: "relay explain client.created --webhook scheduling", description: "The same for one webhook" },
    {
      command: "relay explain appointment.meeting.create_failed --payload oncall",
      description: "What the sink oncall would be sent",
    },
    {
      command: "relay explain evt_8sZ2kQ",
      description: "An event: signature, routes, attempts, and what each sink would be sent",
    },
  ]),
)
