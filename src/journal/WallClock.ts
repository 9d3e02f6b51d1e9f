/**
 * Whether the wall clock can be trusted. If wall and monotonic time differ by more than a minute, somebody has
 * set the clock. Then nothing is deleted or abandoned by age until they agree again, or the relay restarts.
 */
import type { Clock } from "effect"
import * as Monotonic from "../event/Monotonic.ts"
import type { EpochMillis, Millis } from "../event/Quantities.ts"

const tolerance = 60_000

export interface WallClock {
  /** The start of monotonic time by the wall clock, as the wall clock was at the start, in epoch milliseconds. */
  readonly start: number
  /** How many milliseconds the wall clock has run ahead of monotonic time since the start. */
  readonly drift: () => number
  readonly trusted: () => boolean
}

/**
 * Returns the time before which things are older than `age`. It is 0 while the wall clock can't be trusted:
 * then nothing is old.
 */
export const expiredBefore = (wallClock: WallClock, now: EpochMillis, age: Millis): EpochMillis =>
  wallClock.trusted() ? now - age : 0

/** Returns a message for the status; empty while the wall clock can be trusted. */
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
