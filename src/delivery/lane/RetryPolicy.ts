/**
 * Decides whether an undelivered event waits for a retry or becomes a dead letter.
 * Blocks the lane if its dead letters take too much space.
 */
import { Duration } from "effect"
import type { LaneConfig } from "../../config/Config.ts"
import type { WallClock } from "../../journal/WallClock.ts"
import { brief } from "../../sinks/Sink.ts"
import { backoff, throttled } from "./Backoff.ts"
import type { Failure } from "./InFlight.ts"
import type { LaneEvents } from "./LaneEvents.ts"
import type { LaneState } from "./LaneState.ts"
import type { Failed, Progress } from "./Progress.ts"
import type { Item } from "./Queue.ts"
import type { Refused } from "./TargetRefusals.ts"

/** Maximum attempts in a row that end in a bug. Waiting doesn't fix a bug, but another config may. */
export const maxDefects = 3
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

interface Parts {
  readonly config: LaneConfig
  readonly events: LaneEvents
  readonly progress: Progress
  readonly state: LaneState
  readonly random: () => number
  /** While it can't be trusted, no event counts as too old. */
  readonly wallClock: WallClock
}

export class RetryPolicy {
  readonly #parts: Parts

  constructor(parts: Parts) {
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

  /** `failure` is the outcome of the last attempt, and `reason` explains why there is no other. */
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
