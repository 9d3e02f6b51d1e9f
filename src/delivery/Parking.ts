/**
 * The parked events of a lane, by sequence: when each is due, and which wait
 * behind an earlier one of their key. The bytes are in the journal.
 *
 * A lane that sends digests parks whatever comes, by the group it belongs to:
 * the first of a group is due when its window ends, or when the group is full,
 * and what waits behind it goes with it. Nothing else makes a digest durable.
 *
 * Due times are kept on the monotonic clock; the wall clock is only what is
 * stored, for a process that is not born yet.
 */
import type { Parked } from "../journal/Journal.ts"
import { remaining } from "./Retry.ts"

export interface ParkedEvent {
  readonly sequence: number
  /** Empty where the lane keeps no order. */
  readonly key: string
  /** Monotonic milliseconds; infinite while it waits behind another of its key. */
  dueAt: number
  /** Wall clock and delay, as stored. */
  due: number
  delay: number
  firstAttemptAt: number
  /** Attempts that are charged to it. What they came to is in the journal. */
  tried: number
  /** The reason of its newest failed attempt; empty when there is none. */
  lastFailure: string
  /** How many of its newest attempts in a row died of a bug, since the start. */
  defects: number
  /** An attempt is under way, or about to be. */
  taken: boolean
}

/**
 * How many times as many may be parked as may wait for a retry of their own. One event that fails for ever must not
 * keep the lane from other keys, so what waits behind it is bounded only by the memory that it takes.
 */
const behindEach = 100

export class Parking {
  /** How many of one key go together. */
  readonly #together: number
  readonly #events = new Map<number, ParkedEvent>()
  readonly #unkeyed = new Map<number, ParkedEvent>()
  readonly #keys = new Map<string, Array<number>>()
  #nextDue = Number.POSITIVE_INFINITY

  constructor(together = 1) {
    this.#together = together
  }

  get size(): number {
    return this.#events.size
  }

  /** Whether more may be parked: what waits behind one that fails hardly counts. */
  hasRoom(maxParked: number): boolean {
    return this.#keys.size + this.#unkeyed.size < maxParked && this.size < maxParked * behindEach
  }

  get(sequence: number): ParkedEvent | undefined {
    return this.#events.get(sequence)
  }

  has(sequence: number): boolean {
    return this.#events.size > 0 && this.#events.has(sequence)
  }

  all(): Iterable<ParkedEvent> {
    return this.#events.values()
  }

  /** Whether an event of this key must wait behind one that is parked. */
  holds(key: string): boolean {
    return key !== "" && this.#keys.has(key)
  }

  /** Takes over what was parked before a restart. */
  load(parked: ReadonlyArray<Parked>, wall: number, monotonic: number): void {
    for (const one of [...parked].sort((a, b) => a.sequence - b.sequence)) {
      // Parked before its lane sent digests: a group of its own.
      const key = one.key === "" && this.#together > 1 ? `#${one.sequence}` : one.key
      const defects = one.lastFailure === "Defect" ? 1 : 0
      this.put({ ...one, key, defects, dueAt: monotonic + remaining(one.due, one.delay, wall), taken: false })
    }
  }

  put(event: ParkedEvent): void {
    const isNew = this.#events.get(event.sequence)?.key !== event.key
    this.#events.set(event.sequence, event)
    if (event.key === "") this.#unkeyed.set(event.sequence, event)
    else {
      const waiting = this.#keys.get(event.key) ?? []
      this.#keys.set(event.key, waiting)
      const last = waiting.at(-1)
      if (isNew) {
        waiting.push(event.sequence)
        if (last !== undefined && last > event.sequence) waiting.sort((a, b) => a - b)
      }
      if (this.#isFull(waiting)) this.#nextDue = Number.NEGATIVE_INFINITY
    }
    if (this.#isHead(event)) this.#nextDue = Math.min(this.#nextDue, event.dueAt)
  }

  /** Forgets an event and lets the next of its key go at once. */
  remove(sequence: number, monotonic: number): void {
    const event = this.#events.get(sequence)
    if (event === undefined) return
    this.#events.delete(sequence)
    this.#unkeyed.delete(sequence)
    const waiting = this.#keys.get(event.key)
    if (waiting === undefined) return
    if (waiting[0] === sequence) waiting.shift()
    else waiting.splice(waiting.indexOf(sequence), 1)
    if (waiting.length === 0) {
      this.#keys.delete(event.key)
      return
    }
    const next = this.#events.get(waiting[0] ?? 0)
    // What waited for another event has waited enough; the next digest of a group has a window of its own.
    if (next !== undefined && next.tried === 0 && this.#together === 1) next.dueAt = monotonic
    this.#nextDue = Math.min(this.#nextDue, next?.dueAt ?? Number.POSITIVE_INFINITY)
  }

  /** Marks up to `limit` due events as taken, the longest due first. */
  takeDue(now: number, limit: number): ReadonlyArray<ParkedEvent> {
    if (now < this.#nextDue || limit <= 0) return []
    const due: Array<ParkedEvent> = []
    let next = Number.POSITIVE_INFINITY
    for (const event of this.#heads()) {
      if (event.taken) continue
      if (event.dueAt <= now) due.push(event)
      else next = Math.min(next, event.dueAt)
    }
    due.sort((a, b) => a.dueAt - b.dueAt || a.sequence - b.sequence)
    const taken = due.slice(0, limit)
    for (const event of taken) event.taken = true
    this.#nextDue = due.length > limit ? now : next
    return taken
  }

  /**
   * Marks one due group as taken, the longest due first: the head of a key, and what was tried as often behind it.
   * What `apart` says goes by itself.
   */
  takeGroup(now: number, apart: (sequence: number) => boolean = () => false): ReadonlyArray<ParkedEvent> {
    if (now < this.#nextDue) return []
    let due: { readonly at: number; readonly waiting: ReadonlyArray<number> } | undefined
    let next = Number.POSITIVE_INFINITY
    for (const waiting of this.#keys.values()) {
      const head = this.#events.get(waiting[0] ?? 0)
      if (head === undefined || head.taken) continue
      const at = this.#isFull(waiting) && head.tried === 0 ? Math.min(now, head.dueAt) : head.dueAt
      if (at > now || (due !== undefined && due.at <= at)) {
        next = Math.min(next, at)
        continue
      }
      next = Math.min(next, due?.at ?? next)
      due = { at, waiting }
    }
    this.#nextDue = next
    const group: Array<ParkedEvent> = []
    for (const sequence of due?.waiting ?? []) {
      const event = this.#events.get(sequence)
      // One that was moved here may stand before others whose digest is under way.
      if (event === undefined || event.taken || group.length === this.#together) break
      const [head] = group
      if (head !== undefined && (event.tried !== head.tried || apart(sequence))) break
      group.push(event)
      if (apart(sequence)) break
    }
    for (const event of group) event.taken = true
    return group
  }

  #isFull(waiting: ReadonlyArray<number>): boolean {
    return this.#together > 1 && waiting.length >= this.#together
  }

  /** Puts a taken event back without another attempt. */
  giveBack(sequence: number, dueAt: number): void {
    const event = this.#events.get(sequence)
    if (event === undefined) return
    event.taken = false
    event.dueAt = dueAt
    this.#nextDue = Math.min(this.#nextDue, dueAt)
  }

  /** All are due again at `monotonic`: a person resumed the lane. */
  hasten(monotonic: number): void {
    for (const event of this.#events.values()) if (!event.taken) event.dueAt = monotonic
    this.#nextDue = monotonic
  }

  /** Those that wait for a retry of their own. */
  *#heads(): Iterable<ParkedEvent> {
    yield* this.#unkeyed.values()
    for (const [first = 0] of this.#keys.values()) {
      const head = this.#events.get(first)
      if (head !== undefined) yield head
    }
  }

  #isHead(event: ParkedEvent): boolean {
    return event.key === "" || this.#keys.get(event.key)?.[0] === event.sequence
  }
}
