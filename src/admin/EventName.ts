/** Parses the names that people use for events. */
import type { EventQuery } from "../journal/Archive.ts"

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
