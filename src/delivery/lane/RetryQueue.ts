/**
 * The events of a lane that wait for a retry, by sequence, with the time at which
 * each is due. Some wait behind an earlier event of their key. Their bytes are in
 * the journal.
 *
 * A lane that sends digests puts every event here, under its group. The first event
 * of a group is due when its window ends or the group is full, and the events behind
 * it go with it. Only this makes a digest durable.
 *
 * Due times use the monotonic clock. Wall-clock times are only stored, for the next
 * process.
 */
import type { Retry } from "../../journal/Journal.ts"
import { remaining } from "./LaneClock.ts"
import { isMuteKey, maxMuted } from "./Queue.ts"

export interface QueuedRetry {
  readonly sequence: number
  /** Empty if the lane keeps no order. */
  readonly key: string
  /** Monotonic milliseconds; infinite while the event waits behind another of its key. */
  dueAt: number
  /** Wall-clock time and delay, as stored. */
  due: number
  delay: number
  firstAttemptAt: number
  /** Attempts charged to the event. Their errors are in the journal. */
  tried: number
  /** Attempts before an operator replayed it. */
  earlier?: number
  /** The number of attempts in a row that ended in a bug, up to the latest attempt. Counts from the relay's start. */
  defects: number
  /** An attempt is in flight, or about to be. */
  taken: boolean
}

/**
 * The maximum size of the queue, as a multiple of `maxRetrying`. An event that keeps
 * failing must not block other keys, so the events behind it don't count towards
 * `maxRetrying`; this limit only bounds their memory.
 */
export const behindEach = 100

export class RetryQueue {
  /** The maximum number of events of one key in a digest. */
  readonly #digestSize: number
  readonly #events = new Map<number, QueuedRetry>()
  readonly #unkeyed = new Map<number, QueuedRetry>()
  readonly #keys = new Map<string, Array<number>>()
  #nextDue = Number.POSITIVE_INFINITY

  constructor(digestSize = 1) {
    this.#digestSize = digestSize
  }

  get size(): number {
    return this.#events.size
  }

  /** The earliest time at which an event may be due, or infinity if none waits. */
  get nextDue(): number {
    return this.size === 0 ? Number.POSITIVE_INFINITY : this.#nextDue
  }

  /**
   * Reports whether more events may be queued. `maxOwn` limits the events that don't wait behind another, and `maxAll`
   * limits all events.
   */
  hasRoom(maxOwn: number, maxAll: number): boolean {
    return this.#keys.size + this.#unkeyed.size < maxOwn && this.size < maxAll
  }

  get(sequence: number): QueuedRetry | undefined {
    return this.#events.get(sequence)
  }

  has(sequence: number): boolean {
    return this.#events.size > 0 && this.#events.has(sequence)
  }

  /** Reports whether an event of this key waits. */
  readonly hasKey = (key: string): boolean => this.#keys.has(key)

  all(): Iterable<QueuedRetry> {
    return this.#events.values()
  }

  /** Reports whether another event of this key must end first. */
  isBehind(key: string, sequence: number): boolean {
    const [first = sequence] = this.#keys.get(key) ?? []
    return first !== sequence
  }

  /** Takes over events that waited for a retry before a restart or in another lane. */
  load(retrying: ReadonlyArray<Retry>, wall: number, monotonic: number): void {
    for (const { lastFailure, attempts, ...one } of retrying) {
      const defects = lastFailure === "Defect" ? 1 : 0
      const earlier = Math.max(0, attempts - one.tried)
      this.put({ ...one, earlier, defects, dueAt: monotonic + remaining(one.due, one.delay, wall), taken: false })
    }
  }

  put(event: QueuedRetry): void {
    const before = this.#events.get(event.sequence)
    const isNew = before?.key !== event.key
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
    // The end of an attempt releases the head of its group, which may be an earlier event that joined meanwhile.
    const head = before?.taken === true ? this.#headOf(event) : event
    if (this.#isHead(head)) this.#nextDue = Math.min(this.#nextDue, head.dueAt)
  }

  /** Forgets an event and makes the next event of its key due. */
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
    // It need not wait any longer, because the event before it has ended. But the next digest of a group has a window
    // of its own.
    if (next !== undefined && next.tried === 0 && this.#digestSize === 1) next.dueAt = monotonic
    this.#nextDue = Math.min(this.#nextDue, next?.dueAt ?? Number.POSITIVE_INFINITY)
    // A group that is full in the meantime need not wait for its window.
    if (this.#isFull(waiting)) this.#nextDue = Number.NEGATIVE_INFINITY
  }

  /**
   * Marks due events as taken, longest due first. If the first of them belongs to a message of several events, these
   * are taken, and otherwise up to `limit` events that are messages by themselves.
   */
  takeDue(
    now: number,
    limit: number,
    isIsolated: (sequence: number) => boolean = () => false,
  ): ReadonlyArray<QueuedRetry> {
    if (now < this.#nextDue || limit <= 0) return []
    const due: Array<QueuedRetry> = []
    let next = Number.POSITIVE_INFINITY
    for (const head of this.#heads()) {
      if (head.taken) continue
      const at = this.#dueAt(head)
      if (at > now) next = Math.min(next, at)
      else if (!this.#isInFlight(head.key)) due.push(head)
    }
    due.sort((a, b) => a.dueAt - b.dueAt || a.sequence - b.sequence)
    const [first] = due
    const isMessage = first !== undefined && this.isOneMessage(first.key)
    const alone = due.filter(({ key }) => !this.isOneMessage(key))
    const taken = isMessage ? this.#messageOf(first, isIsolated) : alone.slice(0, limit)
    for (const event of taken) event.taken = true
    this.#nextDue = due.length > (isMessage ? 1 : taken.length) ? now : next
    return taken
  }

  /** Reports whether all events of a key are one message: a digest, or events that are sent together after a wait. */
  readonly isOneMessage = (key: string): boolean => this.#sizeOf(key) > 1

  /** Returns the maximum number of events in a message of this key. */
  #sizeOf(key: string): number {
    return isMuteKey(key) ? maxMuted : this.#digestSize
  }

  /** A full group does not wait for its window. But if it was already tried, it waits for its retry. */
  #dueAt({ key, dueAt, firstAttemptAt }: QueuedRetry): number {
    return firstAttemptAt === 0 && this.#isFull(this.#keys.get(key)) ? Number.NEGATIVE_INFINITY : dueAt
  }

  /** Reports whether an event of a message is in flight. Earlier events that have joined it wait until it ends. */
  #isInFlight(key: string): boolean {
    return this.isOneMessage(key) && this.#keys.get(key)?.some((sequence) => this.#events.get(sequence)?.taken) === true
  }

  /**
   * Returns the events of a message: the first of its key, and those behind it with the same number of attempts. An
   * isolated event goes alone.
   */
  #messageOf(first: QueuedRetry, isIsolated: (sequence: number) => boolean): ReadonlyArray<QueuedRetry> {
    // An event without a key waited before its lane sent digests.
    if (isIsolated(first.sequence) || first.key === "") return [first]
    const waiting = this.#keys.get(first.key)?.slice(0, this.#sizeOf(first.key)) ?? []
    const events = waiting.flatMap((sequence) => this.#events.get(sequence) ?? [])
    const other = events.findIndex(({ sequence, tried }) => tried !== first.tried || isIsolated(sequence))
    return other < 0 ? events : events.slice(0, other)
  }

  /** Returns up to `limit` events that are not taken, oldest first. */
  oldest(limit: number): ReadonlyArray<number> {
    const waiting = [...this.#events.values()].flatMap(({ sequence, taken }) => (taken ? [] : [sequence]))
    return waiting.sort((a, b) => a - b).slice(0, limit)
  }

  #isFull(waiting: ReadonlyArray<number> = []): boolean {
    return this.#digestSize > 1 && waiting.length >= this.#digestSize
  }

  /** Puts a taken event back without another attempt. */
  giveBack(sequence: number, dueAt: number): void {
    const event = this.#events.get(sequence)
    if (event === undefined) return
    event.taken = false
    event.dueAt = dueAt
    this.#nextDue = Math.min(this.#nextDue, dueAt)
  }

  /** Makes all events due now, because an operator resumed the lane. */
  retryNow(monotonic: number): void {
    for (const event of this.#events.values()) if (!event.taken) event.dueAt = monotonic
    this.#nextDue = monotonic
  }

  /** The events that don't wait behind another event. */
  *#heads(): Iterable<QueuedRetry> {
    yield* this.#unkeyed.values()
    for (const [first = 0] of this.#keys.values()) {
      const head = this.#events.get(first)
      if (head !== undefined) yield head
    }
  }

  #headOf(event: QueuedRetry): QueuedRetry {
    const [first = event.sequence] = this.#keys.get(event.key) ?? []
    return this.#events.get(first) ?? event
  }

  #isHead(event: QueuedRetry): boolean {
    return event.key === "" || this.#keys.get(event.key)?.[0] === event.sequence
  }
}
