/** The 99th percentile of durations that were counted by `durationBuckets`. */
import { sumAll } from "effect/Number"
import { durationBuckets } from "../delivery/lane/AttemptStats.ts"
import type { Millis } from "../event/Quantities.ts"

/** The time under which 99 of 100 stayed, linear within the bucket; `undefined` of none. */
export const percentile99 = (counts: ReadonlyArray<number>): Millis | undefined => {
  const all = sumAll(counts)
  if (all === 0) return undefined
  let below = 0
  for (const [index, bound] of durationBuckets.entries()) {
    const count = counts[index] ?? 0
    const from = durationBuckets[index - 1] ?? 0
    if (below + count >= all * 0.99) {
      return Math.round(1_000 * (from + ((bound - from) * (all * 0.99 - below)) / count))
    }
    below += count
  }
  return 1_000 * Math.max(...durationBuckets)
}
