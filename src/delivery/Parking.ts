/**
 * The parked events of a lane, by sequence: when each is due, and which wait
 * behind an earlier one of their key. The bytes are in the journal.
 *
 * Due times are kept on the monotonic clock; the wall clock is only what is
 * stored, for a process that is not born yet.
 */
import type { Attempt, Parked } from "../journal/Journal.ts"
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
  attempts: ReadonlyArray<Attempt>
  /** An attempt is under way, or about to be. */
  taken: boolean
}

export class Parking {
  readonly #events = new Map<number, ParkedEvent>()
  readonly #keys = new Map<string, Array<number>>()
  #nextDue = Number.POSITIVE_INFINITY

  get size(): number {
    return this.#events.size
  }

  get(sequence: number): ParkedEvent | undefined {
    return this.#events.get(sequence)
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
      this.put({ ...one, dueAt: monotonic + remaining(one.due, one.delay, wall), taken: false })
    }
  }

  put(event: ParkedEvent): void {
    this.#events.set(event.sequence, event)
    if (event.key !== "") {
      const waiting = this.#keys.get(event.key)
      if (waiting === undefined) this.#keys.set(event.key, [event.sequence])
      else if (!waiting.includes(event.sequence)) {
        waiting.push(event.sequence)
        waiting.sort((a, b) => a - b)
      }
    }
    if (this.#isHead(event)) this.#nextDue = Math.min(this.#nextDue, event.dueAt)
  }

  /** Forgets an event and lets the next of its key go at once. */
  remove(sequence: number, monotonic: number): void {
    const event = this.#events.get(sequence)
    if (event === undefined) return
    this.#events.delete(sequence)
    const waiting = this.#keys.get(event.key)
    if (waiting === undefined) return
    const rest = waiting.filter((one) => one !== sequence)
    if (rest.length === 0) {
      this.#keys.delete(event.key)
      return
    }
    this.#keys.set(event.key, rest)
    const next = this.#events.get(rest[0] ?? 0)
    if (next !== undefined && next.attempts.length === 0) next.dueAt = monotonic
    this.#nextDue = Math.min(this.#nextDue, next?.dueAt ?? Number.POSITIVE_INFINITY)
  }

  /** Marks up to `limit` due events as taken, the longest due first. */
  takeDue(now: number, limit: number): ReadonlyArray<ParkedEvent> {
    if (now < this.#nextDue || limit <= 0) return []
    const due: Array<ParkedEvent> = []
    let next = Number.POSITIVE_INFINITY
    for (const event of this.#events.values()) {
      if (event.taken || !this.#isHead(event)) continue
      if (event.dueAt <= now) due.push(event)
      else next = Math.min(next, event.dueAt)
    }
    due.sort((a, b) => a.dueAt - b.dueAt || a.sequence - b.sequence)
    const taken = due.slice(0, limit)
    for (const event of taken) event.taken = true
    this.#nextDue = due.length > limit ? now : next
    return taken
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

  #isHead(event: ParkedEvent): boolean {
    return event.key === "" || this.#keys.get(event.key)?.[0] === event.sequence
  }
}
