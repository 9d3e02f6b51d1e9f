/**
 * Whether the wall clock can be believed. Wall and monotonic time that part by
 * more than a minute mean that somebody set the clock: until they agree again,
 * or the relay restarts, nothing is deleted or given up by age.
 */
import type { Clock } from "effect"

const tolerance = 60_000

export interface WallClock {
  /** Milliseconds by which the wall clock has run ahead of monotonic time since the start. */
  readonly drift: () => number
  readonly trusted: () => boolean
}

export const make = (clock: Clock.Clock): WallClock => {
  const offset = () => clock.currentTimeMillisUnsafe() - Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  const start = offset()
  const drift = () => offset() - start
  return { drift, trusted: () => Math.abs(drift()) <= tolerance }
}
