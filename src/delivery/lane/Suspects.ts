/**
 * Finds out whether the sink or an event is at fault, when an attempt fails for a
 * reason that blames the whole sink (unavailable, throttled, misconfigured).
 *
 * A single failure proves nothing. If an event fails again although others have
 * succeeded since, the event is at fault: it is charged an attempt, and the sink is
 * not blamed. From then on, it is charged for each failure, unless others fail as
 * well and none succeeds, because no event is charged while the sink is unavailable.
 *
 * When a batch fails as a whole, any of its events may be at fault. So they are
 * isolated and sent one by one until each has shown whether it is at fault.
 */
import type { Retry } from "../../journal/Journal.ts"
import { blamesSink, type Suspicion } from "./Verdict.ts"

export class Suspects {
  #passes = 0
  /** Events that are not at fault have failed, and no attempt has succeeded since. */
  #mayBeAway = false
  /** By event: the number of successful attempts before its last failure. */
  readonly #failedAt = new Map<number, number>()
  readonly #charged = new Set<number>()
  readonly #isolated = new Set<number>()

  /** Called when an attempt delivered at least one event. */
  passed(): void {
    this.#passes += 1
    this.#mayBeAway = false
  }

  /** Called when the event failed for a reason that blames the sink. */
  failed(sequence: number): void {
    this.#failedAt.set(sequence, this.#passes)
    if (!this.#charged.has(sequence)) this.#mayBeAway = true
  }

  /** Called when the event failed for such a reason and is charged an attempt. */
  charge(sequence: number): void {
    this.#charged.add(sequence)
    this.failed(sequence)
  }

  /**
   * Takes over retries from before a restart or from another lane. If such a reason was charged to an event, the event
   * was at fault.
   */
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

  /** Called when the event was delivered or is a dead letter. */
  ended(sequence: number): void {
    if (this.#failedAt.size + this.#charged.size + this.#isolated.size === 0) return
    this.#failedAt.delete(sequence)
    this.#charged.delete(sequence)
    this.#isolated.delete(sequence)
  }
}
