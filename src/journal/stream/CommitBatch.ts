/** The events of the next commit. They share one row, one fsync, and one promise for all callers. */
import type { Entry, Event } from "../../event/Event.ts"
import type { AppendExit } from "../Journal.ts"
import { type DuplicateKey, keyWidth, putKey } from "./DuplicateKey.ts"
import { Origin, Writer } from "./Record.ts"

/** Maximum bytes of a commit. A larger body is committed alone. */
const maxBytes = 1024 * 1024
/** Maximum events in a row of the log. */
export const maxEvents = 512

/** A batch, which is reused after each commit. */
export class CommitBatch {
  first = 1
  readonly entries: Array<Entry> = []
  /** Lanes that don't exist yet: this commit inserts them. */
  readonly newLanes: Array<string> = []
  receivedFrom = Number.POSITIVE_INFINITY
  receivedTo = 0

  readonly #writer = new Writer()
  readonly #keyBuffer = Buffer.alloc(maxEvents * keyWidth)
  readonly #distinct = new Map<string, number>()
  #lastSinks: ReadonlyArray<string> | undefined
  #lastRoute = 0

  #waiters: Array<(exit: AppendExit) => void> = []
  #shared: Promise<AppendExit> | undefined

  get isEmpty(): boolean {
    return this.entries.length === 0
  }

  /** The sequence of the event that is added next. */
  get next(): number {
    return this.first + this.entries.length
  }

  get isFull(): boolean {
    return this.entries.length >= maxEvents || this.#writer.length >= maxBytes
  }

  get size(): number {
    return this.#writer.length
  }

  add(event: Event, sinks: ReadonlyArray<string>, origin: Origin, key: DuplicateKey): void {
    const index = this.entries.length
    const sequence = this.first + index
    this.#writer.add(sequence, event, sinks, origin, key.bodyCrc)
    putKey(this.#keyBuffer, index, key, this.#routeOf(sinks), origin === Origin.delivered)
    if (event.receivedAt < this.receivedFrom) this.receivedFrom = event.receivedAt
    if (event.receivedAt > this.receivedTo) this.receivedTo = event.receivedAt
    this.entries.push({ sequence, event, sinks, replayed: origin === Origin.replayed || event.replay !== undefined })
  }

  routes(): string {
    return `[${[...this.#distinct.keys()].join(",")}]`
  }

  keys(): Uint8Array {
    return this.#keyBuffer.subarray(0, this.entries.length * keyWidth)
  }

  bytes(): Uint8Array {
    return this.#writer.bytes()
  }

  /** The promise that the callers of this batch share. */
  get promise(): Promise<AppendExit> {
    this.#shared ??= new Promise((resolve) => this.onDone(resolve))
    return this.#shared
  }

  onDone(waiter: (exit: AppendExit) => void): void {
    this.#waiters.push(waiter)
  }

  /** Resolves all callers, and starts the next batch at `first`. */
  finish(exit: AppendExit, first: number): void {
    const waiters = this.#waiters
    this.#waiters = []
    this.#shared = undefined
    this.clear(first)
    for (const waiter of waiters) waiter(exit)
  }

  clear(first: number): void {
    this.first = first
    this.entries.length = 0
    this.newLanes.length = 0
    this.receivedFrom = Number.POSITIVE_INFINITY
    this.receivedTo = 0
    this.#writer.clear()
    this.#distinct.clear()
    this.#lastSinks = undefined
  }

  #routeOf(sinks: ReadonlyArray<string>): number {
    // The router returns the same array for the same type, so mostly this is one comparison.
    if (sinks === this.#lastSinks) return this.#lastRoute
    const text = JSON.stringify(sinks)
    let route = this.#distinct.get(text)
    if (route === undefined) {
      route = this.#distinct.size
      this.#distinct.set(text, route)
    }
    this.#lastSinks = sinks
    this.#lastRoute = route
    return route
  }
}

/**
 * Decides when to commit. During three turns of the event loop, a batch collects the events in flight. A commit
 * costs nearly the same for one event as for fifty. So a small batch that follows a commit waits a few
 * milliseconds for more events. If events arrive one by one, each after the answer to the one before, a batch
 * waits for one turn only.
 */

interface Timing {
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
    if (this.#committedEvents > oneByOne) setImmediate(() => setImmediate(() => setImmediate(this.#turn)))
    else setImmediate(this.#turn)
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
