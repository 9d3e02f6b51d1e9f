/** An event as the admin API tells of it: its state at each sink, and its story. */
import { Schema } from "effect"
import { Attempt } from "./ImportLine.ts"
import { states } from "./ReplayApi.ts"

/** The state of an event at a sink. */
export const DeliveryStatus = Schema.Struct({
  sink: Schema.String,
  outcome: Schema.Literals(states),
  /** When a retry is due: epoch milliseconds. */
  due: Schema.optionalKey(Schema.Finite),
  /** When it came to this, as far as it ended: epoch milliseconds. */
  at: Schema.optionalKey(Schema.Finite),
  /** How many attempts there were. */
  tries: Schema.optionalKey(Schema.Int),
  /** The milliseconds and the answer's code of the attempt that delivered it. */
  took: Schema.optionalKey(Schema.Finite),
  code: Schema.optionalKey(Schema.Int),
  /** Since when it had been a dead letter: epoch milliseconds. */
  deadAt: Schema.optionalKey(Schema.Finite),
  /** The origin of a drop, replay or move: the page, the command line, the admin API, or the relay itself. */
  by: Schema.optionalKey(Schema.String),
  /** The sequence that it was appended again as. */
  copy: Schema.optionalKey(Schema.Int),
  /** The lane that it was moved to. */
  to: Schema.optionalKey(Schema.String),
  attempts: Schema.Array(Attempt),
})

/** That an event was appended again. */
const CopyLink = Schema.Struct({ sequence: Schema.Int, at: Schema.Finite, by: Schema.String })

/** A step of an event's story. Without `at` the time is not known, or has not come. */
export const Step = Schema.Struct({
  at: Schema.optionalKey(Schema.Finite),
  sink: Schema.optionalKey(Schema.String),
  what: Schema.String,
})
export type Step = typeof Step.Type

export const Event = Schema.Struct({
  /** Its place in the log. */
  sequence: Schema.Int,
  origin: Schema.Literals(["delivered", "replayed", "moved"]),
  id: Schema.String,
  type: Schema.String,
  accountId: Schema.String,
  webhook: Schema.String,
  /** Epoch milliseconds. */
  receivedAt: Schema.Finite,
  sinks: Schema.Array(DeliveryStatus),
  copyOf: Schema.optionalKey(CopyLink),
  copies: Schema.optionalKey(Schema.Array(CopyLink)),
  /** In the order of time. */
  timeline: Schema.Array(Step),
})
export type Event = typeof Event.Type
