/** The state of an event at a sink, as the journal returns it and the admin API shows it. */
import { Schema } from "effect"
import { EpochMillis, Millis } from "../event/Quantities.ts"

const optional = Schema.optionalKey

/** A failed attempt, stored with a retry or a dead letter. */
export const Attempt = Schema.Struct({
  at: EpochMillis,
  /** The reason's tag, e.g. `DeliveryFailed`. */
  reason: Schema.String,
  /** The sink's observation. It holds no secret and no payload. */
  message: Schema.String,
  /** The beginning of the receiver's answer. It may hold a payload, so it is shown only together with payloads. */
  answer: optional(Schema.String),
  /** The attempt's number for the event. It also counts attempts that aren't kept. Absent if nothing was sent. */
  number: optional(Schema.Int),
  /** The duration. */
  took: optional(Millis),
  /** The answer's code, if the sink has one. */
  code: optional(Schema.Int),
})
export type Attempt = typeof Attempt.Type

/** The states of an event at a sink that it was routed to. */
export const states = [
  "delivered",
  /** The event waits in the log for its lane. */
  "pending",
  "retrying",
  "dead",
  /** The event sent no message of its own: the alert with the id `alert` counts it. */
  "counted",
  /** The event was a dead letter or a retry, and was removed. */
  "dropped",
  /** The event was a dead letter, and was appended again as `copy`. */
  "replayed",
  /** The event moved to the lane `to`, itself or as a `copy`. */
  "moved",
  /** The lane was removed while the event waited in it. */
  "laneRemoved",
  /** The lane has passed the event, and no record says how it ended. */
  "unrecorded",
] as const
export type DeliveryState = (typeof states)[number]

/** An event's state at one sink. */
export const DeliveryStatus = Schema.Struct({
  sink: Schema.String,
  outcome: Schema.Literals(states),
  /** When a retry is due. */
  due: optional(EpochMillis),
  /** When the event reached this outcome, if it has ended. */
  at: optional(EpochMillis),
  /** Number of attempts, if known. */
  tries: optional(Schema.Int),
  /** The duration and the answer's code of the attempt that delivered the event. */
  took: optional(Millis),
  code: optional(Schema.Int),
  /** Since when it had been a dead letter. */
  deadAt: optional(EpochMillis),
  /**
   * The origin of a drop, replay or move: the page, the command line, the admin API, or the relay itself. With a named
   * token: `ada (the page)`.
   */
  by: optional(Schema.String),
  /** The id of the alert that counts it: the sequence of the alert's first failure. */
  alert: optional(Schema.Int),
  /** The sequence of its copy. */
  copy: optional(Schema.Int),
  /** The lane that it was moved to. */
  to: optional(Schema.String),
  /** Replays by operators while it was a dead letter here, oldest first. */
  replays: optional(Schema.Array(Schema.Struct({ at: EpochMillis, by: Schema.String, deadAt: EpochMillis }))),
  /** The failed attempts: the first, and the newest nine. */
  attempts: Schema.Array(Attempt),
})
export type DeliveryStatus = typeof DeliveryStatus.Type

/** A link between an event and a copy of it. */
export const CopyLink = Schema.Struct({ sequence: Schema.Int, at: EpochMillis, by: Schema.String })
export type CopyLink = typeof CopyLink.Type
