/**
 * A selection of events. Searches, dead letters and replays use the same fields. An
 * event must match all given fields.
 */
import { Schema, Struct } from "effect"
import { EpochMillis } from "../../event/Quantities.ts"
import type { EventQuery } from "../../journal/Archive.ts"
import { states } from "../../journal/DeliveryStatus.ts"

/** The outcomes to select events by: a state at a sink, or `unrouted` for events that went to no sink. */
export const outcomes = [...states, "unrouted"] as const
const Outcome = Schema.Literals(outcomes).annotate({
  message: `outcome is one of ${outcomes.join(", ")}`,
})

const optional = Schema.optionalKey
export const EpochMillisFromString = Schema.FiniteFromString.annotate({ description: "Epoch milliseconds" })

const fieldsOf = <Types extends Schema.Top, Time extends Schema.Top>(types: Types, time: Time) => ({
  /** Events of this sink. `outcome`, `endedSince` and `endedUntil` then also refer to this sink. */
  sink: optional(Schema.String),
  /** The state at a sink. */
  outcome: optional(Outcome),
  /** Patterns of event types. At least one must match. */
  types: optional(types),
  account: optional(Schema.String),
  /** Events of the object with this id: a JSON Pointer of `journal.searchIds` leads to it. */
  object: optional(Schema.NonEmptyString),
  webhook: optional(Schema.String),
  /** Received at or after this time. */
  since: optional(time),
  /** Received before this time. */
  until: optional(time),
  /** Reached its outcome (delivered, dead, dropped and so on) at or after this time. */
  endedSince: optional(time),
  /** Reached its outcome before this time. */
  endedUntil: optional(time),
})

const Types = Schema.NonEmptyArray(Schema.String)

/** A selection in a JSON document. */
export const EventSelection = Schema.Struct(fieldsOf(Types, EpochMillis))
export type EventSelection = typeof EventSelection.Type

/** The parameters of a URL. `types` may be repeated. */
export const selectionQuery = fieldsOf(Schema.Union([Schema.String, Types]), EpochMillisFromString)

/** Selects dead letters: each has the outcome `dead`. */
export const LetterSelection = Schema.Struct(Struct.omit(EventSelection.fields, ["outcome"]))
export type LetterSelection = typeof LetterSelection.Type
export const letterQuery = Struct.omit(selectionQuery, ["outcome"])

type Query = Omit<EventSelection, "types"> & { readonly types?: string | NonNullable<EventSelection["types"]> }

/** Returns the selection for the parameters of a URL. */
export const ofQuery = <Q extends Query>({ types, ...query }: Q): Omit<Q, "types"> & Pick<EventSelection, "types"> => ({
  ...query,
  ...(types !== undefined && { types: typeof types === "string" ? ([types] as const) : types }),
})

/** A position in the log, such as `seq_42`. */
export const place = /^seq_([1-9][0-9]{0,14})$/

/** Returns the sequence if the text is a position in the log; otherwise `undefined`. */
export const sequenceOf = (text: string): number | undefined => {
  const [, sequence] = place.exec(text) ?? []
  return sequence === undefined ? undefined : Number(sequence)
}

/** Returns the query for a name. `seq_42` is a position in the log, because an event may have no id. */
export const named = (id: string): Pick<EventQuery, "id" | "sequence"> => {
  const sequence = sequenceOf(id)
  return sequence === undefined ? { id } : { sequence }
}

/** Returns all possible queries for a name, because a sender may give an event the id `seq_42`. */
export const readings = (id: string): ReadonlyArray<Pick<EventQuery, "id" | "sequence">> => {
  const first = named(id)
  return first.sequence === undefined ? [first] : [first, { id }]
}
