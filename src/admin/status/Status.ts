/** The schemas of the status and the history, which `relay status` and the page show. */
import { Schema, Struct } from "effect"
import { roles } from "../../config/schema/ConfigFile.ts"
import { LaneFacts } from "../../delivery/LaneStatus.ts"
import { Bytes, EpochMillis, Millis } from "../../event/Quantities.ts"
import { Counted, Refused } from "../../ingest/RecentRefusals.ts"
import { ReloadStatus } from "../../reload/Difference.ts"

/** Counts of deliveries and attempts. */
export const Totals = Schema.Struct({
  /** Deliveries answered with a 2xx, including duplicates. */
  received: Schema.Int,
  /** Delivered events, each counted once for each of its sinks. */
  delivered: Schema.Int,
  /** Requests answered with an error. */
  refused: Schema.Int,
  /** Events of failed attempts, each counted once for each attempt. */
  failed: Schema.Int,
})
export type Totals = typeof Totals.Type

/** Counts of the last hour, or the known part of it. */
export const Hour = Schema.Struct({
  /** When the counts begin: an hour ago, or later if nothing older is known. */
  since: EpochMillis,
  ...Totals.fields,
})
export type Hour = typeof Hour.Type

/** The last hour in steps of ten seconds, oldest first. A step in which the relay did not run is longer. */
export const RelayHistory = Schema.Struct({
  /** When the first step began. */
  since: EpochMillis,
  /** When each step ended. */
  at: Schema.Array(EpochMillis),
  received: Schema.Array(Schema.Int),
  delivered: Schema.Array(Schema.Int),
  refused: Schema.Array(Schema.Int),
  failed: Schema.Array(Schema.Int),
})
export type RelayHistory = typeof RelayHistory.Type

/** A lane at this relay over the last hour, in the steps of {@link History} since the relay's start. */
export const LaneHistory = Schema.Struct({
  /** When the first step began. */
  since: EpochMillis,
  /** When each step ended. */
  at: Schema.Array(EpochMillis),
  /** Delivered events, and events of failed attempts. */
  delivered: Schema.Array(Schema.Int),
  failed: Schema.Array(Schema.Int),
  /** Unsettled events at the end of each step. */
  backlog: Schema.Array(Schema.Int),
  /** The bound of the 99th percentile of the step's attempt durations; null for a step without attempts. */
  p99: Schema.Array(Schema.NullOr(Millis)),
})
export type LaneHistory = typeof LaneHistory.Type

/** A duration that was counted in buckets is at most `millis`. Above the highest bucket `isAbove` is set. */
const Bound = Schema.Struct({ millis: Millis, isAbove: Schema.optionalKey(Schema.Literal(true)) })
export type Bound = typeof Bound.Type

/** The refusals of a webhook in the last hour, for one reason. */
export const Refusals = Schema.Struct({
  ...Counted.fields,
  status: Schema.Int,
  /** The reason in words. */
  what: Schema.String,
  /** The action that helps. */
  advice: Schema.String,
})
export type Refusals = typeof Refusals.Type

/** A refused request. */
export const TappedRefusal = Schema.Struct({
  ...Struct.omit(Refused.fields, ["reason"]),
  refused: Refused.fields.reason,
  status: Schema.Int,
  /** The reason in words. */
  what: Schema.String,
})
export type TappedRefusal = typeof TappedRefusal.Type

export const Fleet = Schema.Struct({
  relays: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      /** The relay that answers. */
      isSelf: Schema.Boolean,
      version: Schema.String,
      /** Identifies the config. */
      configHash: Schema.String,
      /** The address of its admin API. */
      address: Schema.String,
      /** Time since its last heartbeat. */
      age: Millis,
      streams: Schema.Array(Schema.Int),
      /** Whether it delivers for the sinks that require one relay. */
      shared: Schema.Boolean,
      /** Pending events in its streams, for all sinks. */
      waiting: Schema.Int,
    }),
  ),
  /** Streams that no relay owns now. */
  unowned: Schema.Array(Schema.Int),
})
export type Fleet = typeof Fleet.Type

const optional = Schema.optionalKey

/** The journal's health and size. `red` means that events were lost or damaged, and `message` says which. */
const Journal = Schema.Struct({
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
  ...LaneFacts.fields,
  /** The sink's target without secrets, such as `events at broker:9092`. Absent if the config names none. */
  target: optional(Schema.String),
  /** Whether it sends digests. */
  digest: optional(Schema.Literal(true)),
  /** Events of digests that were not attempted yet. Absent if there are none. */
  collecting: optional(Schema.Int),
  /** The 99th percentile of attempt durations over the last five minutes. Absent without attempts. */
  p99: optional(Bound),
  /** The same of the time from the acceptance of an event to its delivery. Absent without deliveries. */
  latency: optional(Bound),
  /** Whether it sends alerts, so that a pause may end with `digest` or `drop`. */
  alerts: optional(Schema.Literal(true)),
  /** Whether its config has `alert`, so that its failures that belong together are one alert. */
  alertPolicy: optional(Schema.Literal(true)),
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
const Certificate = Schema.Struct({
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
  config: ReloadStatus,
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
