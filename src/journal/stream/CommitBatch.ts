/** The events of the next commit. They share one row, one fsync, and one promise for all callers. */
import type { Entry } from "../../event/Entry.ts"
import type { Event } from "../../event/Event.ts"
import type { AppendExit } from "../Journal.ts"
import type { DuplicateKey } from "./DuplicateKey.ts"
import { Origin, Writer } from "./Record.ts"
import { keyWidth, putKey } from "./RowKeys.ts"

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
