/**
 * The schema of the admin API. The server, the command line's client and
 * /openapi.json are made from it. `Handlers.ts` answers the requests: a client
 * doesn't load it.
 *
 * Lists of events have no payloads. Only a single dead letter or the report of one
 * event has them.
 */
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { EpochMillis } from "../../event/Quantities.ts"
import { endings } from "../../journal/LaneInfo.ts"
import { ReplayGroup } from "../replay/ReplayReport.ts"
import { LaneHistory } from "../status/Status.ts"
import { Authorization, Count, NotFound, Refused, SchemaErrors, Unavailable } from "./ApiParts.ts"
import { DeadLetterGroup } from "./DeadLetterApi.ts"
import { EventGroup } from "./EventApi.ts"
import { RelayGroup } from "./RelayApi.ts"
import { RouteGroup } from "./RouteApi.ts"

const optional = Schema.optionalKey
const name = { name: Schema.String }

/** A year in milliseconds. */
const longestPause = 365 * 86_400_000

const Ending = Schema.Literals(endings).annotate({ message: `ending is one of ${endings.join(", ")}` })

/** Changes of lanes. `move` and `drop` are for lanes without a sink in the config; others get a 409. */
class LaneGroup extends HttpApiGroup.make("lanes").add(
  HttpApiEndpoint.get("history", "/lanes/:name/history", {
    params: name,
    success: LaneHistory,
    error: [NotFound, Unavailable],
  }),
  /** With `for`, in milliseconds, the pause ends by itself: at `until`. `ending` needs such an end. */
  HttpApiEndpoint.post("pause", "/lanes/:name/pause", {
    params: name,
    query: {
      for: optional(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 1_000, maximum: longestPause }))),
      ending: optional(Ending),
    },
    success: Schema.Struct({ until: optional(EpochMillis), ending: optional(Ending) }),
    error: [NotFound, Refused, Unavailable],
  }),
  HttpApiEndpoint.post("resume", "/lanes/:name/resume", {
    params: name,
    error: [NotFound, Unavailable],
  }),
  HttpApiEndpoint.post("move", "/lanes/:name/move", {
    params: name,
    payload: Schema.Struct({ to: Schema.String }),
    success: Count,
    error: [NotFound, Refused, Unavailable],
  }),
  HttpApiEndpoint.post("drop", "/lanes/:name/drop", {
    params: name,
    success: Count,
    error: [NotFound, Refused, Unavailable],
  }),
) {}

/** A message of an alert: the sequence of its event, its action, and the time of the decision. */
const SentMessage = Schema.Struct({
  sequence: Schema.Int,
  action: Schema.Literals(["trigger", "update", "reminder", "resolve"]),
  at: EpochMillis,
})

/** An alert of a sink with `alert`. Times are epoch milliseconds. */
export const AlertReport = Schema.Struct({
  sink: Schema.String,
  /** The sequence of its first failure. Events that it counts have it as `alert`. */
  id: Schema.Int,
  status: Schema.Literals(["pending", "firing", "acknowledged", "muted", "resolved"]),
  /** The type and the account of its newest failure. The account is empty if that is erased or no longer kept. */
  type: Schema.String,
  account: Schema.String,
  /** The number of its failures, and when the first and the newest were received. */
  count: Schema.Int,
  first: EpochMillis,
  last: EpochMillis,
  /** The sequence of the newest failure. */
  newest: Schema.Int,
  /** The number of other failures that it silenced. */
  others: optional(Schema.Int),
  /** The number of messages, and when the last was decided. */
  messages: Schema.Int,
  sentAt: EpochMillis,
  /** When the next reminder is due. */
  remindsAt: optional(EpochMillis),
  /** When its mute ends. */
  mutedUntil: optional(EpochMillis),
  /** Its newest messages, oldest first. */
  sent: Schema.Array(SentMessage),
})
export type AlertReport = typeof AlertReport.Type

/** An alert with its messages and its events. Erased events and their messages are left out. */
export const AlertDetails = Schema.Struct({
  alert: AlertReport,
  /** The type of its sink and the target, without secrets. */
  to: Schema.String,
  /** Its newest messages, oldest first. */
  messages: Schema.Array(
    Schema.Struct({
      ...SentMessage.fields,
      /** How its event ended at the sink and when, and the number of attempts. Absent if the event is no longer kept. */
      outcome: optional(Schema.String),
      endedAt: optional(EpochMillis),
      tries: optional(Schema.Int),
    }),
  ),
  /** The newest of its events that sent no message, newest first, and whether there are more. */
  events: Schema.Array(
    Schema.Struct({
      sequence: Schema.Int,
      id: Schema.String,
      type: Schema.String,
      account: Schema.String,
      receivedAt: EpochMillis,
    }),
  ),
  hasMore: Schema.Boolean,
})
export type AlertDetails = typeof AlertDetails.Type

const alertParams = { sink: Schema.String, id: Schema.FiniteFromString.check(Schema.isInt()) }

/** The list has the alerts of all relays, firing ones first. The relay that delivers the sink takes requests. */
class AlertGroup extends HttpApiGroup.make("alerts").add(
  HttpApiEndpoint.get("list", "/alerts", { success: Schema.Array(AlertReport), error: Unavailable }),
  HttpApiEndpoint.get("show", "/alerts/:sink/:id", {
    params: alertParams,
    success: AlertDetails,
    error: [NotFound, Unavailable],
  }),
  /** Stops its reminders. */
  HttpApiEndpoint.post("acknowledge", "/alerts/:sink/:id/acknowledge", {
    params: alertParams,
    error: [NotFound, Unavailable],
  }),
  HttpApiEndpoint.post("resolve", "/alerts/:sink/:id/resolve", {
    params: alertParams,
    error: [NotFound, Unavailable],
  }),
  /** Sends nothing for `for` milliseconds; its failures count. Another mute replaces the end. */
  HttpApiEndpoint.post("mute", "/alerts/:sink/:id/mute", {
    params: alertParams,
    query: { for: Schema.FiniteFromString.check(Schema.isBetween({ minimum: 1_000, maximum: longestPause })) },
    success: Schema.Struct({ until: EpochMillis }),
    error: [NotFound, Unavailable],
  }),
) {}

export class Api extends HttpApi.make("relay-admin")
  .add(RelayGroup, LaneGroup, AlertGroup, DeadLetterGroup, EventGroup, ReplayGroup, RouteGroup)
  .prefix("/api/v1")
  .middleware(Authorization)
  .middleware(SchemaErrors)
  // A misspelt field must not be ignored, because a filter without the field would match more events.
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error" })
  .annotate(HttpApi.QueryParseOptions, { onExcessProperty: "error" })
  .annotateMerge(OpenApi.annotations({ title: "relay admin API" })) {}
