/**
 * The clocks of a lane, in milliseconds. Waits use the monotonic clock. Ages use the
 * lane's own time: it begins with the wall clock of the start, advances with the
 * monotonic clock, and stops while the lane is paused.
 */
import { type Clock, Duration } from "effect"
import type { Delivery } from "../../config/Config.ts"
import * as Monotonic from "../../event/Monotonic.ts"

export class LaneClock {
  readonly #clock: Clock.Clock
  readonly #started: number
  #pausedFor: number

  /** `started` is the wall-clock time at which monotonic time was 0 (default: computed from the current wall clock). */
  constructor(clock: Clock.Clock, pausedFor: number, started?: number) {
    this.#clock = clock
    this.#pausedFor = pausedFor
    this.#started = started ?? this.wall() - this.now()
  }

  /** Returns monotonic time. */
  now(): number {
    return Monotonic.millis(this.#clock)
  }

  /** Returns the wall clock: time since the epoch. */
  wall(): number {
    return this.#clock.currentTimeMillisUnsafe()
  }

  /** Returns time since the epoch that doesn't jump when the wall clock is set. */
  steady(): number {
    return Math.round(this.#started + this.now())
  }

  /** The lane's own time. */
  laneTime(): number {
    return Math.round(this.steady() - this.#pausedFor)
  }

  /** The total time that the lane was paused. */
  get pausedFor(): number {
    return this.#pausedFor
  }

  /** Excludes a pause of this length from the ages of events. */
  excludePause(length: number): void {
    this.#pausedFor += Math.round(length)
  }
}

/** The longest wait that a sink may request, in milliseconds. */
const maxThrottle = 3_600_000

/**
 * Exponential backoff with full jitter, so that a thousand events that failed together are not retried together.
 * Returns a random delay in milliseconds. `failures` is the number of failures in a row, from 1; `random` is in [0,
 * 1).
 */
export const backoff = (retry: Delivery["retry"], failures: number, random: number): number => {
  const ceiling = Math.min(
    Duration.toMillis(retry.max),
    Duration.toMillis(retry.initial) * 2 ** Math.min(failures - 1, 40),
  )
  return Math.ceil(random * ceiling)
}

/** Returns how long to wait if a sink requests `retryAfter` milliseconds. */
export const throttled = (retryAfter: number): number => Math.min(retryAfter, maxThrottle)

/**
 * Returns the rest of a stored wait, in milliseconds. It is never longer than the
 * original delay, so a wall clock that was set back can't delay an event for years.
 */
export const remaining = (due: number, delay: number, now: number): number => Math.min(Math.max(due - now, 0), delay)
