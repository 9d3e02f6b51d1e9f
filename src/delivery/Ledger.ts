/**
 * A lane's book: what it has taken from the log, what is parked, and what the
 * journal has yet to be told of either.
 *
 * **Promise.** Each event that was taken ends in exactly one way (delivered,
 * parked, dead), and the settlement that moves the cursor past it says which.
 */
import type { Clock } from "effect"
import type { Attempt, OpenedLane, Parked, Settlement } from "../journal/Journal.ts"
import { Changes } from "./Changes.ts"
import { Parking } from "./Parking.ts"
import type { Item } from "./Queue.ts"
import { Window } from "./Window.ts"

/** Characters of what a failed attempt says that are kept. */
const maxMessage = 1_000

/** How an event comes to be parked. */
interface Cause {
  readonly tried: number
  readonly firstAttemptAt: number
  /** Milliseconds. */
  readonly delay: number
  readonly failed?: Attempt
}

export class Ledger {
  readonly window: Window
  readonly parking: Parking
  /** Bytes of the events in the window. */
  bytes = 0
  deadLetters: number
  deadLetterBytes: number
  readonly #lane: string
  readonly #clock: Clock.Clock
  readonly #started: number
  /** Events that have ended, delivered or dead: all, those in the settlement that is being stored, and those on disk. */
  #ended = 0
  #storing = 0
  #stored = 0
  readonly #changes: Changes
  /** How long the lane was paused in all, in milliseconds. */
  #pausedFor: number

  /** Of one key, `together` events go as one. `started` is that of `WallClock`; that of now unless told. */
  constructor(state: OpenedLane, lane: string, clock: Clock.Clock, together: number, started?: number) {
    this.parking = new Parking(together)
    this.window = new Window(state.cursor)
    this.deadLetters = state.deadLetters
    this.deadLetterBytes = state.deadLetterBytes
    this.#lane = lane
    this.#pausedFor = state.pausedFor
    this.#clock = clock
    this.#started = started ?? this.wall() - this.now()
    this.#changes = new Changes(state.cursor.sequence)
    this.parking.load(state.waiting, this.wall(), this.now())
  }

  /** Monotonic milliseconds. */
  now(): number {
    return Number(this.#clock.monotonicTimeNanosUnsafe()) / 1e6
  }

  /** Epoch milliseconds. */
  wall(): number {
    return this.#clock.currentTimeMillisUnsafe()
  }

  /** What ages are told by: the wall clock as it was at the start, and monotonic since. Whoever sets the clock ages nobody. */
  steady(): number {
    return Math.round(this.#started + this.now())
  }

  /** Settled events that a crash would send again. */
  get unstored(): number {
    return this.#changes.unstored
  }

  get cursor(): number {
    const { oldest, position } = this.window
    return oldest === undefined ? position : oldest - 1
  }

  /** How many events have ended since the lane began; `endedOnDisk` of them the journal knows of. */
  get ended(): number {
    return this.#ended
  }

  get endedOnDisk(): number {
    return this.#stored
  }

  /** What the journal has yet to be told; `undefined` when nothing is. */
  takeChanges(): Settlement | undefined {
    this.#storing = this.#ended
    return this.#changes.take(this.#lane, this.window.cursor(), this.#pausedFor)
  }

  /** What was taken last is on disk. */
  stored(): void {
    this.#stored = this.#storing
    this.#changes.stored()
  }

  /** Takes changes back that could not be stored: they go with the next ones. */
  restore(settlement: Settlement): void {
    this.#changes.restore(settlement)
  }

  delivered(item: Item): void {
    const { sequence } = item.entry
    if (this.parking.size > 0 && this.parking.get(sequence) !== undefined) {
      this.parking.remove(sequence, this.now())
      this.#changes.unpark(sequence)
    }
    this.#ended += 1
    this.#close(item)
  }

  /**
   * Takes over what the journal moved here from another lane: what it has parked
   * and this lane does not know. What this lane has just ended the journal may
   * still have, and taken over it would hold its key for ever. What this lane has
   * in hand itself goes on so: twice in hand, one would settle the other.
   */
  adopt(parked: ReadonlyArray<Parked>): void {
    const unknown = parked.filter(({ sequence }) => !this.parking.has(sequence) && !this.#changes.ends(sequence))
    for (const { sequence } of unknown) if (this.window.isOpen(sequence)) this.#changes.unpark(sequence)
    const taken = unknown.filter(({ sequence }) => !this.window.isOpen(sequence))
    this.parking.load(taken, this.wall(), this.now())
  }

  /** An attempt that failed just now. */
  failed(reason: string, message: string): Attempt {
    return { at: this.wall(), reason, message: message.slice(0, maxMessage) }
  }

  /** How often the event was tried before. */
  tried(item: Item): number {
    return this.parking.get(item.entry.sequence)?.tried ?? 0
  }

  /** How many of its newest attempts in a row died of a bug. */
  defects(item: Item): number {
    return this.parking.get(item.entry.sequence)?.defects ?? 0
  }

  /** The lane's own time, which stands still while it is paused. */
  get #time(): number {
    return Math.round(this.steady() - this.#pausedFor)
  }

  /** When the event was first tried, in the lane's own time; now, if this is the first time. */
  #firstAttemptAt(item: Item): number {
    const before = this.parking.get(item.entry.sequence)?.firstAttemptAt ?? 0
    return before > 0 ? before : this.#time
  }

  /** How long ago the event was first tried, in milliseconds, without the time that the lane was paused. */
  age(item: Item): number {
    return this.#time - this.#firstAttemptAt(item)
  }

  /** When the oldest parked event was first tried, in epoch milliseconds; infinite when none was. */
  get oldestAttempt(): number {
    let oldest = Number.POSITIVE_INFINITY
    for (const { firstAttemptAt } of this.parking.all()) {
      if (firstAttemptAt > 0) oldest = Math.min(oldest, firstAttemptAt + this.#pausedFor)
    }
    return oldest
  }

  /** To be tried again after `delay` milliseconds. */
  park(item: Item, failed: Attempt, delay: number): void {
    this.#put(item, { tried: this.tried(item) + 1, firstAttemptAt: this.#firstAttemptAt(item), delay, failed })
  }

  /** Behind another event of its key: it goes when that one is settled. */
  parkBehind(item: Item): void {
    this.#put(item, { tried: 0, firstAttemptAt: 0, delay: 0 })
  }

  /** Whether a crash would find the digest of these events as it is here, and not with more or fewer. */
  isWhole(sequences: ReadonlyArray<number>): boolean {
    return !this.#changes.isEnding && !sequences.some((sequence) => this.#changes.isParking(sequence))
  }

  /** Into the digest of its key, whose window is so many milliseconds from its first event. */
  collect(item: Item, window: number): void {
    this.#put(item, { tried: 0, firstAttemptAt: 0, delay: window })
  }

  /** A parked event turned out to be lost: the journal has named it and given it up. */
  lost(sequence: number): void {
    this.parking.remove(sequence, this.now())
    this.#changes.forget(sequence)
  }

  /** Gives an attempt back that the sink's outage used, and lets the event go when the sink is back. */
  pardon(sequence: number): void {
    const parked = this.parking.get(sequence)
    if (parked === undefined || parked.taken || parked.tried === 0) return
    parked.tried -= 1
    parked.dueAt = this.now()
    parked.lastFailure = ""
    this.parking.put(parked)
    const { key, due, delay, firstAttemptAt, tried } = parked
    this.#changes.refund({ sequence, key, due, delay, firstAttemptAt, tried })
  }

  bury(item: Item, failed: Attempt): void {
    const { sequence } = item.entry
    this.parking.remove(sequence, this.now())
    this.#changes.bury(sequence, failed)
    this.#ended += 1
    this.#close(item)
    this.deadLetters += 1
    this.deadLetterBytes += item.entry.event.body.length
  }

  /** A pause of so many milliseconds does not age an event. */
  rejuvenate(length: number): void {
    this.#pausedFor += Math.round(length)
    this.#changes.moved()
  }

  #put(item: Item, { tried, firstAttemptAt, delay: asked, failed }: Cause): void {
    const { sequence } = item.entry
    const { key } = item
    // A sink may ask for a fraction of a millisecond, and the journal stores whole ones.
    const delay = Math.ceil(asked)
    const dueAt = this.now() + delay
    const due = this.wall() + delay
    const lastFailure = failed?.reason ?? this.parking.get(sequence)?.lastFailure ?? ""
    const defects = failed?.reason === "Defect" ? this.defects(item) + 1 : 0
    this.parking.put({ sequence, key, dueAt, due, delay, firstAttemptAt, tried, lastFailure, defects, taken: false })
    this.#changes.park({ sequence, key, due, delay, firstAttemptAt, tried }, failed)
    this.#close(item)
  }

  /** The window lets the event go. A retry's has done so before. */
  #close(item: Item): void {
    if (!this.window.settle(item.entry.sequence)) return
    this.bytes -= item.entry.event.body.length
    this.#changes.moved()
    this.#changes.unstored += 1
  }
}
