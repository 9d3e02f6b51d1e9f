/**
 * The next batch of a lane, and whether it goes now: as much as the circuit
 * breaker and the rate limit allow and the sink takes at once, and not before
 * it has had its time to fill.
 */
import type { LaneConfig } from "../../config/Config.ts"
import type { Sink } from "../../sinks/Sink.ts"
import type { CircuitBreaker } from "./CircuitBreaker.ts"
import type { Progress } from "./Progress.ts"
import type { Item, Limits, Queue } from "./Queue.ts"
import { RateLimit } from "./RateLimit.ts"
import type { Suspects } from "./Suspects.ts"
import type { TargetRefusals } from "./TargetRefusals.ts"

interface Parts {
  readonly config: LaneConfig
  readonly sink: Sink
  readonly progress: Progress
  readonly queue: Queue
  readonly breaker: CircuitBreaker
  readonly suspects: Suspects
  readonly refusals: TargetRefusals | undefined
}

const endless = Number.POSITIVE_INFINITY

export class Batcher {
  readonly #parts: Parts
  readonly #isDigest: boolean
  readonly #rateLimit: RateLimit | undefined

  constructor(parts: Parts) {
    const { digest, rateLimit } = parts.config
    this.#parts = parts
    this.#isDigest = digest !== undefined
    this.#rateLimit = rateLimit && new RateLimit(rateLimit)
  }

  /** Events that can be under way at once. */
  get portion(): number {
    const { config, sink } = this.#parts
    return config.concurrency * (config.digest?.maxEvents ?? sink.batch.maxEvents)
  }

  /** Empty when nothing may go. `mayLinger` says whether waiting for more events is of use. */
  next(now: number, inFlight: number, mayLinger: boolean): ReadonlyArray<Item> {
    const { queue, breaker } = this.#parts
    const allowed = Math.min(breaker.allowance(now, inFlight), this.#rateLimit?.available(now) ?? endless)
    if (allowed < 1 || queue.size === 0 || (mayLinger && this.#lingers(now))) return []
    const batch = queue.next(this.#limits(allowed), now, this.#isBehind, this.#retryBehind)
    this.#rateLimit?.take(this.#isDigest ? Math.min(1, batch.length) : batch.length)
    return batch
  }

  /** The rate limit lets nothing go now. */
  isLimited(now: number): boolean {
    return this.#rateLimit !== undefined && this.#rateLimit.available(now) < 1
  }

  readonly #isBehind = ({ key, entry }: Item): boolean => this.#parts.progress.retries.isBehind(key, entry.sequence)
  readonly #retryBehind = (item: Item): void => this.#parts.progress.retryBehind(item)

  #limits(allowed: number): Limits {
    const { sink, breaker, suspects, refusals } = this.#parts
    const { isIsolated } = suspects
    // All that is in the queue is one digest, and goes as one.
    if (this.#isDigest) return { events: endless, bytes: endless, probing: false, isIsolated }
    const { maxEvents, maxBytes } = sink.batch
    const avoids = refusals?.avoids
    return { events: Math.min(allowed, maxEvents), bytes: maxBytes, probing: breaker.probing, isIsolated, avoids }
  }

  /** A sink that pays by the batch says how long one may wait to fill. */
  #lingers(now: number): boolean {
    const { sink, queue, breaker } = this.#parts
    const { linger = 0, maxEvents } = sink.batch
    return now - queue.fillingSince < linger && queue.size < maxEvents && queue.retries === 0 && !breaker.probing
  }
}
