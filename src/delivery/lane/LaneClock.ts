/**
 * The clocks of a lane, in milliseconds. Waits are measured by the monotonic
 * clock. Ages are measured by the lane's own time: the wall clock as it was at
 * the start, monotonic since, and standing still while the lane is paused.
 */
import type { Clock } from "effect"
import * as Monotonic from "../../event/Monotonic.ts"

export class LaneClock {
  readonly #clock: Clock.Clock
  readonly #started: number
  #pausedFor: number

  /** `started` is when monotonic time began, by the wall clock; without it the wall clock of now is trusted. */
  constructor(clock: Clock.Clock, pausedFor: number, started?: number) {
    this.#clock = clock
    this.#pausedFor = pausedFor
    this.#started = started ?? this.wall() - this.now()
  }

  /** Monotonic. */
  now(): number {
    return Monotonic.millis(this.#clock)
  }

  /** Since the epoch. */
  wall(): number {
    return this.#clock.currentTimeMillisUnsafe()
  }

  /** Since the epoch, and ages nothing when the wall clock is set. */
  steady(): number {
    return Math.round(this.#started + this.now())
  }

  /** The lane's own time. */
  laneTime(): number {
    return Math.round(this.steady() - this.#pausedFor)
  }

  /** How long the lane was paused in all. */
  get pausedFor(): number {
    return this.#pausedFor
  }

  /** A pause of this length does not age an event. */
  excludePause(length: number): void {
    this.#pausedFor += Math.round(length)
  }
}
