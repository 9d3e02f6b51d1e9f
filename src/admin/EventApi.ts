/** An event in the admin API: its state at each sink and its history. */
import { Schema } from "effect"
import { EpochMillis, Millis } from "../event/Quantities.ts"
import { states } from "./EventSelection.ts"
import { Attempt } from "./ImportLine.ts"

const optional = Schema.optionalKey

/** The state of an event at a sink. */
export const DeliveryStatus = Schema.Struct({
  sink: Schema.String,
  outcome: Schema.Literals(states),
  /** Only with the outcome `retrying`: the event is in a digest that was not attempted yet. */
  collecting: optional(Schema.Literal(true)),
  due: optional(EpochMillis),
  /** When the event reached this outcome, if it has ended. */
  at: optional(EpochMillis),
  /** The number of attempts. */
  tries: optional(Schema.Int),
  /** Duration and response code of the attempt that delivered it. */
  took: optional(Millis),
  code: optional(Schema.Int),
  /** When it became a dead letter, if it was one. */
  deadAt: optional(EpochMillis),
  /**
   * The origin of a drop, replay or move: the page, the command line, the admin API, or the relay itself. With a named
   * token: `ada (the page)`.
   */
  by: optional(Schema.String),
  /** The sequence of the copy that was appended. */
  copy: optional(Schema.Int),
  /** The lane that it was moved to. */
  to: optional(Schema.String),
  /** The times at which an operator replayed it as a dead letter of this sink. */
  replays: optional(Schema.Array(Schema.Struct({ at: EpochMillis, by: Schema.String, deadAt: EpochMillis }))),
  attempts: Schema.Array(Attempt),
})

/** A copy of an event that was appended later. */
const CopyLink = Schema.Struct({ sequence: Schema.Int, at: EpochMillis, by: Schema.String })

/** A step in an event's history. `at` is absent if the time is unknown or in the future. */
export const Step = Schema.Struct({
  at: optional(EpochMillis),
  sink: optional(Schema.String),
  what: Schema.String,
  /** For an attempt: its duration in milliseconds, the response code, and whether it delivered the event. */
  attempt: Schema.optionalKey(
    Schema.Struct({
      took: Schema.optionalKey(Schema.Finite),
      code: Schema.optionalKey(Schema.Int),
      delivered: Schema.Boolean,
    }),
  ),
})
export type Step = typeof Step.Type

/** An event without its payload: its facts, its state at each sink and its history. */
export const Event = Schema.Struct({
  /** The position in the log. */
  sequence: Schema.Int,
  origin: Schema.Literals(["delivered", "replayed", "moved"]),
  id: Schema.String,
  type: Schema.String,
  accountId: Schema.String,
  webhook: Schema.String,
  receivedAt: EpochMillis,
  /** When its body, signature and answers were erased. */
  erased: optional(EpochMillis),
  sinks: Schema.Array(DeliveryStatus),
  copyOf: optional(CopyLink),
  copies: optional(Schema.Array(CopyLink)),
  /** In chronological order. */
  timeline: Schema.Array(Step),
})
export type Event = typeof Event.Type

/** The events that the journal still has. */
export const Kept = Schema.Struct({
  /** When the oldest of them was received; absent if the journal has no events. */
  since: optional(EpochMillis),
  /** Whether older events were deleted. */
  pruned: Schema.Boolean,
})
export type Kept = typeof Kept.Type
