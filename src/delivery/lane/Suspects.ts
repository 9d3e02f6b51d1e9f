/**
 * The search for the culprit when an attempt fails for a reason that blames the whole
 * sink (away, throttled, misconfigured): the sink's, or the event's.
 *
 * Failing once proves nothing. An event that fails again although
 * others have passed since is at fault itself: it is charged an attempt, and the
 * sink is not blamed. From then on it is charged each time, unless others fail
 * as well and nothing passes: while the sink is away nobody is charged.
 *
 * When a batch fails as a whole, any of its events may be at fault: they are
 * isolated, and go one by one until each has shown whether it is.
 */
import type { Retry } from "../../journal/Journal.ts"
import { blamesSink, type Suspicion } from "./Verdict.ts"

export class Suspects {
  #passes = 0
  /** Events not at fault have failed, and nothing has passed since. */
  #mayBeAway = false
  /** How many attempts had passed when the event last failed. */
  readonly #failedAt = new Map<number, number>()
  readonly #charged = new Set<number>()
  readonly #isolated = new Set<number>()

  /** An attempt passed, or a part of it. */
  passed(): void {
    this.#passes += 1
    this.#mayBeAway = false
  }

  /** The event failed for such a reason. */
  failed(sequence: number): void {
    this.#failedAt.set(sequence, this.#passes)
    if (!this.#charged.has(sequence)) this.#mayBeAway = true
  }

  /** It failed so, and is charged an attempt. */
  charge(sequence: number): void {
    this.#charged.add(sequence)
    this.failed(sequence)
  }

  /** Events that wait for a retry since before a restart, or in another lane: such a reason was only charged to one at fault. */
  recall(retries: ReadonlyArray<Retry>): void {
    for (const { sequence, lastFailure } of retries) if (blamesSink(lastFailure)) this.#charged.add(sequence)
  }

  suspicion(sequence: number): Suspicion {
    const wasCharged = this.#charged.has(sequence)
    if (wasCharged && !this.#mayBeAway) return "atFault"
    if ((this.#failedAt.get(sequence) ?? this.#passes) < this.#passes) return "atFault"
    return wasCharged ? "wasAtFault" : "none"
  }

  wasCharged(sequence: number): boolean {
    return this.#charged.has(sequence)
  }

  isolate(sequence: number): void {
    this.#isolated.add(sequence)
  }

  readonly isIsolated = (sequence: number): boolean => this.#isolated.size > 0 && this.#isolated.has(sequence)

  /** The event was delivered, or is a dead letter. */
  ended(sequence: number): void {
    if (this.#failedAt.size + this.#charged.size + this.#isolated.size === 0) return
    this.#failedAt.delete(sequence)
    this.#charged.delete(sequence)
    this.#isolated.delete(sequence)
  }
}
