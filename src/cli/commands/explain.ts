/**
 * `relay explain TYPE`: shows which routes match an event type and why, or the
 * payload that a sink would receive. `relay explain EVENT_ID` shows an event's
 * report, which `support/eventReport.ts` renders.
 */
import { Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import type { Loaded } from "../../config/load/Load.ts"
import { type AlertAction, alertActions } from "../../event/Event.ts"
import { eventTypes, isKnown, isRelayEvent } from "../../event/EventType.ts"
import { reached } from "../../routing/Explanation.ts"
import * as Router from "../../routing/Router.ts"
import { explainEvent, routesTable } from "../reports/eventReport.ts"
import { usage } from "../support/CommandError.ts"
import { argument, Json, text, toggle, withExamples } from "../support/flags.ts"
import { actionProblem, fixedBody, payloadOf, typeFor, withAbsent } from "../support/goldenFiles.ts"
import { loadForCheck } from "../support/loadConfig.ts"
import { paint, plain, print, printJson, printWhole, say, width } from "../support/output.ts"
import { suggestType, timesOf } from "../support/values.ts"

/** Reports whether the text is an event's id. Types have dots, except for other senders', which need `--webhook`. */
const isEventId = (text: string, hasWebhook: boolean): boolean =>
  /^(evt|seq)_/.test(text) ||
  !(hasWebhook || text.includes(".") || suggestType(text) !== "" || eventTypes.some((type) => type.startsWith(text)))

const printPayload = Effect.fnUntraced(function* (
  { config, absent }: Pick<Loaded, "config" | "absent">,
  sink: string,
  type: string,
  webhook: string,
  action: AlertAction,
) {
  const lane = config.sinks.find(({ name }) => name === sink)
  if (lane === undefined) {
    const names = config.sinks.map(({ name }) => name).join(", ")
    return yield* usage(`there is no sink ${plain(sink)} in the config; it has ${names}`)
  }
  const problem = actionProblem(lane, action)
  if (problem !== undefined) return yield* usage(problem)
  const payload = payloadOf(withAbsent(lane, absent), webhook, fixedBody(type), action)
  if (payload === undefined) return yield* usage(`a sink of the type ${lane.type} can't show its payload`)
  yield* printWhole(payload.split("\n").map(plain).join("\n"))
})

interface Asked {
  readonly webhook: Option.Option<string>
  readonly payload: Option.Option<string>
  readonly action: AlertAction
  readonly at: Option.Option<string>
}

const explainType = Effect.fnUntraced(function* (type: string, { webhook, payload, action, ...time }: Asked) {
  const loaded = yield* loadForCheck
  const { config } = loaded
  const names = config.webhooks.map(({ name }) => name)
  if (Option.isSome(webhook) && !names.includes(webhook.value)) {
    return yield* usage(`there is no webhook ${plain(webhook.value)} in the config; it has ${names.join(", ")}`)
  }
  const isOthers = config.webhooks.some(
    ({ name, sender }) =>
      sender?.types.includes(type) || (sender?.types.length === 0 && Option.contains(webhook, name)),
  )
  if (!isOthers && !type.includes(".")) {
    return yield* usage(`${plain(type)} is not an event type${suggestType(type)}`)
  }
  if (Option.isSome(payload)) {
    const by = isRelayEvent(type) ? "relay" : Option.getOrElse(webhook, () => names[0] ?? "")
    const shown = typeFor(type, action)
    if (shown === undefined) return yield* usage(`no event ends a ${plain(type)}, so nothing resolves it`)
    return yield* printPayload(loaded, payload.value, shown, by, action)
  }
  const { at } = yield* timesOf({ at: time.at })
  const explanations = Router.of(config).explain(Option.getOrUndefined(webhook), type, { at })
  const { sinks, conditional } = reached(explanations)
  if (yield* Json) return yield* printJson({ type, sinks, conditional, routes: explanations })

  if (!isOthers && !isKnown(type) && !isRelayEvent(type)) {
    yield* say(`${plain(type)} is not in the sender's catalogue${suggestType(type)}`)
  }
  const style = yield* paint
  yield* print(routesTable(explanations, yield* width))
  const always = style("bold", `→ ${sinks.join(", ") || "no sink"}`)
  const maybe = conditional.length === 0 ? "" : `, and possibly ${conditional.join(", ")}`
  yield* print(`\n${plain(type)} ${always}${maybe}`)
})

export const explain = Command.make(
  "explain",
  {
    what: argument("type|event", "An event type, such as appointment.created, or the id of an event in the journal"),
    webhook: text("webhook", "NAME", "As if received by this webhook (default: any)"),
    payload: text(
      "payload",
      "SINK",
      "Print only the payload for this sink, without secrets; for a type, the payload of a sample",
    ),
    action: Flag.Literals("action", alertActions).pipe(
      Flag.withDescription(
        "With --payload and a failure's type: the payload that opens an alert, changes its count, reminds of it, or ends it",
      ),
      Flag.withDefault("trigger"),
    ),
    at: text(
      "at",
      "TIME",
      "As if received at this time, for routes with `within`: 2026-11-20T20:00:00Z (default: any)",
    ),
    reveal: toggle("reveal", "Show the payload of an event without masking personal data"),
  },
  Effect.fn(function* ({ what, ...asked }) {
    if (isEventId(what, Option.isSome(asked.webhook))) {
      if (Option.isSome(asked.at)) return yield* usage("--at applies to a type: an event has its own time of receipt")
      return yield* explainEvent(what, asked)
    }
    if (asked.reveal) return yield* usage("--reveal applies to an event: the sample of a type holds no personal data")
    return yield* explainType(what, asked)
  }),
).pipe(
  withExamples({
    "relay explain appointment.meeting.create_failed": "Where a failed meeting goes",
    "relay explain client.created --webhook scheduling": "For one webhook only",
    "relay explain appointment.meeting.create_failed --at 2026-11-20T22:00:00Z":
      "Where it goes at night, by routes with `within`",
    "relay explain appointment.meeting.create_failed --payload oncall": "The payload for the sink oncall",
    "relay explain appointment.meeting.create_failed --payload oncall --action resolve":
      "The payload that ends its alert",
    "relay explain evt_8sZ2kQ": "An event: signature, routes, attempts, and the payload for each sink",
  }),
)
