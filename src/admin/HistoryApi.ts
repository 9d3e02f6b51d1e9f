/** The counts in the admin API: since the start, and over the last hour. */
import { Schema } from "effect"
import { EpochMillis, Millis } from "../event/Quantities.ts"

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
  /** Delivered events, and events of failed attempts. */
  delivered: Schema.Array(Schema.Int),
  failed: Schema.Array(Schema.Int),
  /** Unsettled events at the end of each step. */
  backlog: Schema.Array(Schema.Int),
  /** The 99th percentile of the step's attempt durations; null for a step without attempts. */
  p99: Schema.Array(Schema.NullOr(Millis)),
})
export type LaneHistory = typeof LaneHistory.Type
