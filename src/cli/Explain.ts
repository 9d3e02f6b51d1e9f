/** `relay explain TYPE`: which routes take an event type, which don't, and why; or what a sink would be sent of it. */
import { Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import type { RelayConfig } from "../config/Config.ts"
import { eventTypes, isKnown, isRelayEvent, relayEventTypes } from "../event/EventType.ts"
import * as Pattern from "../routing/Pattern.ts"
import * as Router from "../routing/Router.ts"
import { usage } from "./CommandError.ts"
import { loadConfig } from "./Loading.ts"
import { Json } from "./Options.ts"
import { paint, plain, print, printJson, say, table } from "./Output.ts"
import { fixedBody, payloadOf } from "./Payload.ts"
import { lazily } from "./Program.ts"

/** The event type that was typed, as it stands; one that nobody sends is an error with the nearest that somebody does. */
export const meant = (type: string) => {
  const nearest = Pattern.nearest(type, [...eventTypes, ...relayEventTypes])
  return nearest === undefined ? "" : `: did you mean ${nearest}?`
}

const words = ({ verdict, because }: Router.Explanation): readonly [verdict: string, because: string] => {
  switch (verdict) {
    case "matches":
      return ["takes it", `matches ${because}`]
    case "matches when":
      return ["may take it", `when ${because} holds one of its values`]
    case "resolves":
      return ["takes it", `ends ${because}`]
    case "no pattern matches":
      return ["-", `none of ${because} matches`]
    case "excepted":
      return ["-", `excepted by ${because}`]
    case "other webhook":
      return ["-", `only deliveries of the webhook ${because}`]
    case "where differs":
      return ["-", `${because} holds none of its values`]
  }
}

const printPayload = Effect.fnUntraced(function* (config: RelayConfig, sink: string, type: string, webhook: string) {
  const lane = config.sinks.find(({ name }) => name === sink)
  if (lane === undefined) {
    const names = config.sinks.map(({ name }) => name).join(", ")
    return yield* usage(`there is no sink ${plain(sink)} in the config; it has ${names}`)
  }
  const { sinkTypes } = yield* lazily(() => import("../sinks/Sinks.ts"))
  const payload = payloadOf(lane, sinkTypes[lane.type], webhook, fixedBody(type))
  if (payload === undefined) return yield* usage(`a ${lane.type} sink can't say what it would be sent`)
  yield* print(payload.split("\n").map(plain).join("\n"))
})

export const explain = Command.make(
  "explain",
  {
    type: Argument.String("type").pipe(Argument.withDescription("An event type, such as appointment.created")),
    webhook: Flag.String("webhook").pipe(
      Flag.withMetavar("NAME"),
      Flag.withDescription("As if it came by this webhook; otherwise by any"),
      Flag.optional,
    ),
    payload: Flag.String("payload").pipe(
      Flag.withMetavar("SINK"),
      Flag.withDescription("Print what this sink would be sent of a sample, without its secrets"),
      Flag.optional,
    ),
  },
  Effect.fn(function* ({ type, webhook, payload }) {
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
    const router = Router.of(config)
    const explanations = router.explain(Option.getOrUndefined(webhook), type)
    const taken = (...verdicts: ReadonlyArray<Router.Explanation["verdict"]>) => [
      ...new Set(explanations.filter((_) => verdicts.includes(_.verdict)).flatMap(({ sinks }) => sinks)),
    ]
    const always = taken("matches", "resolves")
    const maybe = taken("matches when").filter((sink) => !always.includes(sink))
    if (yield* Json) return yield* printJson({ type, sinks: always, conditional: maybe, routes: explanations })

    if (!isKnown(type) && !isRelayEvent(type)) {
      yield* say(`${plain(type)} is not in the sender's catalogue${meant(type)}`)
    }
    const style = yield* paint
    yield* print(
      table([
        ["ROUTE", "VERDICT", "WHY", "SINKS"],
        ...explanations.map((explanation) => [explanation.route, ...words(explanation), explanation.sinks.join(", ")]),
      ]),
    )
    const reached = always.length === 0 ? "no sink" : always.join(", ")
    yield* print(
      `\n${plain(type)} ${style("bold", `→ ${reached}`)}${maybe.length === 0 ? "" : `, and maybe ${maybe.join(", ")}`}`,
    )
  }),
).pipe(
  Command.withDescription("Say which routes take an event type, which don't, and why"),
  Command.withExamples([
    { command: "relay explain appointment.meeting.create_failed", description: "Where a failed meeting goes" },
    { command: "relay explain client.created --webhook scheduling", description: "The same for one webhook" },
    {
      command: "relay explain appointment.meeting.create_failed --payload oncall",
      description: "What the sink oncall would be sent",
    },
  ]),
)
