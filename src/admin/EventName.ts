/** How a person names an event of the journal. */
import type { EventQuery } from "../journal/Archive.ts"

/** `seq_42` names an event by its place in the log: it may have no id. */
export const named = (id: string): Pick<EventQuery, "id" | "sequence"> => {
  const [, sequence] = /^seq_([1-9][0-9]{0,14})$/.exec(id) ?? []
  return sequence === undefined ? { id } : { sequence: Number(sequence) }
}

/** All that it may name: a sender may give an event the id `seq_42`. */
export const readings = (id: string): ReadonlyArray<Pick<EventQuery, "id" | "sequence">> => {
  const first = named(id)
  return first.sequence === undefined ? [first] : [first, { id }]
}
