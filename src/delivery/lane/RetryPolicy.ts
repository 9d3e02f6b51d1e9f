/**
 * The decision about an event that was not delivered: it waits for a retry, or it
 * is a dead letter. Blocks the lane if its dead letters take too much.
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

/** Attempts in a row that may end in a bug: waiting fixes no bug, another config may. */
export const maxDefects = 3
const endless = Number.POSITIVE_INFINITY

/** Why an event is a dead letter without another attempt. */
type Refusal = "DeliveryRejected" | "BacklogFull" | "Defect"

/** The facts of an attempt. A digest got one answer, which is kept once. */
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
  /** While it can't be trusted no event is too old. */
  readonly wallClock: WallClock
}

export class RetryPolicy {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Milliseconds before the next attempt, after so many. */
  delay(tried: number): number {
    const { config, random } = this.#parts
    return backoff(config.delivery.retry, tried, random())
  }

  /**
   * Charges a failed attempt. False when it was the last, and the event is a dead
   * letter. `isFirst` is false for all events of a digest but one: it got one
   * answer, which is kept once.
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

  /** The sink rejected the event. `isFirst` as above: a digest was rejected once. */
  reject(item: Item, failure: Failure, isFirst: boolean, took: number): void {
    const message = brief(failure.message)
    const sent = factsOf(failure, isFirst, this.#parts.progress.made(item) + 1, took)
    this.#deadLetter(item, failure._tag, "DeliveryRejected", message, sent)
  }

  /** A dead letter waits for a retry again. If the lane is blocked, such a dead letter blocked it. */
  takeBack(refused: Refused): void {
    const { progress, state, events } = this.#parts
    progress.takeBack(refused)
    if (state.blocked === "") return
    state.unblock()
    events.resumed()
  }

  /** The sink will never get the event: it is a dead letter now. */
  refuse(item: Item, reason: Refusal, message: string): void {
    this.#deadLetter(item, reason, reason, message)
  }

  /** `failure` is what became of the last attempt, `reason` why there is no other. */
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
