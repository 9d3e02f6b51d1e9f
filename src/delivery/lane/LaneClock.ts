/**
 * The clocks of a lane, in milliseconds. Waits use the monotonic clock. Ages use the
 * lane's own time: it begins with the wall clock of the start, advances with the
 * monotonic clock, and stops while the lane is paused.
 */
import type { Clock } from "effect"
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
