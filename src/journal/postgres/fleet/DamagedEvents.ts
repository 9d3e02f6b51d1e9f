/**
 * Events that can't be read back as they were written. A damaged row is searched event by event, and each
 * damaged range is one line of the alarm.
 */
import { Effect } from "effect"
import { damagedLine } from "../../archive/AlarmLines.ts"
import { ranges } from "../../stream/Ranges.ts"

/** Returns a function that raises each damaged event once, together with those found at the same time. */
export const make = (raise: (lines: ReadonlyArray<string>) => Effect.Effect<void>) => {
  const known = new Set<number>()
  let found: Array<number> = []
  const raiseFound = Effect.suspend(() => {
    const lines = ranges(found.toSorted((a, b) => a - b)).map((range) => damagedLine(range))
    found = []
    return raise(lines)
  })
  return (sequence: number): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (known.has(sequence)) return Effect.void
      known.add(sequence)
      return found.push(sequence) === 1 ? Effect.andThen(Effect.yieldNow, raiseFound) : Effect.void
    })
}
