/**
 * How many of a lane's newest events the sink rejected. When it is more than
 * half, the lane is blocked before a whole backlog becomes dead letters.
 *
 * They are counted as they end. Where rejections are slower than deliveries, a
 * burst ends with all rejections that were in flight: so the lane looks at four
 * times as many events as may be in flight, and a sink that rejects a third of
 * its events is not blocked, however slowly.
 */
const fewest = 20
const placesToLookAt = 4

export class RejectionRate {
  /** It counts so many events. */
  readonly newest: number
  /** 1 for a rejected event; the oldest is written over. */
  readonly #outcomes: Uint8Array
  #ended = 0
  #rejected = 0

  /** `concurrency` is how many attempts the lane has in flight at most. */
  constructor(concurrency: number) {
    this.newest = Math.max(fewest, placesToLookAt * concurrency)
    this.#outcomes = new Uint8Array(this.newest)
  }

  passed(events: number): void {
    for (let i = 0; i < Math.min(events, this.newest); i++) this.#record(0)
  }

  /** An event was rejected, or given up without asking the sink. True when there are too many. */
  rejected(): boolean {
    this.#record(1)
    return this.#ended >= this.newest && this.#rejected > this.newest / 2
  }

  reset(): void {
    this.#outcomes.fill(0)
    this.#ended = 0
    this.#rejected = 0
  }

  #record(outcome: 0 | 1): void {
    const at = this.#ended % this.newest
    this.#rejected += outcome - (this.#outcomes[at] ?? 0)
    this.#outcomes[at] = outcome
    this.#ended += 1
  }
}
