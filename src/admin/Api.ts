/**
 * The schema of the admin API. The server, the command line's client and
 * /openapi.json are made from it.
 *
 * Lists of events have no payloads. Only a single dead letter or the report of one
 * event has them.
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

/** The journal's health and size. `red` means that events were lost or damaged, and `message` says which. */
export const Journal = Schema.Struct({
  health: Schema.Literals(["starting", "ok", "unavailable", "full", "broken", "red"]),
  message: Schema.String,
  path: optional(Schema.String),
  /** The number of entries that all relays have appended: events, and copies by replays and moves. */
  head: Schema.Int,
  /** `head + 1` minus the number of events that the journal still has. */
  tail: Schema.Int,
  usedBytes: Bytes,
  maxBytes: Bytes,
  walBytes: optional(Bytes),
  freeDiskBytes: optional(Bytes),
  /** When its server last answered, which is the time of the figures. Absent while it answers. */
  answeredAt: optional(EpochMillis),
  filling: Schema.Literals([0, 50, 80, 95]),
})

/** A lane, which delivers the events of one sink. `condition` says whether it delivers now. */
export const Lane = Schema.Struct({
  name: Schema.String,
  type: Schema.String,
  /** The sink's target without secrets, such as `events at broker:9092`. Absent if the config names none. */
  target: optional(Schema.String),
  condition: Schema.Literals(laneConditions),
  message: Schema.String,
  /** Whether it sends digests. */
  digest: Schema.optionalKey(Schema.Literal(true)),
  /** Events routed to the sink and not settled, including those that wait for a retry or a digest. */
  backlog: Schema.Int,
  /** Events that wait for another attempt. After a digest failed, it may include events of the next one. */
  retrying: Schema.Int,
  /** Events of digests that were not attempted yet. Absent if there are none. */
  collecting: optional(Schema.Int),
  deadLetters: Schema.Int,
  /** When the oldest unsettled event was received, or 0 if there is none. */
  oldestAt: EpochMillis,
  /** The 99th percentile of attempt durations over the last five minutes, from a histogram. Absent without attempts. */
  p99: optional(Millis),
  /** When its pause ends by itself; absent while it is not paused, or has no end. */
  pausedUntil: optional(EpochMillis),
  /** When the next attempt is due, if the lane waits for a retry or for the sink. */
  nextAttemptAt: optional(EpochMillis),
  /** The last failed attempt since the start. */
  lastFailure: optional(Schema.Struct({ at: EpochMillis, message: Schema.String })),
})
export type Lane = typeof Lane.Type

/** A webhook of the active config, without the values of its secrets. */
export const Webhook = Schema.Struct({
  name: Schema.String,
  secrets: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      /** Absent if it does not expire. */
      expires: optional(EpochMillis),
      /** When it last verified a delivery; 0 if neither this run nor the journal's newest events have one. */
      lastUsed: EpochMillis,
    }),
  ),
  /** When the webhook last accepted a delivery. Absent if neither this run nor the journal's newest events have one. */
  lastDelivery: optional(EpochMillis),
  /** Set if the sender is silent: the time of its last delivery or of the start, more than `silentAfter` ago. */
  silentSince: optional(EpochMillis),
})
export type Webhook = typeof Webhook.Type

/** A certificate in use. */
export const Certificate = Schema.Struct({
  /** The config key of the certificate, such as `tls.certificate`. */
  key: Schema.String,
  subject: Schema.String,
  notBefore: EpochMillis,
  notAfter: EpochMillis,
  /** The SHA-256 of the certificate. */
  fingerprint: Schema.String,
  /**
   * Why a sender may not be able to verify it, what to do, and whether an intermediate certificate is certainly
   * missing.
   */
  chain: optional(Schema.Struct({ message: Schema.String, hint: Schema.String, isSure: Schema.Boolean })),
})

/** The active config. */
export const Config = Schema.Struct({
  loadedAt: EpochMillis,
  /** Why the last reload was refused; empty if it was not. */
  refusal: Schema.String,
  /** Set if the file was replaced and the relay can't read the new one, because a container mounts the file itself. */
  isReplaced: Schema.optionalKey(Schema.Literal(true)),
})

/** The status, which `relay status` and the page show. */
export const Status = Schema.Struct({
  version: Schema.String,
  configFile: Schema.String,
  startedAt: EpochMillis,
  /** The relay's current time, from which ages are computed. */
  now: EpochMillis,
  /** The caller's name and role, from the token. */
  caller: Schema.Struct({ name: Schema.String, role: Schema.Literals(roles) }),
  draining: Schema.Boolean,
  /** Why no delivery can be accepted now; empty if the relay accepts deliveries. */
  notReady: Schema.String,
  config: Config,
  journal: Journal,
  /** This relay's counts since its start. */
  totals: Totals,
  /** This relay's counts of the last hour. If the journal is a file, they include counts from before the start. */
  hour: Hour,
  /** Long-running work, such as `replay to lake`, and its progress from 0 to 1. */
  work: Schema.Array(Schema.Struct({ what: Schema.String, share: Schema.Finite })),
  webhooks: Schema.Array(Webhook),
  certificates: Schema.Array(Certificate),
  /** Most frequent first. */
  refusals: Schema.Array(Refusals),
  /** The lanes of all relays together. */
  lanes: Schema.Array(Lane),
  /** Absent if the journal allows only one relay. */
  fleet: optional(Fleet),
})
export type Status = typeof Status.Type

/** An event that could not be delivered to a sink, without its payload. */
export const DeadLetter = Schema.Struct({
  /** The lane and the sequence, such as `lake:42`. */
  id: Schema.String,
  lane: Schema.String,
  eventId: Schema.String,
  type: Schema.String,
  accountId: Schema.String,
  webhook: Schema.String,
  receivedAt: EpochMillis,
  /** When its body, signature and answers were erased. An erased dead letter can't be replayed. */
  erased: optional(EpochMillis),
  /** When it became a dead letter. */
  at: EpochMillis,
  attempts: Schema.Array(Attempt),
})
export type DeadLetter = typeof DeadLetter.Type

/**
 * A page of events. `looked` is the number of events searched, and `lookedTo` is
 * when the last of them was received. `next` is absent on the last page.
 */
const pageOf = <S extends Schema.Top>(event: S) =>
  Schema.Struct({
    events: Schema.Array(event),
    looked: Schema.Int,
    lookedTo: EpochMillis,
    next: optional(Schema.String),
    /** Set if the whole journal was searched and no event was found. */
    kept: optional(KeptEvents),
  })

export const EventPage = pageOf(Event)

/** The full report on an event. */
export const EventReport = Schema.Struct({
  ...Event.fields,
  webhookId: Schema.String,
  /** The signature header as received, and the name of the secret that verified it; empty for the relay's own events. */
  signature: Schema.String,
  secret: Schema.String,
  /** Why the event is in quarantine. */
  problem: optional(Schema.String),
  /** Size of the body in bytes. */
  size: Schema.Int,
  sinks: Schema.Array(
    Schema.Struct({
      ...DeliveryStatus.fields,
      /** Why its lane waits, while the event is pending or retrying. */
      lane: optional(Schema.String),
      /** The payload, rendered now by the active config. */
      payload: optional(Schema.Unknown),
      /** Set if the sink sends digests or batches. With several events, the body and the idempotency key differ. */
      sentIn: optional(Schema.Literals(["digest", "batch"])),
      /** Why the payload is absent. */
      note: optional(Schema.String),
    }),
  ),
  /** The verdicts of the active routes; empty for an event without a type. */
  routes: Schema.Array(Explanation),
})
export type EventReport = typeof EventReport.Type

export const EventReports = pageOf(EventReport)
export type EventReports = typeof EventReports.Type

/** A dead letter with its signed bytes in base64, because they may not be UTF-8. */
export const DeadLetterInFull = Schema.Struct({ ...DeadLetter.fields, signature: Schema.String, body: Schema.String })

const LetterIds = Schema.Struct({ ids: Schema.NonEmptyArray(Schema.String) })

/** Dead letters by their ids, or by a selection. */
export const Selection = Schema.Union([LetterIds, LetterSelection])
export type Selection = typeof Selection.Type

const atRate = { rate: optional(Rate) }
/** Dead letters to replay. */
export const LetterReplay = Schema.Union([
  Schema.Struct({ ...LetterIds.fields, ...atRate }),
  Schema.Struct({ ...LetterSelection.fields, ...atRate }),
])

/** The result of a reload: its changes and its warnings. */
export const Reloaded = Schema.Struct({
  /** The path of the file that the relay read. */
  file: Schema.String,
  /** When the file was last changed; absent for the embedded defaults. */
  changedAt: Schema.optionalKey(Schema.Finite),
  changes: Schema.Array(Difference),
  /** A note that an operator should read. */
  notes: Schema.Array(Schema.String),
  warnings: Schema.Array(Diagnostic),
})

/** The answering process and the last restart. */
export const RestartStatus = Schema.Struct({
  pid: Schema.Int,
  version: Schema.String,
  /** Why a restart failed, so that this process continues. */
  failure: Schema.optionalKey(Schema.String),
  /** Milliseconds without an open journal, if this process took over from another. */
  took: Schema.optionalKey(Schema.Finite),
  /**
   * Duration of the last start in milliseconds, if a restart stops this process and the service manager starts it
   * again.
   */
  stops: Schema.optionalKey(Schema.Finite),
})

export const Count = Schema.Struct({ count: Schema.Int })

/** The result of a replay of dead letters. */
export const Replayed = Schema.Struct({
  count: Schema.Int,
  stayed: Stayed,
  /** Dead letters that were left out because their bodies were erased. */
  erased: Schema.Int,
})
export type Replayed = typeof Replayed.Type

/** Answers requests that don't match the schema. */
export class SchemaErrors extends HttpApiMiddleware.Service<SchemaErrors>()("relay/admin/SchemaErrors", {
  error: BadRequest,
}) {}

/** Allows changes only if the caller's role permits them, and records them. */
export class Authorization extends HttpApiMiddleware.Service<Authorization>()("relay/admin/Authorization", {
  error: Forbidden,
}) {}

const name = { name: Schema.String }

/** The relay as a whole. 503 means that the journal can't answer now. */
export class Relay extends HttpApiGroup.make("relay", { topLevel: true }).add(
  HttpApiEndpoint.get("status", "/status", { success: Status, error: Unavailable }),
  HttpApiEndpoint.get("history", "/history", { success: History }),
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

/** Dead letters, newest first. `before` is the last id of the previous page. */
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
  /** Counts the effects of a replay. */
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

/** Lists the journal's events, newest first, and erases them. */
export class Events extends HttpApiGroup.make("events").add(
  HttpApiEndpoint.get("list", "/events", {
    query: {
      ...selectionQuery,
      /** Delivered to a sink at or after this time. */
      deliveredAfter: optional(EpochMillisFromString),
      /** With more attempts than this at a sink. */
      attemptsOver: optional(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 0, maximum: 1e9 }))),
      /** The `next` of the previous page. */
      before: optional(Schema.String),
      limit,
    },
    success: EventPage,
    error: [Refused, Unavailable],
  }),
  /**
   * Finds the event by its id or by its position in the log, such as `seq_42`. Personal data is masked unless `reveal`
   * is `true`.
   */
  HttpApiEndpoint.get("explain", "/events/:id", {
    params: { id: Schema.String },
    query: { reveal: optional(Schema.Literal("true")) },
    success: EventReports,
    error: Unavailable,
  }),
  /** Overwrites bodies, answers and signatures. Responds when this is done. */
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
  // A misspelt field must not be ignored, because a filter without the field would match more events.
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error" })
  .annotate(HttpApi.QueryParseOptions, { onExcessProperty: "error" })
  .annotateMerge(OpenApi.annotations({ title: "relay admin API" })) {}
