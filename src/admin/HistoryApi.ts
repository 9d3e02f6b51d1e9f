/** The part of the admin API that tells what was counted: since the start, and over the last hour. */
import { Schema } from "effect"

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

/** The last hour in steps of ten seconds, oldest first; less after a start, which empties it. */
export const History = Schema.Struct({
  /** Epoch milliseconds at which each step ended. */
  at: Schema.Array(Schema.Finite),
  received: Schema.Array(Schema.Int),
  delivered: Schema.Array(Schema.Int),
  refused: Schema.Array(Schema.Int),
  failed: Schema.Array(Schema.Int),
})
export type History = typeof History.Type
