/**
 * When to commit. Three turns of the event loop let a group grow to what is in
 * flight. A commit costs nearly the same for one event as for fifty, so a small
 * one close behind another waits for company, a few milliseconds at most; but
 * not where events come one by one, each sent when the one before was answered.
 */

/** Fewer events than this wait for others, until so many milliseconds have passed since the last commit. */
const company = 32
const commitGap = 3
/** Commits of so many events are events that come one by one. */
const oneByOne = 2
/** A settlement waits this long for a group to share its fsync with, in milliseconds. */
const settleDelay = 5

export class CommitScheduler {
  readonly #flush: () => void
  /** Events in the open group. */
  readonly #open: () => number
  #scheduled = false
  #settling: ReturnType<typeof setTimeout> | undefined
  #crowding: ReturnType<typeof setTimeout> | undefined
  #committedAt = 0
  #committedEvents = 0

  constructor(flush: () => void, open: () => number) {
    this.#flush = flush
    this.#open = open
  }

  /** An event has joined the open group. */
  joined(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => setImmediate(() => setImmediate(this.#turn)))
  }

  /** A settlement waits for a commit. */
  settling(): void {
    this.#settling ??= setTimeout(this.#flush, settleDelay)
  }

  /** What is open is being committed: nothing is due any more. */
  flushed(): void {
    this.#scheduled = false
    clearTimeout(this.#crowding)
    clearTimeout(this.#settling)
    this.#settling = undefined
  }

  /** A commit of so many events has ended at `now`, in monotonic milliseconds. */
  committed(events: number, now: number): void {
    this.#committedAt = now
    this.#committedEvents = events
  }

  readonly #turn = (): void => {
    const crowded = this.#committedEvents > oneByOne && this.#open() < company
    const wait = crowded ? commitGap - (performance.now() - this.#committedAt) : 0
    if (wait > 0) this.#crowding = setTimeout(this.#flush, wait)
    else this.#flush()
  }
}
