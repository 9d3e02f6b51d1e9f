/**
 * Whether the wall clock can be believed. Wall and monotonic time that part by
 * more than a minute mean that somebody set the clock: until they agree again,
 * or the relay restarts, nothing is deleted or given up by age.
 */
import type { Clock } from "effect"
import * as Monotonic from "../event/Monotonic.ts"
import type { EpochMillis, Millis } from "../event/Quantities.ts"

const tolerance = 60_000

export interface WallClock {
  /** Epoch milliseconds at which monotonic time began, by the wall clock as it was at the start. */
  readonly start: number
  /** How many milliseconds the wall clock has run ahead of monotonic time since the start. */
  readonly drift: () => number
  readonly trusted: () => boolean
}

/** Things older than `age` are from before this time; 0 while the wall clock can't be believed: then nothing is old. */
export const expiredBefore = (wallClock: WallClock, now: EpochMillis, age: Millis): EpochMillis =>
  wallClock.trusted() ? now - age : 0

/** A message for the status; empty while the wall clock can be believed. */
export const warningOf = (wallClock: WallClock): string =>
  wallClock.trusted()
    ? ""
    : `The wall clock was set by ${Math.round(wallClock.drift() / 1000)} s: nothing is deleted by age until it agrees again or the relay restarts.`

export const make = (clock: Clock.Clock): WallClock => {
  const offset = () => clock.currentTimeMillisUnsafe() - Monotonic.millis(clock)
  const start = offset()
  const drift = () => offset() - start
  return { start, drift, trusted: () => Math.abs(drift()) <= tolerance }
}
