/**
 * The events that a lane holds in memory and may send: batches in order, and
 * where order is kept by key, never two batches of one key in flight.
 *
 * Events of one key do go together in one batch: a sink sends a batch in its
 * order. An event whose key is in flight waits for that batch to end.
 */
import type { Entry } from "../../event/Entry.ts"

export interface Item {
  readonly entry: Entry
  /** The order key; empty where none is kept, and for a replayed event. */
  readonly key: string
  /** The event before it in the lane's log; absent of a retry. */
  readonly previous?: number
}

export interface Limits {
  readonly events: number
  readonly bytes: number
  /** The sink is probed: take another event than the last time, one after the other. */
  readonly probing: boolean
  /** Whether the event goes in a batch of its own. */
  readonly isIsolated: (sequence: number) => boolean
  /** Events to pass over while there are others. The first predicate that leaves some counts. */
  readonly avoids?: ReadonlyArray<(item: Item) => boolean> | undefined
}

interface Choice extends Limits {
  readonly avoid?: ((item: Item) => boolean) | undefined
}

/** The last arguments of {@link Queue.next}. */
type Rest = [isBehind: (item: Item) => boolean, wait: (item: Item) => void]

const bySequence = (a: Item, b: Item) => a.entry.sequence - b.entry.sequence

export class Queue {
  #fresh: Array<Item> = []
  #retries: Array<Item> = []
  /** By key in flight, the events that wait for it. */
  readonly #blocked = new Map<string, Array<Item>>()
  /** When the oldest fresh event came, or the last batch went: monotonic milliseconds. */
  fillingSince = 0
  #retryTurn = false
  /** The sequence that the last batch of either started with. */
  #lastFresh = 0
  #lastRetry = 0

  get size(): number {
    return this.#fresh.length + this.#retries.length
  }

  get retries(): number {
    return this.#retries.length
  }

  get fresh(): number {
    return this.#fresh.length
  }

  get first(): Item | undefined {
    return this.#fresh[0]
  }

  add(item: Item, now: number): void {
    if (this.size === 0) this.fillingSince = now
    this.#fresh.push(item)
  }

  addRetry(item: Item): void {
    this.#retries.push(item)
  }

  /** Whether a batch with an event of this key is in flight. */
  isInFlight(key: string): boolean {
    return this.#blocked.has(key)
  }

  /** The oldest fresh events, out of the queue. */
  takeOldest(limit: number): ReadonlyArray<Item> {
    return this.#fresh.splice(0, limit)
  }

  /**
   * The next batch; retries and fresh events take turns. `isBehind` says whether an earlier event of the key waits
   * for a retry, `wait` gets the event that must wait behind it.
   */
  next(
    limits: Limits,
    now: number,
    isBehind: (item: Item) => boolean,
    wait: (item: Item) => void,
  ): ReadonlyArray<Item> {
    this.fillingSince = now
    const avoid = limits.avoids?.find((avoid) => this.#has(avoid))
    this.#retryTurn = this.#isRetryTurn(avoid)
    const choice: Choice = avoid === undefined ? limits : { ...limits, avoid }
    // Each has a place of its own: with one for both, two bad events would take turns and no good one be tried.
    if (this.#retries.length > 0 && (this.#retryTurn || this.#fresh.length === 0)) {
      const batch = this.#choose(this.#retries, choice, limits.probing ? this.#lastRetry : 0, isBehind, wait)
      this.#lastRetry = batch[0]?.entry.sequence ?? 0
      if (batch.length > 0) return batch
    }
    const batch = this.#choose(this.#fresh, choice, limits.probing ? this.#lastFresh : 0, isBehind, wait)
    this.#lastFresh = batch[0]?.entry.sequence ?? 0
    return batch
  }

  #has(avoid: (item: Item) => boolean): boolean {
    return [this.#retries, this.#fresh].some((queue) => queue.some((item) => !avoid(item)))
  }

  #isRetryTurn(avoid: Choice["avoid"]): boolean {
    if (avoid !== undefined) {
      const [retries, fresh] = [this.#retries, this.#fresh].map((queue) => queue.some((item) => !avoid(item)))
      if (retries !== fresh) return retries === true
    }
    return !this.#retryTurn
  }

  /** A batch has ended: its keys are free, and what was not settled goes back in order. */
  ended(items: ReadonlyArray<Item>, back: ReadonlyArray<Item>): void {
    if (back.length === 0 && this.#blocked.size === 0) return
    const ready = [...back]
    if (this.#blocked.size > 0) {
      for (const { key } of items) {
        const waiting = this.#blocked.get(key)
        if (waiting === undefined) continue
        this.#blocked.delete(key)
        ready.push(...waiting)
      }
    }
    if (ready.length > 0) this.#fresh = [...ready, ...this.#fresh].sort(bySequence)
  }

  /** Takes events after the last one sent, or starts from the first. Better probes go before the others. */
  #choose(queue: Array<Item>, choice: Choice, after: number, ...rest: Rest): ReadonlyArray<Item> {
    const batch = this.#fill(queue, choice, after, ...rest)
    if (batch.length > 0 || queue.length === 0) return batch
    if (after > 0) {
      const first = this.#fill(queue, choice, 0, ...rest)
      if (first.length > 0) return first
    }
    return choice.avoid === undefined ? batch : this.#choose(queue, { ...choice, avoid: undefined }, after, ...rest)
  }

  #fill(queue: Array<Item>, limits: Choice, after: number, ...[isBehind, wait]: Rest): ReadonlyArray<Item> {
    const batch: Array<Item> = []
    const passed: Array<Item> = []
    // Only events with a key count: where no order is kept there are none.
    let passedKeys: Set<string> | undefined
    let own: Set<string> | undefined
    let bytes = 0
    let index = 0
    for (; index < queue.length && batch.length < limits.events; index++) {
      const item = queue[index] as Item
      const { key } = item
      const size = item.entry.event.body.length
      const isolated = limits.isIsolated(item.entry.sequence)
      if (batch.length > 0 && (isolated || bytes + size > limits.bytes)) break
      const isLater = item.entry.sequence <= after || limits.avoid?.(item) === true
      if (isLater || (key !== "" && passedKeys?.has(key))) {
        passed.push(item)
        if (key !== "") passedKeys = (passedKeys ?? new Set()).add(key)
        continue
      }
      if (key !== "" && !own?.has(key)) {
        if (isBehind(item)) {
          wait(item)
          continue
        }
        const waiting = this.#blocked.get(key)
        if (waiting !== undefined) {
          waiting.push(item)
          continue
        }
        own = (own ?? new Set()).add(key)
        this.#blocked.set(key, [])
      }
      batch.push(item)
      bytes += size
      if (!isolated) continue
      index += 1
      break
    }
    queue.splice(0, index, ...passed)
    return batch
  }
}
