/**
 * The outcome of an attempt: each of its events is delivered, waits for a retry,
 * is a dead letter, or goes back into the queue uncharged.
 *
 * **Guarantee.** An event ends in exactly one of these, by the sink's reason and
 * by what became of others. What a failure says about the sink goes to the
 * circuit breaker, once an attempt. A bug costs the event that meets it, and no
 * other.
 */
import type { Delivery } from "../../journal/Journal.ts"
import type { SinkFailure } from "./CircuitBreaker.ts"
import type { Attempt, Failure } from "./InFlight.ts"
import type { LaneParts } from "./LaneParts.ts"
import type { Item } from "./Queue.ts"
import type { RetryPolicy } from "./RetryPolicy.ts"

type Parts = Pick<LaneParts, "config" | "progress" | "breaker" | "suspects" | "rejections" | "events"> & {
  readonly policy: RetryPolicy
}

const none: ReadonlyArray<Item> = []

export class Outcome {
  readonly #parts: Parts
  readonly #isDigest: boolean

  constructor(parts: Parts) {
    this.#parts = parts
    this.#isDigest = parts.config.digest !== undefined
  }

  /** Settles the events of an attempt; gives those that go back into the queue. */
  settle(attempt: Attempt, now: number): ReadonlyArray<Item> {
    const { progress, policy, breaker, suspects, events } = this.#parts
    const isDigest = this.#isDigest
    const { items, whole } = attempt
    if (attempt.defect !== undefined) events.defect(attempt.defect)
    if (attempt.delivered > 0) this.#passed(attempt.delivered)
    // Nearly all attempts end so.
    const took = now - attempt.startedAt
    const delivery = progress.deliveredIn(took, attempt.code)
    if (attempt.delivered === items.length) return this.#allDelivered(items, delivery)
    // When a batch failed as a whole any of its events may be at fault. A digest is one message.
    const isShared = whole !== undefined && items.length > 1 && !isDigest
    const first = items[0]?.entry.sequence ?? 0
    for (const { entry } of items) if (this.#wasCharged(entry.sequence)) suspects.charge(entry.sequence)
    const isFirstAtFault = suspects.isAtFault(first)
    const failed: Array<number> = []
    const charged: Array<number> = []
    const back: Array<Item> = []
    let last: SinkFailure | undefined
    const isOne = (index: number) => index === 0 || !isDigest
    const retry = (item: Item, index: number, failure: Failure, counted?: Array<number>) => {
      if (policy.retry(item, failure, isOne(index), took)) counted?.push(item.entry.sequence)
      else suspects.ended(item.entry.sequence)
    }
    items.forEach((item, index) => {
      const { sequence } = item.entry
      const failure = attempt.failure(index)
      if (failure === undefined) {
        progress.delivered(item, delivery)
        suspects.ended(sequence)
        return
      }
      switch (failure._tag) {
        case "DeliveryRejected": {
          if (isOne(index)) breaker.answered()
          policy.reject(item, failure, isOne(index), took)
          suspects.ended(sequence)
          return
        }
        case "Interrupted":
          back.push(item)
          return
        case "Defect":
          if (items.length === 1) retry(item, index, failure)
          else {
            suspects.isolate(sequence)
            back.push(item)
          }
          return
        case "DeliveryFailed":
          retry(item, index, failure, failed)
          last = failure
          return
      }
      const isAtFault = isDigest ? isFirstAtFault : suspects.isAtFault(sequence)
      const isOwn = isAtFault && !isShared
      if (isOwn) suspects.charge(sequence)
      suspects.failed(sequence)
      if (isOwn) {
        if (!isDigest) suspects.isolate(sequence)
        retry(item, index, failure, charged)
        return
      }
      back.push(item)
      if (suspects.wasCharged(isDigest ? first : sequence) && !isShared) return
      if (isAtFault) suspects.isolate(sequence)
      last = failure
      failed.push(sequence)
    })
    breaker.charged(charged)
    if (last !== undefined && failed.length > 0) this.#blame(last, failed, attempt.startedAt, now)
    return back.filter((item) => !this.#giveBack(item, now))
  }

  #allDelivered(items: ReadonlyArray<Item>, delivery: Delivery): ReadonlyArray<Item> {
    const { progress, suspects } = this.#parts
    for (const item of items) {
      progress.delivered(item, delivery)
      suspects.ended(item.entry.sequence)
    }
    return none
  }

  #passed(delivered: number): void {
    const { breaker, rejections, suspects, events } = this.#parts
    suspects.passed()
    rejections?.passed(this.#isDigest ? 1 : delivered)
    if (breaker.answered()) events.resumed()
  }

  /** Charged before a restart: no other retry was caused by such a reason. */
  #wasCharged(sequence: number): boolean {
    return this.#parts.progress.retries.get(sequence)?.lastFailure.startsWith("Sink") === true
  }

  #blame(reason: SinkFailure, failed: ReadonlyArray<number>, startedAt: number, now: number): void {
    const { breaker, progress, events } = this.#parts
    const { opened, refunded } = breaker.failed(reason, failed, startedAt, now)
    for (const sequence of refunded) progress.refundAttempt(sequence)
    if (opened) events.paused(reason._tag, breaker.message)
  }

  /** Puts a retry back where it was taken from; false for an event that was none. */
  #giveBack({ entry: { sequence } }: Item, now: number): boolean {
    const { progress, policy, suspects } = this.#parts
    const retrying = progress.retries.get(sequence)
    if (retrying === undefined) return false
    // One that was charged can wait: the sink may be away, and no circuit breaker holds it back.
    const wait = suspects.wasCharged(sequence) ? policy.delay(Math.max(1, retrying.tried)) : 0
    progress.retries.giveBack(sequence, now + wait)
    return true
  }
}
