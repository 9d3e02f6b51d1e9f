/**
 * A lane's rate limit: a token bucket that holds the tokens of a tenth of a second.
 *
 * Pure state: callers pass the monotonic time in milliseconds.
 */
import { Duration } from "effect"
import type { LaneConfig } from "../../config/Config.ts"

const burstMillis = 100

export class RateLimit {
  readonly #millisPerEvent: number
  readonly #burst: number
  #tokens: number
  #refilledAt = 0

  constructor({ events, per }: NonNullable<LaneConfig["rateLimit"]>) {
    this.#millisPerEvent = Duration.toMillis(per) / events
    this.#burst = Math.max(1, Math.floor(burstMillis / this.#millisPerEvent))
    this.#tokens = this.#burst
  }

  /** Returns the number of events that may be sent at `now`. */
  available(now: number): number {
    this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#refilledAt) / this.#millisPerEvent)
    this.#refilledAt = now
    return Math.floor(this.#tokens)
  }

  take(events: number): void {
    this.#tokens -= events
  }
}
