/** How a person names an event of the journal. */
import type { EventQuery } from "../journal/Archive.ts"

/** A place in the log, such as `seq_42`. */
export const place = /^seq_([1-9][0-9]{0,14})$/

/** The sequence that a text names as a place in the log, or `undefined` if it is not a place. */
export const sequenceOf = (text: string): number | undefined => {
  const [, sequence] = place.exec(text) ?? []
  return sequence === undefined ? undefined : Number(sequence)
}

/** `seq_42` names an event by its place in the log: it may have no id. */
export const named = (id: string): Pick<EventQuery, "id" | "sequence"> => {
  const sequence = sequenceOf(id)
  return sequence === undefined ? { id } : { sequence }
}

/** All that it may name: a sender may give an event the id `seq_42`. */
export const readings = (id: string): ReadonlyArray<Pick<EventQuery, "id" | "sequence">> => {
  const first = named(id)
  return first.sequence === undefined ? [first] : [first, { id }]
}
