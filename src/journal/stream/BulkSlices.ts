/** The slice sizes of operators' changes, and the slices of a move. */
import type { Entry } from "../../event/Entry.ts"
import type { Cursor } from "../Settlement.ts"
import type { Backlog } from "./Backlog.ts"
import type { Ended } from "./OutcomeRecord.ts"
import { type Reappended, toMove } from "./Reappended.ts"
import type { Removal } from "./Removal.ts"

/** The maximum of a slice: dead letters, entries, and about this many bytes of bodies. */
export const slice = { letters: 64, entries: 256, bytes: 1024 * 1024 }
/** Approximate bytes of bodies that are read at a time. */
export const readBytes = 4 * 1024 * 1024

/** Returns how many of the first items form a slice: at most `most`, about a slice's bytes, and at least one. */
export const firstOf = <A>(items: ReadonlyArray<A>, most: number, sizeOf: (item: A) => number): number => {
  let size = 0
  let count = 0
  for (const item of items) {
    if (count >= most || size >= slice.bytes) break
    size += sizeOf(item)
    count++
  }
  return count
}

/** An entry that is appended again. `sequence` is its former one. */
export interface Again extends Reappended {
  readonly sequence: number
}

/**
 * Returns the entries to append again for the lane `to`, and the lane's cursor after that. They are the lane's
 * undelivered events up to `end` among `entries`, which follow its cursor.
 */
export const moveSlice = (
  entries: ReadonlyArray<Entry>,
  source: Backlog,
  to: string,
  end: number,
): { readonly again: ReadonlyArray<Again>; readonly cursor: Cursor } => {
  const again: Array<Again> = []
  let last = end
  let size = 0
  for (const entry of entries) {
    const { sequence, event, sinks } = entry
    if (sequence > end) break
    last = sequence
    if (!sinks.includes(source.lane) || !source.isPending(sequence)) continue
    again.push({ event: toMove(entry), sinks: [to], sequence })
    size += event.body.length
    if (size >= slice.bytes) break
  }
  return { again, cursor: { sequence: last, settled: source.cursor.settled.filter(([, to]) => to > last) } }
}

/** Returns records of entries that moved from one lane to another. */
export const moved = (
  again: ReadonlyArray<Again>,
  first: number,
  { at, by }: Removal,
  lane: string,
  to: string,
): ReadonlyArray<Ended> =>
  again.map(({ sequence }, index) => ({
    ...{ sequence, lane, at, outcome: "moved", copy: first + index },
    note: { by, to },
  }))
