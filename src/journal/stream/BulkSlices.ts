/** The size of the slices of an operator's change. */
import type { Reappended } from "./Reappended.ts"

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
