/**
 * The schema of the admin API. The server, the command line's client and
 * /openapi.json are made from it. `Handlers.ts` answers the requests: a client
 * doesn't load it.
 *
 * Lists of events have no payloads. Only a single dead letter or the report of one
 * event has them.
 */
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { EpochMillis } from "../../event/Quantities.ts"
import { AuditRecord } from "../../journal/AuditLog.ts"
import { endings } from "../../journal/LaneInfo.ts"
import { Reloaded, RestartStatus } from "../../reload/Difference.ts"
import { Explanation } from "../../routing/Explanation.ts"
import { ReplayGroup } from "../replay/ReplayReport.ts"
import { LaneHistory, RelayHistory, Status } from "../status/Status.ts"
import { Authorization, Count, Invalid, NotFound, Refused, SchemaErrors, TooMany, Unavailable } from "./ApiParts.ts"
import { DeadLetterGroup } from "./DeadLetterApi.ts"
import { EventGroup } from "./EventApi.ts"
import { Imported, Kept } from "./ImportLine.ts"
import { Tap, TapLine, tapFilter, tapPosition } from "./LiveTail.ts"

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

const names = Schema.Array(Schema.String)

/** A route of the active config. */
export const Route = Schema.Struct({
  name: Schema.String,
  match: names,
  except: names,
  webhook: Schema.optionalKey(Schema.String),
  /** The hours in which it applies, such as `08:00-18:00 Europe/Berlin`. */
  within: Schema.optionalKey(Schema.String),
  /** Conditions on an event, as in the config. */
  where: Schema.Record(Schema.String, Schema.Unknown),
  to: names,
  /** Deliveries since the start that match the route's types and webhook. With `where` or `within`, this is an upper limit. */
  count: Schema.Int,
})
export type Route = typeof Route.Type

/** The routes' verdict on an event type. */
export const TypeReport = Schema.Struct({
  type: Schema.String,
  /** Whether the type is in the sender's catalogue or is the relay's own. */
  isKnown: Schema.Boolean,
  sinks: names,
  /** The sinks of routes with `where` or `within`. The event decides on them. */
  conditional: names,
  routes: Schema.Array(Explanation),
})
export type TypeReport = typeof TypeReport.Type

/** The routes of the active config. */
export class RouteGroup extends HttpApiGroup.make("routes").add(
  HttpApiEndpoint.get("list", "/routes", { success: Schema.Array(Route) }),
  /** Treats the event as received by `webhook` (default: any). */
  HttpApiEndpoint.get("explain", "/routes/explain", {
    query: { type: Schema.String, webhook: Schema.optionalKey(Schema.String) },
    success: TypeReport,
    error: NotFound,
  }),
) {}

export { Reloaded }

/** A page of records, newest first. `next` is the `before` of the next page; absent on the last. */
export const AuditPage = Schema.Struct({ records: Schema.Array(AuditRecord), next: optional(Schema.Int) })
export type AuditPage = typeof AuditPage.Type

const audit = HttpApiEndpoint.get("audit", "/audit", {
  query: {
    /** At or after this time. */
    since: optional(Schema.FiniteFromString.annotate({ description: "Epoch milliseconds" })),
    before: optional(Schema.FiniteFromString.check(Schema.isInt())),
    limit: optional(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 1, maximum: 1000 }))),
  },
  success: AuditPage,
  error: Unavailable,
})

/** The relay as a whole. 503 means that the journal can't answer now. */
export class RelayGroup extends HttpApiGroup.make("relay", { topLevel: true }).add(
  HttpApiEndpoint.get("status", "/status", { success: Status, error: Unavailable }),
  HttpApiEndpoint.get("history", "/history", { success: RelayHistory }),
  HttpApiEndpoint.get("tap", "/tap", {
    query: tapFilter,
    success: HttpApiSchema.StreamNdjson({ schema: TapLine }),
    error: [NotFound, Refused, TooMany],
  }),
  /**
   * Returns the events since `next` of the previous answer, for a reader that polls. The first answer has no events.
   */
  HttpApiEndpoint.get("tapSince", "/tap/since", {
    query: { ...tapFilter, sequence: tapPosition, refusals: tapPosition },
    success: Tap,
    error: [NotFound, Refused],
  }),
  audit,
  HttpApiEndpoint.post("reload", "/reload", {
    success: Reloaded,
    error: [Invalid, Refused, Unavailable],
  }),
  /** Answers once the second process listens. `restartStatus` then reports the result. */
  HttpApiEndpoint.post("restart", "/restart", { success: Schema.Struct({ pid: Schema.Int }), error: Refused }),
  HttpApiEndpoint.get("restartStatus", "/restart", {
    success: Schema.Struct({ ...RestartStatus.fields, version: Schema.String }),
  }),
  HttpApiEndpoint.post("import", "/journal/import", {
    payload: Schema.Struct({ events: Schema.Array(Kept) }),
    success: Imported,
    error: [Refused, Unavailable],
  }),
  HttpApiEndpoint.post("acknowledge", "/journal/acknowledge", { error: Unavailable }),
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
