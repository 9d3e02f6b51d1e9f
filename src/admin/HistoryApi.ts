/** The part of the admin API that tells what was counted: since the start, and over the last hour. */
import { Schema } from "effect"
import { EpochMillis, Millis } from "../event/Quantities.ts"

/** Counts of deliveries and attempts. */
export const Totals = Schema.Struct({
  /** Deliveries answered with a 2xx, duplicates included. */
  received: Schema.Int,
  /** Events that a sink took, each counted once for each of its sinks. */
  delivered: Schema.Int,
  /** Requests answered with an error. */
  refused: Schema.Int,
  /** Events with which an attempt failed, each counted once for each attempt. */
  failed: Schema.Int,
})
export type Totals = typeof Totals.Type

/** The last hour, or as much of it as is known. */
export const Hour = Schema.Struct({
  /** When the counts begin: an hour ago, or later where nothing older is known. */
  since: EpochMillis,
  ...Totals.fields,
})
export type Hour = typeof Hour.Type

/** The last hour in steps of ten seconds, oldest first; the step in which the relay did not run is longer. */
export const History = Schema.Struct({
  /** When the first step began. */
  since: EpochMillis,
  /** When each step ended. */
  at: Schema.Array(EpochMillis),
  received: Schema.Array(Schema.Int),
  delivered: Schema.Array(Schema.Int),
  refused: Schema.Array(Schema.Int),
  failed: Schema.Array(Schema.Int),
})
export type History = typeof History.Type

/** A lane at this relay over the last hour, in the steps of {@link History} since the relay's start. */
export const LaneHistory = Schema.Struct({
  /** When the first step began. */
  since: EpochMillis,
  /** When each step ended. */
  at: Schema.Array(EpochMillis),
  /** Events that the sink took, and events with which an attempt failed. */
  delivered: Schema.Array(Schema.Int),
  failed: Schema.Array(Schema.Int),
  /** Events that were routed to it and not settled, at the end of each step. */
  backlog: Schema.Array(Schema.Int),
  /** The time within which 99 of 100 attempts of the step ended; null in a step without attempts. */
  p99: Schema.Array(Schema.NullOr(Millis)),
})
export type LaneHistory = typeof LaneHistory.Type
