/** The size of the slices of an operator's change, and the slices of a move. */
import type { Entry } from "../../event/Entry.ts"
import type { Cursor } from "../Settlement.ts"
import type { Backlog } from "./Backlog.ts"
import type { Ended } from "./OutcomeRecord.ts"
import { type Reappended, toMove } from "./Reappended.ts"
import type { Removal } from "./Removal.ts"

/** Maximum dead letters, entries, and about the bytes of bodies of a slice. */
export const slice = { letters: 64, entries: 256, bytes: 1024 * 1024 }
/** Bytes of bodies that are read at a time, about. */
export const readBytes = 4 * 1024 * 1024

/** How many of the first items make a slice: `most` of them, or about a slice's bytes, and at least one. */
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

/** An entry that is appended again, and its sequence before. */
export interface Again extends Reappended {
  readonly sequence: number
}

/**
 * Takes what a lane waits for among `entries`, which follow its cursor, up to `end`, to append it again for `to`; and
 * the lane's cursor once that is done.
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

/** Records that entries went from one lane to another. */
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
