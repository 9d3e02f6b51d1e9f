/**
 * Chooses a lane's next batch and decides whether to send it now. The circuit
 * breaker, the rate limit and the sink's batch size limit it, and a sink may give it
 * time to fill.
 */
import { Duration } from "effect"
import { digestOf, type LaneConfig } from "../../config/Config.ts"
import type { Entry } from "../../event/Event.ts"
import type { Log } from "../../journal/Journal.ts"
import type { WallClock } from "../../journal/WallClock.ts"
import type { Sink } from "../../sinks/Sink.ts"
import type { Alerts } from "./Alerts.ts"
import type { CircuitBreaker } from "./CircuitBreaker.ts"
import type { LaneClock } from "./LaneClock.ts"
import type { LaneEvents, LaneState } from "./LaneState.ts"
import type { Progress } from "./Progress.ts"
import type { Item, Limits, Queue } from "./Queue.ts"
import type { Suspects, TargetRefusals } from "./Suspects.ts"

const burstMillis = 100

/**
 * A rate limit: a token bucket. A lane's holds the tokens of a tenth of a second.
 *
 * Pure state: callers pass the monotonic time in milliseconds.
 */
export class RateLimit {
  readonly #millisPerEvent: number
  readonly #burst: number
  #tokens: number
  #refilledAt = 0

  constructor({ events, per }: NonNullable<LaneConfig["rateLimit"]>, burst = burstMillis) {
    this.#millisPerEvent = Duration.toMillis(per) / events
    this.#burst = Math.max(1, Math.floor(burst / this.#millisPerEvent))
    this.#tokens = this.#burst
  }

  /** Returns the number of events that may be sent at `now`. */
  available(now: number): number {
    this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#refilledAt) / this.#millisPerEvent)
    this.#refilledAt = now
    return Math.floor(this.#tokens)
  }

  /** Returns the milliseconds until an event may be sent. */
  wait(now: number): number {
    return this.available(now) >= 1 ? 0 : (1 - this.#tokens) * this.#millisPerEvent
  }

  take(events: number): void {
    this.#tokens -= events
  }
}

/** The parts of a lane that its classes share. `Lane.ts` constructs and connects them. */
export interface LaneParts {
  readonly config: LaneConfig
  readonly sink: Sink
  readonly log: Log
  readonly events: LaneEvents
  /** The order key; see `LaneSpec`. */
  readonly key: (entry: Entry) => string
  readonly clock: LaneClock
  /** While it can't be trusted, no event counts as too old. */
  readonly wallClock: WallClock
  readonly random: () => number
  readonly progress: Progress
  readonly state: LaneState
  readonly queue: Queue
  readonly breaker: CircuitBreaker
  readonly suspects: Suspects
  /** Absent for the quarantine. Its sink rejects every event, and each rejection must become a dead letter. */
  readonly refusals: TargetRefusals | undefined
  /** Absent if the policy of the lane has no states. */
  readonly alerts: Alerts | undefined
}

const endless = Number.POSITIVE_INFINITY

export class Batcher {
  readonly #parts: LaneParts
  readonly #rateLimit: RateLimit | undefined

  constructor(parts: LaneParts) {
    const { rateLimit } = parts.config
    this.#parts = parts
    this.#rateLimit = rateLimit && new RateLimit(rateLimit)
  }

  /** Maximum events in flight. */
  get portion(): number {
    const { config, sink } = this.#parts
    return config.concurrency * (digestOf(config)?.maxEvents ?? sink.batch.maxEvents)
  }

  /**
   * Returns the next batch, or an empty one if nothing may be sent now. `mayLinger` says whether waiting could bring
   * more events.
   */
  next(now: number, inFlight: number, mayLinger: boolean): ReadonlyArray<Item> {
    const { queue, breaker, progress } = this.#parts
    const allowed = Math.min(breaker.allowance(now, inFlight), this.#rateLimit?.available(now) ?? endless)
    if (allowed < 1 || queue.size === 0 || (mayLinger && this.fillsUntil(now) > now)) return []
    const batch = queue.next(this.#limits(allowed), now, this.#isBehind, this.#retryBehind)
    const isMessage = batch[0] !== undefined && progress.retries.isOneMessage(batch[0].key)
    this.#rateLimit?.take(isMessage ? 1 : batch.length)
    return batch
  }

  /** Reports whether the rate limit allows no event now. */
  isLimited(now: number): boolean {
    return this.#rateLimit !== undefined && this.#rateLimit.available(now) < 1
  }

  readonly #isBehind = ({ key, entry }: Item): boolean => this.#parts.progress.retries.isBehind(key, entry.sequence)
  readonly #retryBehind = (item: Item): void => this.#parts.progress.retryBehind(item)

  #limits(allowed: number): Limits {
    const { sink, breaker, suspects, refusals, alerts } = this.#parts
    const { isIsolated } = suspects
    const { maxBytes } = sink.batch
    const maxEvents = alerts === undefined ? sink.batch.maxEvents : 1
    const avoids = refusals?.avoids
    return { events: Math.min(allowed, maxEvents), bytes: maxBytes, probing: breaker.probing, isIsolated, avoids }
  }

  /**
   * Monotonic milliseconds until which the batch waits to fill, or 0 if it need not wait. A sink whose cost depends on
   * the number of batches sets this time.
   */
  fillsUntil(now: number): number {
    const { sink, queue, breaker } = this.#parts
    const { linger = 0, maxEvents, maxBytes } = sink.batch
    const until = queue.fillingSince + linger
    const mayFill = now < until && queue.size < maxEvents && queue.retries === 0 && !breaker.probing
    return mayFill && queue.freshBytes < maxBytes ? until : 0
  }
}
