/** Erasing events, as the admin API takes it and tells of it. */
import { Schema } from "effect"
import { place } from "./EventName.ts"

const optional = Schema.optionalKey

/** Names events to erase with their copies: by an account, an id or a place. */
export const ErasureRequest = Schema.Struct({
  account: optional(Schema.NonEmptyString),
  /** An event's id. */
  event: optional(Schema.NonEmptyString),
  /** An event's place in the log: `seq_42`. */
  place: optional(Schema.String.check(Schema.isPattern(place))),
  /** Counts what would be erased. */
  dryRun: optional(Schema.Boolean),
  /** Ends events first that sinks have yet to get; otherwise they stay. */
  giveUp: optional(Schema.Boolean),
})
export type ErasureRequest = typeof ErasureRequest.Type

/** Tells what was erased, or would be. */
export const Erasure = Schema.Struct({
  /** Events and their copies. */
  count: Schema.Int,
  /** How many of them are dead letters of a sink, and can't be replayed any more. */
  deadLetters: Schema.Int,
  /** How many of them a sink had yet to get. */
  givenUp: Schema.Int,
  /** Erased by an earlier erasure. */
  before: Schema.Int,
  /** Not erased, because sinks have yet to get them: how many, and the first of them. */
  undelivered: Schema.Int,
  first: Schema.Array(Schema.Struct({ sequence: Schema.Int, id: Schema.String, sinks: Schema.Array(Schema.String) })),
  /** Names the places, in words, where copies may be that the relay can't erase. */
  notReached: Schema.Array(Schema.String),
})
export type Erasure = typeof Erasure.Type
