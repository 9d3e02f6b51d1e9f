/** An event as the admin API tells of it: its state at each sink, and its story. */
import { Schema } from "effect"
import { EpochMillis, Millis } from "../event/Quantities.ts"
import { states } from "./EventSelection.ts"
import { Attempt } from "./ImportLine.ts"

const optional = Schema.optionalKey

/** The state of an event at a sink. */
export const DeliveryStatus = Schema.Struct({
  sink: Schema.String,
  outcome: Schema.Literals(states),
  /** With the outcome `retrying`: it is in a digest that no attempt was made to send. */
  collecting: optional(Schema.Literal(true)),
  due: optional(EpochMillis),
  /** When it came to this, as far as it ended. */
  at: optional(EpochMillis),
  /** Attempts so far. */
  tries: optional(Schema.Int),
  /** The duration and the answer's code of the attempt that delivered it. */
  took: optional(Millis),
  code: optional(Schema.Int),
  /** When it became a dead letter, if it was one. */
  deadAt: optional(EpochMillis),
  /** The origin of a drop, replay or move: the page, the command line, the admin API, or the relay itself; with a named token `ada (the page)`. */
  by: optional(Schema.String),
  /** The sequence that it was appended again as. */
  copy: optional(Schema.Int),
  /** The lane that it was moved to. */
  to: optional(Schema.String),
  /** When it was a dead letter here, and an operator had it sent again. */
  replays: optional(Schema.Array(Schema.Struct({ at: EpochMillis, by: Schema.String, deadAt: EpochMillis }))),
  attempts: Schema.Array(Attempt),
})

/** That an event was appended again. */
const CopyLink = Schema.Struct({ sequence: Schema.Int, at: EpochMillis, by: Schema.String })

/** A step of an event's story. Without `at` the time is not known, or has not come. */
export const Step = Schema.Struct({
  at: optional(EpochMillis),
  sink: optional(Schema.String),
  what: Schema.String,
  /** For an attempt: the milliseconds that it took, the answer's code, and whether it delivered the event. */
  attempt: Schema.optionalKey(
    Schema.Struct({
      took: Schema.optionalKey(Schema.Finite),
      code: Schema.optionalKey(Schema.Int),
      delivered: Schema.Boolean,
    }),
  ),
})
export type Step = typeof Step.Type

/** An event without its payload: its facts, its state at each sink, and its story. */
export const Event = Schema.Struct({
  /** Its place in the log. */
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
  /** In the order of time. */
  timeline: Schema.Array(Step),
})
export type Event = typeof Event.Type

/** The events that the journal still has. */
export const Kept = Schema.Struct({
  /** When the oldest of them was received; absent if there is none. */
  since: optional(EpochMillis),
  /** Whether older events were deleted. */
  pruned: Schema.Boolean,
})
export type Kept = typeof Kept.Type
