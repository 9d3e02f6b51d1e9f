/**
 * A lane's book: what it has taken from the log, what is parked, and what the
 * journal has yet to be told of either.
 *
 * **Promise.** Each event that was taken ends in exactly one way (delivered,
 * parked, dead), and the settlement that moves the cursor past it says which.
 */
import type { Clock } from "effect"
import type { Attempt, LaneState, Parked, Settlement } from "../journal/Journal.ts"
import { Changes } from "./Changes.ts"
import { Parking } from "./Parking.ts"
import type { Item } from "./Queue.ts"
import { Window } from "./Window.ts"

/** Attempts remembered an event; the first and the newest are what tells. */
const attemptsKept = 200

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

  /** Of one key, `together` events go as one. */
  constructor(state: LaneState, lane: string, clock: Clock.Clock, together: number) {
    this.parking = new Parking(together)
    this.window = new Window(state.cursor)
    this.deadLetters = state.deadLetters
    this.deadLetterBytes = state.deadLetterBytes
    this.#lane = lane
    this.#clock = clock
    this.#started = this.wall() - this.now()
    this.#changes = new Changes(state.cursor.sequence)
    this.parking.load(state.parked, this.wall(), this.now())
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
    return this.#changes.take(this.#lane, this.window.cursor())
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

  /** The attempts of an event, this failed one included. */
  attempted(item: Item, reason: string, message: string): ReadonlyArray<Attempt> {
    const before = this.parking.get(item.entry.sequence)?.attempts ?? []
    const kept = before.length < attemptsKept ? before : [...before.slice(0, 1), ...before.slice(2 - attemptsKept)]
    return [...kept, { at: this.wall(), reason, message }]
  }

  /** When the event was first tried, by `steady`; now, if this is the first time. */
  firstAttemptAt(item: Item): number {
    const before = this.parking.get(item.entry.sequence)?.firstAttemptAt ?? 0
    return before > 0 ? before : this.steady()
  }

  /** To be tried again after `delay` milliseconds. */
  park(item: Item, attempts: ReadonlyArray<Attempt>, delay: number): void {
    this.#put(item, attempts, this.firstAttemptAt(item), delay)
  }

  /** Behind another event of its key: it goes when that one is settled. */
  parkBehind(item: Item): void {
    this.#put(item, [], 0, 0)
  }

  /** Whether a crash would find the digest of these events as it is here, and not with more or fewer. */
  isWhole(sequences: ReadonlyArray<number>): boolean {
    return !this.#changes.isEnding && !sequences.some((sequence) => this.#changes.isParking(sequence))
  }

  /** Into the digest of its key, whose window is so many milliseconds from its first event. */
  collect(item: Item, window: number): void {
    this.#put(item, [], 0, window)
  }

  /** Gives an attempt back that the sink's outage used, and lets the event go when the sink is back. */
  pardon(sequence: number): void {
    const parked = this.parking.get(sequence)
    if (parked === undefined || parked.taken || parked.attempts.length === 0) return
    parked.attempts = parked.attempts.slice(0, -1)
    parked.dueAt = this.now()
    this.parking.put(parked)
    this.#store(sequence)
  }

  bury(item: Item, attempts: ReadonlyArray<Attempt>): void {
    const { sequence } = item.entry
    this.parking.remove(sequence, this.now())
    this.#changes.bury({ sequence, at: this.wall(), attempts })
    this.#ended += 1
    this.#close(item)
    this.deadLetters += 1
    this.deadLetterBytes += item.entry.event.body.length
  }

  /** A pause of so many milliseconds does not age an event. */
  rejuvenate(length: number): void {
    for (const parked of this.parking.all()) {
      if (parked.firstAttemptAt === 0) continue
      parked.firstAttemptAt += Math.round(length)
      this.#store(parked.sequence)
    }
  }

  #put(item: Item, attempts: ReadonlyArray<Attempt>, firstAttemptAt: number, delay: number): void {
    const { sequence } = item.entry
    const { key } = item
    const dueAt = this.now() + delay
    this.parking.put({
      sequence,
      key,
      dueAt,
      due: this.wall() + delay,
      delay,
      firstAttemptAt,
      attempts,
      taken: false,
    })
    this.#store(sequence)
    this.#close(item)
  }

  #store(sequence: number): void {
    const parked = this.parking.get(sequence)
    if (parked === undefined) return
    const { key, due, delay, firstAttemptAt, attempts } = parked
    this.#changes.park({ sequence, key, due, delay, firstAttemptAt, attempts })
  }

  /** The window lets the event go. A retry's has done so before. */
  #close(item: Item): void {
    if (!this.window.settle(item.entry.sequence)) return
    this.bytes -= item.entry.event.body.length
    this.#changes.moved()
    this.#changes.unstored += 1
  }
}
