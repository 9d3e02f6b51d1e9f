/**
 * Decides when to commit. Three turns of the event loop let a batch grow to what
 * is in flight. A commit costs nearly the same for one event as for fifty, so a
 * small batch right after a commit waits for more, a few milliseconds at most;
 * but not where events come one by one, each after the answer to the one before.
 */

/** How commits are timed. */
export interface Timing {
  /** A smaller batch waits for more events, */
  readonly enough: number
  /** until so many milliseconds after the last commit. */
  readonly gap: number
}

const onDisk: Timing = { enough: 32, gap: 3 }
/** After a commit of so few events they come one by one. */
const oneByOne = 2
/** A settlement waits this long for a batch to share its fsync with, in milliseconds. */
const settleDelay = 5

/** Calls `flush` when it is time; `open` counts the events of the open batch. */
export class CommitScheduler {
  readonly #flush: () => void
  /** Events in the open batch. */
  readonly #open: () => number
  readonly #timing: Timing
  #scheduled = false
  #settling: ReturnType<typeof setTimeout> | undefined
  #waiting: ReturnType<typeof setTimeout> | undefined
  #committedAt = 0
  #committedEvents = 0

  constructor(flush: () => void, open: () => number, timing: Timing = onDisk) {
    this.#flush = flush
    this.#open = open
    this.#timing = timing
  }

  /** An event was added to the open batch. */
  joined(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => setImmediate(() => setImmediate(this.#turn)))
  }

  /** A settlement waits for a commit. */
  settling(): void {
    this.#settling ??= setTimeout(this.#flush, settleDelay)
  }

  /** The open batch is being committed. */
  flushed(): void {
    this.#scheduled = false
    clearTimeout(this.#waiting)
    clearTimeout(this.#settling)
    this.#settling = undefined
  }

  /** A commit of so many events has ended at `now`, in monotonic milliseconds. */
  committed(events: number, now: number): void {
    this.#committedAt = now
    this.#committedEvents = events
  }

  readonly #turn = (): void => {
    const mayWait = this.#committedEvents > oneByOne && this.#open() < this.#timing.enough
    const wait = mayWait ? this.#timing.gap - (performance.now() - this.#committedAt) : 0
    if (wait > 0) this.#waiting = setTimeout(this.#flush, wait)
    else this.#flush()
  }
}
