/**
 * The schema of the admin API, which the command line uses. The server, the
 * client and /openapi.json are made from it.
 *
 * Lists of events have no payloads. Only one dead letter, or the report of one
 * event, has them.
 */
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiMiddleware, HttpApiSchema, OpenApi } from "effect/http-api"
import { roles } from "../config/Config.ts"
import { Diagnostic } from "../config/diagnostics/Diagnostic.ts"
import { laneConditions } from "../delivery/LaneStatus.ts"
import { Bytes, EpochMillis, Millis } from "../event/Quantities.ts"
import { Difference } from "../reload/Difference.ts"
import { Explanation } from "../routing/Explanation.ts"
import { BadRequest, Forbidden, Invalid, NotFound, Refused, TooMany, Unavailable } from "./ApiErrors.ts"
import { audit } from "./AuditApi.ts"
import { Erasure, ErasureRequest } from "./ErasureApi.ts"
import { DeliveryStatus, Event, Kept as KeptEvents } from "./EventApi.ts"
import { EpochMillisFromString, LetterSelection, letterQuery, selectionQuery } from "./EventSelection.ts"
import { Fleet } from "./FleetApi.ts"
import { History, Hour, LaneHistory, Totals } from "./HistoryApi.ts"
import { Attempt, Imported, Kept } from "./ImportLine.ts"
import { Refusals } from "./RefusedRequest.ts"
import { DeadLettersPreview, Rate, Replays, Stayed } from "./ReplayApi.ts"
import { Routes } from "./RoutesApi.ts"
import { Tap, TapLine, tapFilter, tapPosition } from "./TapApi.ts"

export * from "./ApiErrors.ts"
export { AuditPage, AuditRecord } from "./AuditApi.ts"
export * from "./ErasureApi.ts"
export * from "./EventApi.ts"
export { type EventSelection, type LetterSelection, outcomes } from "./EventSelection.ts"
export * from "./HistoryApi.ts"
export * from "./ReplayApi.ts"
export * from "./RoutesApi.ts"
export { type Tap, TapLine, Tapped } from "./TapApi.ts"

const optional = Schema.optionalKey
const limit = optional(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 1, maximum: 1000 })))

/** The journal's health and size. `red`: events were lost or damaged; `message` says which. */
export const Journal = Schema.Struct({
  health: Schema.Literals(["starting", "ok", "unavailable", "full", "broken", "red"]),
  message: Schema.String,
  path: optional(Schema.String),
  /** Entries appended so far by all relays on it: events, and the copies that replays and moves append. */
  head: Schema.Int,
  /** `head + 1` less the events that it still has. */
  tail: Schema.Int,
  usedBytes: Bytes,
  maxBytes: Bytes,
  walBytes: optional(Bytes),
  freeDiskBytes: optional(Bytes),
  /** When its server answered last, which is the time of the figures; absent while it answers. */
  answeredAt: optional(EpochMillis),
  filling: Schema.Literals([0, 50, 80, 95]),
})

/** A lane, which delivers the events of one sink; `condition` says whether it does. */
export const Lane = Schema.Struct({
  name: Schema.String,
  type: Schema.String,
  /** Where the sink sends, without secrets: `events at broker:9092`. Absent if the config names no target. */
  target: optional(Schema.String),
  condition: Schema.Literals(laneConditions),
  message: Schema.String,
  /** Whether it sends digests. */
  digest: Schema.optionalKey(Schema.Literal(true)),
  /** Events routed to it and not settled, those that wait for a retry or for their digest included. */
  backlog: Schema.Int,
  /** Events that wait for another attempt. After a digest failed, those of the next one may be among them. */
  retrying: Schema.Int,
  /** Events of digests that no attempt was made to send; absent where there are none. */
  collecting: optional(Schema.Int),
  deadLetters: Schema.Int,
  /** When the oldest event that is not settled was received; 0 when there is none. */
  oldestAt: EpochMillis,
  /** The time within which 99 of 100 attempts of the last five minutes ended, read from a histogram; absent without attempts. */
  p99: optional(Millis),
  /** When its pause ends by itself; absent while it is not paused, or has no end. */
  pausedUntil: optional(EpochMillis),
  /** When the next attempt is due, while events or the sink wait for their time. */
  nextAttemptAt: optional(EpochMillis),
  /** The last attempt that failed since the start. */
  lastFailure: optional(Schema.Struct({ at: EpochMillis, message: Schema.String })),
})
export type Lane = typeof Lane.Type

/** A webhook of the active config, without the values of its secrets. */
export const Webhook = Schema.Struct({
  name: Schema.String,
  secrets: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      /** Absent when it does not expire. */
      expires: optional(EpochMillis),
      /** When it last verified a delivery; 0 if neither this run nor the journal's newest events have one. */
      lastUsed: EpochMillis,
    }),
  ),
  /** When it last accepted a delivery; absent like a secret's. */
  lastDelivery: optional(EpochMillis),
  /** Its sender is silent: since its last delivery or the start, for more than `silentAfter`. */
  silentSince: optional(EpochMillis),
})
export type Webhook = typeof Webhook.Type

/** A certificate in use. */
export const Certificate = Schema.Struct({
  /** The key of the config that names it: `tls.certificate`. */
  key: Schema.String,
  subject: Schema.String,
  notBefore: EpochMillis,
  notAfter: EpochMillis,
  /** Its SHA-256. */
  fingerprint: Schema.String,
  /** Why a sender may not be able to verify it, what to do, and whether an intermediate is missing for certain. */
  chain: optional(Schema.Struct({ message: Schema.String, hint: Schema.String, isSure: Schema.Boolean })),
})

/** The active config. */
export const Config = Schema.Struct({
  loadedAt: EpochMillis,
  /** Why the last reload was refused; empty when it was not. */
  refusal: Schema.String,
  /** The file was replaced, and the relay can't read the new one: a container mounts the file itself. */
  isReplaced: Schema.optionalKey(Schema.Literal(true)),
})

/** The status, which `relay status` and the page show. */
export const Status = Schema.Struct({
  version: Schema.String,
  configFile: Schema.String,
  startedAt: EpochMillis,
  /** The relay's clock: ages count from it. */
  now: EpochMillis,
  /** The caller has this name and role, by the token that was sent. */
  caller: Schema.Struct({ name: Schema.String, role: Schema.Literals(roles) }),
  draining: Schema.Boolean,
  /** Why no delivery can be accepted now; empty when it can. */
  notReady: Schema.String,
  config: Config,
  journal: Journal,
  /** Counted by this relay, since its start. */
  totals: Totals,
  /** Counted by this relay, also before its last start where its journal is a file. */
  hour: Hour,
  /** Long-running work and its progress from 0 to 1: `replay to lake`. */
  work: Schema.Array(Schema.Struct({ what: Schema.String, share: Schema.Finite })),
  webhooks: Schema.Array(Webhook),
  certificates: Schema.Array(Certificate),
  /** The most frequent first. */
  refusals: Schema.Array(Refusals),
  /** The lanes of all relays together. */
  lanes: Schema.Array(Lane),
  /** Absent where there can be but one relay. */
  fleet: optional(Fleet),
})
export type Status = typeof Status.Type

/** An event that could not be delivered to a sink, without its payload. */
export const DeadLetter = Schema.Struct({
  /** The lane and the sequence: `lake:42`. */
  id: Schema.String,
  lane: Schema.String,
  eventId: Schema.String,
  type: Schema.String,
  accountId: Schema.String,
  webhook: Schema.String,
  receivedAt: EpochMillis,
  /** When its body, signature and answers were erased: it can't be replayed. */
  erased: optional(EpochMillis),
  /** When it became a dead letter. */
  at: EpochMillis,
  attempts: Schema.Array(Attempt),
})
export type DeadLetter = typeof DeadLetter.Type

/** `looked` events were searched, the last of them received at `lookedTo`; `next` is absent on the last page. */
const pageOf = <S extends Schema.Top>(event: S) =>
  Schema.Struct({
    events: Schema.Array(event),
    looked: Schema.Int,
    lookedTo: EpochMillis,
    next: optional(Schema.String),
    /** If the whole journal was searched and no event was found. */
    kept: optional(KeptEvents),
  })

export const EventPage = pageOf(Event)

/** All that is known of an event. */
export const EventReport = Schema.Struct({
  ...Event.fields,
  webhookId: Schema.String,
  /** The signature header as received, and the name of the secret that verified it; empty for the relay's own events. */
  signature: Schema.String,
  secret: Schema.String,
  /** Why it is in quarantine. */
  problem: optional(Schema.String),
  /** Bytes of the body. */
  size: Schema.Int,
  sinks: Schema.Array(
    Schema.Struct({
      ...DeliveryStatus.fields,
      /** The reason why its lane waits, while the event is pending or retrying. */
      lane: optional(Schema.String),
      /** Rendered now, by the config in force. */
      payload: optional(Schema.Unknown),
      /** The sink sends digests or batches: that of several events has another body and idempotency key. */
      sentIn: optional(Schema.Literals(["digest", "batch"])),
      /** Why there is none. */
      note: optional(Schema.String),
    }),
  ),
  /** The verdicts of the routes in force; empty for an event without a type. */
  routes: Schema.Array(Explanation),
})
export type EventReport = typeof EventReport.Type

export const EventReports = pageOf(EventReport)
export type EventReports = typeof EventReports.Type

/** With the signed bytes in base64, because they need not be UTF-8. */
export const DeadLetterInFull = Schema.Struct({ ...DeadLetter.fields, signature: Schema.String, body: Schema.String })

const LetterIds = Schema.Struct({ ids: Schema.NonEmptyArray(Schema.String) })

/** Dead letters by their ids, or all that are selected. */
export const Selection = Schema.Union([LetterIds, LetterSelection])
export type Selection = typeof Selection.Type

const atRate = { rate: optional(Rate) }
/** Dead letters to replay. */
export const LetterReplay = Schema.Union([
  Schema.Struct({ ...LetterIds.fields, ...atRate }),
  Schema.Struct({ ...LetterSelection.fields, ...atRate }),
])

/** The result of a reload: the changes that it made, and its warnings. */
export const Reloaded = Schema.Struct({
  /** The path of the file that the relay read. */
  file: Schema.String,
  /** When it was last changed; absent for the embedded defaults. */
  changedAt: Schema.optionalKey(Schema.Finite),
  changes: Schema.Array(Difference),
  /** A note that an operator should read. */
  notes: Schema.Array(Schema.String),
  warnings: Schema.Array(Diagnostic),
})

/** The process that answers, and the last restart. */
export const RestartStatus = Schema.Struct({
  pid: Schema.Int,
  version: Schema.String,
  /** Why this process goes on after a restart that failed. */
  failure: Schema.optionalKey(Schema.String),
  /** Milliseconds without an open journal, if this process took over from another one. */
  took: Schema.optionalKey(Schema.Finite),
  /** Milliseconds of the last start, if a restart stops this process and the service manager starts it again. */
  stops: Schema.optionalKey(Schema.Finite),
})

export const Count = Schema.Struct({ count: Schema.Int })

/** The result of a replay of dead letters. */
export const Replayed = Schema.Struct({
  count: Schema.Int,
  stayed: Stayed,
  /** Left out, because their bodies were erased. */
  erased: Schema.Int,
})
export type Replayed = typeof Replayed.Type

/** Answers requests that don't match the schema. */
export class SchemaErrors extends HttpApiMiddleware.Service<SchemaErrors>()("relay/admin/SchemaErrors", {
  error: BadRequest,
}) {}

/** Lets only those change something whose role allows it, and records what they do. */
export class Authorization extends HttpApiMiddleware.Service<Authorization>()("relay/admin/Authorization", {
  error: Forbidden,
}) {}

const name = { name: Schema.String }

/** The relay as a whole. 503: the journal can't answer now. */
export class Relay extends HttpApiGroup.make("relay", { topLevel: true }).add(
  HttpApiEndpoint.get("status", "/status", { success: Status, error: Unavailable }),
  HttpApiEndpoint.get("history", "/history", { success: History }),
  HttpApiEndpoint.get("tap", "/tap", {
    query: tapFilter,
    success: HttpApiSchema.StreamNdjson({ schema: TapLine }),
    error: [NotFound, Refused, TooMany],
  }),
  /** Answers with the news behind the `next` of the answer before, for a reader that asks again and again; the first answer has none. */
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
  /** Answers once the second process listens; `restartStatus` then says how it ended. */
  HttpApiEndpoint.post("restart", "/restart", { success: Schema.Struct({ pid: Schema.Int }), error: Refused }),
  HttpApiEndpoint.get("restartStatus", "/restart", { success: RestartStatus }),
  HttpApiEndpoint.post("import", "/journal/import", {
    payload: Schema.Struct({ events: Schema.Array(Kept) }),
    success: Imported,
    error: [Refused, Unavailable],
  }),
  HttpApiEndpoint.post("acknowledge", "/journal/acknowledge", { error: Unavailable }),
) {}

/** A year in milliseconds. */
const longestPause = 365 * 86_400_000

/** Changes of lanes. `move` and `drop` are for lanes without a sink in the config; others get a 409. */
export class Lanes extends HttpApiGroup.make("lanes").add(
  HttpApiEndpoint.get("history", "/lanes/:name/history", {
    params: name,
    success: LaneHistory,
    error: [NotFound, Unavailable],
  }),
  /** With `for`, in milliseconds, the pause ends by itself: at `until`. */
  HttpApiEndpoint.post("pause", "/lanes/:name/pause", {
    params: name,
    query: {
      for: optional(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 1_000, maximum: longestPause }))),
    },
    success: Schema.Struct({ until: optional(EpochMillis) }),
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

/** Dead letters, newest first; `before` is the id that ended the page before. */
export class DeadLetters extends HttpApiGroup.make("deadLetters").add(
  HttpApiEndpoint.get("list", "/dead-letters", {
    query: {
      ...letterQuery,
      before: optional(Schema.String),
      limit,
    },
    success: Schema.Array(DeadLetter),
    error: [NotFound, Refused, Unavailable],
  }),
  HttpApiEndpoint.get("show", "/dead-letters/:id", {
    params: { id: Schema.String },
    success: DeadLetterInFull,
    error: [NotFound, Unavailable],
  }),
  HttpApiEndpoint.post("replay", "/dead-letters/replay", {
    payload: LetterReplay,
    success: Replayed,
    error: [NotFound, Refused, Unavailable],
  }),
  /** Counts what a replay would do. */
  HttpApiEndpoint.post("preview", "/dead-letters/preview", {
    payload: Selection,
    success: DeadLettersPreview,
    error: [NotFound, Refused, Unavailable],
  }),
  HttpApiEndpoint.post("drop", "/dead-letters/drop", {
    payload: Selection,
    success: Count,
    error: [NotFound, Refused, Unavailable],
  }),
) {}

/** Events of the journal, newest first; and erasing them. */
export class Events extends HttpApiGroup.make("events").add(
  HttpApiEndpoint.get("list", "/events", {
    query: {
      ...selectionQuery,
      /** Delivered to a sink at or after this time. */
      deliveredAfter: optional(EpochMillisFromString),
      /** With more attempts than that at a sink. */
      attemptsOver: optional(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 0, maximum: 1e9 }))),
      /** The `next` of the page before. */
      before: optional(Schema.String),
      limit,
    },
    success: EventPage,
    error: [Refused, Unavailable],
  }),
  /** By its id, or by its place in the log: `seq_42`. Personal data is masked unless `reveal` is `true`. */
  HttpApiEndpoint.get("explain", "/events/:id", {
    params: { id: Schema.String },
    query: { reveal: optional(Schema.Literal("true")) },
    success: EventReports,
    error: Unavailable,
  }),
  /** Overwrites bodies, answers and signatures. Answers when it is done. */
  HttpApiEndpoint.post("erase", "/events/erase", {
    payload: ErasureRequest,
    success: Erasure,
    error: [Refused, Unavailable],
  }),
) {}

export class Api extends HttpApi.make("relay-admin")
  .add(Relay)
  .add(Lanes)
  .add(DeadLetters)
  .add(Events)
  .add(Replays)
  .add(Routes)
  .prefix("/api/v1")
  .middleware(Authorization)
  .middleware(SchemaErrors)
  // A misspelt field must not count as one that is left out: in a filter that means "all of them".
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error" })
  .annotate(HttpApi.QueryParseOptions, { onExcessProperty: "error" })
  .annotateMerge(OpenApi.annotations({ title: "relay admin API" })) {}
