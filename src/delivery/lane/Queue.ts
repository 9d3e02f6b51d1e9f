/**
 * What a lane has in hand and may send: batches in order, and where order is
 * kept by key, never two batches of one key under way.
 *
 * Events of one key do go together in one batch: a sink sends a batch in its
 * order. An event whose key is under way waits for that batch to land.
 */
import type { Entry } from "../../event/Entry.ts"

export interface Item {
  readonly entry: Entry
  /** The order key; empty where none is kept, and for a replayed event. */
  readonly key: string
}

export interface Limits {
  readonly events: number
  readonly bytes: number
  /** Failures stand unanswered: take another event than the last time, one after the other. */
  readonly probing: boolean
  /** Goes by itself, in no batch with others. */
  readonly apart: (sequence: number) => boolean
}

const bySequence = (a: Item, b: Item) => a.entry.sequence - b.entry.sequence

export class Queue {
  #fresh: Array<Item> = []
  #retries: Array<Item> = []
  readonly #underWay = new Map<string, Array<Item>>()
  #retryTurn = false
  /** The last that was taken of either, by sequence. */
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

  add(item: Item): void {
    this.#fresh.push(item)
  }

  addRetry(item: Item): void {
    this.#retries.push(item)
  }

  /** The oldest fresh events, out of the queue. */
  takeOldest(limit: number): ReadonlyArray<Item> {
    return this.#fresh.splice(0, limit)
  }

  /** The next batch; retries and fresh events take turns. `behind` gets what must wait behind a parked event of its key. */
  next(limits: Limits, isParked: (key: string) => boolean, behind: (item: Item) => void): ReadonlyArray<Item> {
    this.#retryTurn = !this.#retryTurn
    // Each has its own place: one for both would go to and fro between two bad events, and never get to a good one.
    if (this.#retries.length > 0 && (this.#retryTurn || this.#fresh.length === 0)) {
      const batch = this.#fill(this.#retries, limits, limits.probing ? this.#lastRetry : 0, undefined, behind)
      this.#lastRetry = batch[0]?.entry.sequence ?? 0
      return batch
    }
    const batch = this.#fill(this.#fresh, limits, limits.probing ? this.#lastFresh : 0, isParked, behind)
    this.#lastFresh = batch[0]?.entry.sequence ?? 0
    return batch
  }

  /** A batch has landed: its keys are free, and what was not settled goes back in order. */
  landed(items: ReadonlyArray<Item>, back: ReadonlyArray<Item>): void {
    const ready = [...back]
    if (this.#underWay.size > 0) {
      for (const { key } of items) {
        const waiting = this.#underWay.get(key)
        if (waiting === undefined) continue
        this.#underWay.delete(key)
        ready.push(...waiting)
      }
    }
    if (ready.length > 0) this.#fresh = [...ready, ...this.#fresh].sort(bySequence)
  }

  #fill(
    queue: Array<Item>,
    limits: Limits,
    after: number,
    isParked: ((key: string) => boolean) | undefined,
    behind: (item: Item) => void,
  ): ReadonlyArray<Item> {
    const batch: Array<Item> = []
    const passed: Array<Item> = []
    const passedKeys = new Set<string>()
    const own = new Set<string>()
    let bytes = 0
    let index = 0
    for (; index < queue.length && batch.length < limits.events; index++) {
      const item = queue[index] as Item
      const { key } = item
      const size = item.entry.event.body.length
      const apart = limits.apart(item.entry.sequence)
      if (batch.length > 0 && (apart || bytes + size > limits.bytes)) break
      if (item.entry.sequence <= after || (key !== "" && passedKeys.has(key))) {
        passed.push(item)
        if (key !== "") passedKeys.add(key)
        continue
      }
      if (key !== "" && !own.has(key)) {
        if (isParked?.(key)) {
          behind(item)
          continue
        }
        const waiting = this.#underWay.get(key)
        if (waiting !== undefined) {
          waiting.push(item)
          continue
        }
        own.add(key)
        this.#underWay.set(key, [])
      }
      batch.push(item)
      bytes += size
      if (!apart) continue
      index += 1
      break
    }
    queue.splice(0, index, ...passed)
    // Nothing is left after the event that went last: begin anew.
    return batch.length === 0 && passed.length > 0 ? this.#fill(queue, limits, 0, isParked, behind) : batch
  }
}
