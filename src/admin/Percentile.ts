/** The 99th percentile of durations counted in `durationBuckets`. */
import { sumAll } from "effect/Number"
import { durationBuckets } from "../delivery/lane/AttemptStats.ts"
import type { Millis } from "../event/Quantities.ts"

/** Returns the 99th percentile, interpolated linearly within its bucket, or `undefined` without durations. */
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
