/** The requests and results of erasures in the admin API. */
import { Schema } from "effect"
import { place } from "./EventName.ts"
import { EventSelection } from "./EventSelection.ts"

const optional = Schema.optionalKey

/** Selects events to erase with their copies: by the usual fields, an id or a position. */
export const ErasureRequest = Schema.Struct({
  ...EventSelection.fields,
  account: optional(Schema.NonEmptyString),
  /** An event's id. */
  event: optional(Schema.NonEmptyString),
  /** An event's position in the log, such as `seq_42`. */
  place: optional(Schema.String.check(Schema.isPattern(place))),
  /** Only counts the events that would be erased. */
  dryRun: optional(Schema.Boolean),
  /** First abandons events that sinks have not received; otherwise these are kept. */
  giveUp: optional(Schema.Boolean),
})
export type ErasureRequest = typeof ErasureRequest.Type

/** The result of an erasure or a dry run. */
export const Erasure = Schema.Struct({
  /** The number of events and their copies. */
  count: Schema.Int,
  /** The number of them that are dead letters of a sink, which can no longer be replayed. */
  deadLetters: Schema.Int,
  /** The number of them that a sink had not received. */
  givenUp: Schema.Int,
  /** Events that an earlier erasure erased. */
  before: Schema.Int,
  /** Events that are not erased because sinks have not received them: their number, and the first of them. */
  undelivered: Schema.Int,
  first: Schema.Array(Schema.Struct({ sequence: Schema.Int, id: Schema.String, sinks: Schema.Array(Schema.String) })),
  /** Places that may have copies which the relay can't erase, in words. */
  notReached: Schema.Array(Schema.String),
})
export type Erasure = typeof Erasure.Type
