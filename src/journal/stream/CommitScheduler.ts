/**
 * Decides when to commit. During three turns of the event loop, a batch collects the events in flight. A commit
 * costs nearly the same for one event as for fifty. So a small batch that follows a commit waits a few
 * milliseconds for more events, unless events arrive one by one, each after the answer to the one before.
 */

export interface Timing {
  /** A batch with fewer events waits for more. */
  readonly enough: number
  /** How long it waits after the last commit, in milliseconds. */
  readonly gap: number
}

const onDisk: Timing = { enough: 32, gap: 3 }
/** After a commit of at most this many events, events arrive one by one. */
const oneByOne = 2
/** A settlement waits this long for a batch to share its fsync with, in milliseconds. */
const settleDelay = 5

/** Calls `flush` when it is time to commit. `open` counts the events of the open batch. */
export class CommitScheduler {
  readonly #flush: () => void
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

  /** Call it after an event was added to the open batch. */
  joined(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => setImmediate(() => setImmediate(this.#turn)))
  }

  /** Call it when a settlement waits for a commit. */
  settling(): void {
    this.#settling ??= setTimeout(this.#flush, settleDelay)
  }

  /** Call it when the open batch is being committed. */
  flushed(): void {
    this.#scheduled = false
    clearTimeout(this.#waiting)
    clearTimeout(this.#settling)
    this.#settling = undefined
  }

  /** Records that a commit of `events` events ended at `now`, in monotonic milliseconds. */
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
