/** How a person names an event of the journal. */
import type { EventQuery } from "../journal/Journal.ts"

/** `seq_42` names an event by its place in the log: it may have no id. */
export const named = (id: string): Pick<EventQuery, "id" | "sequence"> => {
  const [, sequence] = /^seq_([1-9][0-9]{0,14})$/.exec(id) ?? []
  return sequence === undefined ? { id } : { sequence: Number(sequence) }
}
