/** Ranges of sequences, for messages about many events. */

/** Returns the ranges of ascending numbers, both ends included. */
export const ranges = (numbers: ReadonlyArray<number>): ReadonlyArray<readonly [from: number, to: number]> => {
  const found: Array<[number, number]> = []
  for (const number of numbers) {
    const last = found.at(-1)
    if (last !== undefined && last[1] === number - 1) last[1] = number
    else found.push([number, number])
  }
  return found
}

/** `Event 5`, or `Events 5 to 9`. */
export const eventsOf = ([from, to]: readonly [from: number, to: number]): string =>
  from === to ? `Event ${from}` : `Events ${from} to ${to}`
