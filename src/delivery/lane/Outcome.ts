/**
 * Applies the verdict (`Verdict.ts`) on each event of an attempt: it is delivered,
 * waits for a retry, becomes a dead letter, or goes back into the queue uncharged.
 *
 * **Guarantee.** An event ends in exactly one of these ways. Failures of the sink
 * are reported to the circuit breaker once per attempt.
 */

import { Duration } from "effect"
import type { Delivery } from "../../journal/Journal.ts"
import { brief, DeliveryRejected } from "../../sinks/Sink.ts"
import type { LaneParts } from "./Batcher.ts"
import type { SinkFailure } from "./CircuitBreaker.ts"
import type { Attempt, Failure } from "./InFlight.ts"
import { backoff, throttled } from "./LaneClock.ts"
import type { Failed } from "./Progress.ts"
import { type Item, ownKeyOf } from "./Queue.ts"
import type { Refused } from "./Suspects.ts"
import { type TargetFailure, verdictOf } from "./Verdict.ts"

/** Maximum attempts in a row that end in a bug. Waiting doesn't fix a bug, but another config may. */
const maxDefects = 3
const endless = Number.POSITIVE_INFINITY

/** Why an event is a dead letter without another attempt. */
type Refusal = "DeliveryRejected" | "BacklogFull" | "Defect"

/** Returns the facts of an attempt. A digest gets one answer, which is kept only with its first event. */
const factsOf = (failure: Failure, isFirst: boolean, number: number, took: number): Failed => ({
  ...(isFirst && "answer" in failure && { answer: failure.answer }),
  ...("code" in failure && { code: failure.code }),
  number,
  took: Math.round(took),
})

/**
 * Decides whether an undelivered event waits for a retry or becomes a dead letter. Blocks the lane if its dead
 * letters take too much space.
 */
export class RetryPolicy {
  readonly #parts: LaneParts

  constructor(parts: LaneParts) {
    this.#parts = parts
  }

  /** Returns the milliseconds before the next attempt, after `tried` attempts. */
  delay(tried: number): number {
    const { config, random } = this.#parts
    return backoff(config.delivery.retry, tried, random())
  }

  /**
   * Charges a failed attempt. Returns false if it was the last and the event is now a dead letter. `isFirst` is true
   * for only one event of a digest, because its one answer is kept once.
   */
  retry(item: Item, failure: Failure, isFirst: boolean, took: number): boolean {
    const { config, progress, wallClock } = this.#parts
    const { retry } = config.delivery
    const message = brief(failure.message)
    const tried = progress.tried(item) + 1
    const sent = factsOf(failure, isFirst, progress.made(item) + 1, took)
    const tooOld = progress.age(item) >= Duration.toMillis(retry.maxAge) && wallClock.trusted()
    if (tooOld || tried >= (retry.maxAttempts ?? endless)) {
      this.#deadLetter(item, failure._tag, tooOld ? "TooOld" : "TooManyAttempts", message, sent)
      return false
    }
    if (failure._tag === "Defect" && progress.defects(item) + 1 >= maxDefects) {
      this.#deadLetter(item, "Defect", "Defect", message, sent)
      return false
    }
    const asked = failure._tag === "SinkThrottled" ? throttled(failure.retryAfter) : 0
    progress.retry(item, progress.failed(failure._tag, message, sent), Math.max(asked, this.delay(tried)))
    return true
  }

  /** Makes an event that the sink rejected a dead letter. `isFirst` is as in `retry`. */
  reject(item: Item, failure: Failure, isFirst: boolean, took: number): void {
    const message = brief(failure.message)
    const sent = factsOf(failure, isFirst, this.#parts.progress.made(item) + 1, took)
    this.#deadLetter(item, failure._tag, "DeliveryRejected", message, sent)
  }

  /**
   * Makes a dead letter wait for a retry again. If the lane is blocked, such a dead letter blocked it, so this unblocks
   * it.
   */
  takeBack(refused: Refused): void {
    const { progress, state, events } = this.#parts
    progress.takeBack(refused)
    if (state.blocked === "") return
    state.unblock()
    events.resumed()
  }

  /** Makes an event a dead letter without an attempt. */
  refuse(item: Item, reason: Refusal, message: string): void {
    this.#deadLetter(item, reason, reason, message)
  }

  /** Makes an event a dead letter. `failure` is the last attempt's outcome. `reason` says why no attempt follows. */
  #deadLetter(item: Item, failure: string, reason: string, message: string, sent?: Failed): void {
    const { progress, events, config } = this.#parts
    progress.deadLetter(item, progress.failed(failure, message, sent))
    events.deadLettered(item.entry, reason, message)
    if (progress.deadLetterBytes > config.delivery.maxDeadLetters) {
      this.#block(
        `its dead letters take more than delivery.maxDeadLetters, or a quarter of journal.maxSize; look with \`relay dlq list --sink ${config.name}\`, replay or drop them, then \`relay lanes resume ${config.name}\``,
      )
    }
  }

  #block(message: string): void {
    const { state, events } = this.#parts
    if (state.block(message)) events.paused("blocked", message)
  }
}

const none: ReadonlyArray<Item> = []

export class Outcome {
  readonly #parts: LaneParts
  readonly #policy: RetryPolicy

  constructor(parts: LaneParts, policy: RetryPolicy) {
    this.#parts = parts
    this.#policy = policy
  }

  /** Settles the events of an attempt. Returns the events that go back into the queue. */
  settle(attempt: Attempt, now: number): ReadonlyArray<Item> {
    const { progress, suspects, events } = this.#parts
    const { items, delivered } = attempt
    if (attempt.defect !== undefined) events.defect(attempt.defect)
    if (delivered > 0) this.#passed(now)
    this.#keepReference(attempt)
    const took = now - attempt.startedAt
    const delivery = progress.deliveredIn(took, attempt.code)
    if (delivered < items.length) return this.#settleEach(attempt, delivery, took, now)
    // Fast path: nearly all attempts deliver everything.
    for (const item of items) {
      progress.delivered(item, delivery)
      suspects.ended(item.entry.sequence)
    }
    return none
  }

  /** Stores the reference of a message with its alert, in the settlement that stores the outcome of the attempt. */
  #keepReference({ items, reference }: Attempt): void {
    const item = items.at(-1)
    if (item === undefined || reference === undefined) return
    const { alerts, progress, events } = this.#parts
    const change = alerts?.refer(item.entry, ownKeyOf(item.key), reference)
    if (change === undefined) return
    progress.alert(change)
    // A crash before it is stored would leave a message that nothing changes any more.
    events.settle()
  }

  /** Reports whether the events of an attempt are one message. */
  #isOneMessage(items: ReadonlyArray<Item>): boolean {
    return items[0] !== undefined && this.#parts.progress.retries.isOneMessage(items[0].key)
  }

  #settleEach(attempt: Attempt, delivery: Delivery, took: number, now: number): ReadonlyArray<Item> {
    const { progress, breaker, suspects, refusals } = this.#parts
    const { items } = attempt
    const isDigest = this.#isOneMessage(items)
    const isAlone = items.length === 1
    const circumstances = { isDigest, isAlone, failedTogether: attempt.whole !== undefined && !isAlone && !isDigest }
    // A digest is one message, so its first event represents all of them.
    const ofDigest = isDigest ? suspects.suspicion(items[0]?.entry.sequence ?? 0) : undefined
    let ofTarget: TargetFailure
    const back: Array<Item> = []
    /**
     * `charged` events get their attempt back if the sink turns out to be down. The circuit breaker counts `counted`
     * events.
     */
    const charged: Array<number> = []
    const counted: Array<number> = []
    let blame: SinkFailure | undefined
    let isProbe = false
    items.forEach((item, index) => {
      const { sequence } = item.entry
      const isOne = index === 0 || !isDigest
      if (isOne) ofTarget = this.#ruling(attempt, index, now)
      isProbe ||= ofTarget !== undefined
      const suspicion = ofDigest ?? suspects.suspicion(sequence)
      const verdict = verdictOf(attempt.failure(index), circumstances, suspicion, ofTarget)
      switch (verdict._tag) {
        case "Delivered":
          progress.delivered(item, delivery)
          suspects.ended(sequence)
          return
        case "Rejected":
          if (isOne) breaker.answered()
          this.#policy.reject(item, verdict.failure, isOne, took)
          suspects.ended(sequence)
          return
        case "Retried": {
          const { against, failure } = verdict
          if (against === "event") suspects.charge(sequence)
          if (against === "event" && verdict.isolated) suspects.isolate(sequence)
          if (against === "both") blame = failure
          if (!this.#policy.retry(item, failure, isOne, took)) suspects.ended(sequence)
          else if (against === "event") charged.push(sequence)
          else if (against === "both") counted.push(sequence)
          return
        }
        case "Returned":
          back.push(item)
          if (verdict.against !== "nobody" && ofTarget === undefined) suspects.failed(sequence)
          if (verdict.isolated) suspects.isolate(sequence)
          if (verdict.against !== "sink") return
          blame = verdict.failure
          counted.push(sequence)
      }
    })
    breaker.charged(charged)
    if (blame !== undefined && counted.length > 0) this.#blame(blame, counted, attempt, now)
    if (isProbe && refusals?.hurries()) breaker.hurry(now)
    return back.filter((item) => !this.#giveBack(item, now))
  }

  /** Returns the target's failure if the target would refuse any event or digest, not only this one. */
  #ruling(attempt: Attempt, index: number, now: number): TargetFailure {
    const { progress, queue, refusals } = this.#parts
    const failure = this.#refusal(attempt, index)
    if (refusals === undefined || failure === undefined) return undefined
    const message = this.#isOneMessage(attempt.items) ? attempt.items : attempt.items.slice(index, index + 1)
    const refused = message.map((item) => progress.refused(item))
    const ruling = refusals.refused(refused, failure, attempt.delivered > 0, now)
    if (ruling._tag === "Event") return undefined
    const keys = new Set(attempt.items.map(({ key }) => key))
    // If a later event of the key is in flight and may be delivered, the earlier one stays a dead letter.
    const released = ({ key }: Refused) => !keys.has(key) && queue.isInFlight(key)
    for (const item of ruling.takeBack) if (!released(item)) this.#policy.takeBack(item)
    return ruling.failure
  }

  /**
   * Returns why the event would become a dead letter without another attempt. A bug that occurs with each event counts
   * as a refusal.
   */
  #refusal({ items, failure }: Attempt, index: number): DeliveryRejected | undefined {
    const [why, item] = [failure(index), items[index]]
    if (why?._tag === "DeliveryRejected") return why
    if (why?._tag !== "Defect" || item === undefined || items.length > 1) return undefined
    const isLast = this.#parts.progress.defects(item) + 1 >= maxDefects
    return isLast ? new DeliveryRejected({ message: why.message }) : undefined
  }

  #passed(now: number): void {
    const { breaker, refusals, suspects, events } = this.#parts
    suspects.passed()
    refusals?.delivered(now)
    if (breaker.answered()) events.resumed()
  }

  #blame(reason: SinkFailure, failed: ReadonlyArray<number>, { items, startedAt }: Attempt, now: number): void {
    const { breaker, progress, events } = this.#parts
    const { opened, refunded } = breaker.failed(reason, failed, startedAt, now, this.#isOneMessage(items))
    for (const sequence of refunded) progress.refundAttempt(sequence)
    if (opened) events.paused(reason._tag, breaker.message)
  }

  /** Puts a retry back into the retry queue. Returns false if the event was not a retry. */
  #giveBack({ entry: { sequence } }: Item, now: number): boolean {
    const { progress, suspects } = this.#parts
    const retrying = progress.retries.get(sequence)
    if (retrying === undefined) return false
    // The circuit breaker doesn't delay a charged event. The event waits anyway, because the sink may be unavailable.
    const wait = suspects.wasCharged(sequence) ? this.#policy.delay(Math.max(1, retrying.tried)) : 0
    progress.retries.giveBack(sequence, now + wait)
    return true
  }
}
