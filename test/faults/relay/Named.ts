/** Parses the sequences that the relay reports as lost. */

export interface Range {
  readonly from: number
  readonly to: number
}

/**
 * Finds `events 3 to 9` and `Event 4`. For a new journal that `started after event 20`, all events up to that are
 * named.
 */
export const named = (text: string): ReadonlyArray<Range> =>
  [...text.matchAll(/(started after )?\bevents? (\d+)(?: to (\d+))?/gi)].map(([, started, from, to]) => ({
    from: started === undefined ? Number(from) : 0,
    to: Number(to ?? from),
  }))

export const isIn = (ranges: ReadonlyArray<Range>, sequence: number): boolean =>
  ranges.some(({ from, to }) => from <= sequence && sequence <= to)

/** Number of distinct sequences in the ranges. */
export const size = (ranges: ReadonlyArray<Range>): number => {
  let count = 0
  let end = 0
  for (const { from, to } of [...ranges].sort((a, b) => a.from - b.from)) {
    count += Math.max(0, to - Math.max(from - 1, end))
    end = Math.max(end, to)
  }
  return count
}
