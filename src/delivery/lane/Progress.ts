/**
 * A lane's progress: what it has taken from the log, what waits for a retry,
 * and the changes that the journal has not stored. It alone owns these counts.
 *
 * **Guarantee.** Each event that was taken ends in exactly one way (delivered,
 * waiting for a retry, dead letter), and the settlement that moves the cursor
 * past it says which.
 */
import { Redacted } from "effect"
import type { Entry } from "../../event/Entry.ts"
import type { Attempt, Delivery, OpenedLane, Retry, Settlement } from "../../journal/Journal.ts"
import { Changes } from "./Changes.ts"
import type { LaneClock } from "./LaneClock.ts"
import type { Item } from "./Queue.ts"
import { RetryQueue } from "./RetryQueue.ts"
import type { Refused } from "./TargetRefusals.ts"
import { Window } from "./Window.ts"

/** Characters of a failed attempt's message that are kept. */
const maxMessage = 1_000

/** The facts of an attempt that failed; nothing where none was made. */
export interface Failed {
  readonly answer?: Redacted.Redacted<string>
  readonly number?: number
  readonly took?: number
  readonly code?: number
}

interface Waiting {
  readonly tried: number
  readonly firstAttemptAt: number
  /** Milliseconds. */
  readonly delay: number
  readonly failed?: Attempt
  /** Attempts before a replay. */
  readonly earlier?: number
}

export class Progress {
  readonly retries: RetryQueue
  readonly #lane: string
  readonly #clock: LaneClock
  readonly #window: Window
  readonly #changes: Changes
  #bytes = 0
  /** The journal's last count, and what was added since. */
  deadLetterBytes: number
  /** Events that have ended, delivered or dead: all, those in the settlement that is being stored, and those on disk. */
  #ended = 0
  #storing = 0
  #stored = 0
  readonly #takenBack = new Set<number>()
  /** How many events of the backlog were too many, when so many had ended. */
  #excess = { events: 0, ended: 0 }

  /** Among events of one key, `together` go as one. */
  constructor(state: OpenedLane, lane: string, clock: LaneClock, together: number) {
    this.#lane = lane
    this.#clock = clock
    this.#window = new Window(state.cursor)
    this.#changes = new Changes(state.cursor.sequence, state.pausedFor)
    this.deadLetterBytes = state.deadLetterBytes
    this.retries = new RetryQueue(together)
    this.retries.load(state.retries, clock.wall(), clock.now())
  }

  // --- counts --------------------------------------------------------------

  /** Events taken from the log and not settled, and their bytes. */
  get open(): { readonly events: number; readonly bytes: number } {
    return { events: this.#window.size, bytes: this.#bytes }
  }

  /** The highest sequence that was read. */
  get position(): number {
    return this.#window.position
  }

  /** The event of the lane before the one that was taken last. */
  get previous(): number {
    return this.#window.previous
  }

  get cursor(): number {
    const { oldest, position } = this.#window
    return oldest === undefined ? position : oldest - 1
  }

  /** Settled events that a crash would send again. */
  get unstored(): number {
    return this.#changes.unstored
  }

  /** The number of settled events that are in no settlement yet. */
  get untold(): number {
    return this.#changes.untold
  }

  /** How many events have ended since the lane started, as far as the journal knows. */
  get endedOnDisk(): number {
    return this.#stored
  }

  /** The journal counted so many events beyond the backlog limit, when it knew of `ended` that had ended. */
  overLimit(events: number, ended: number): void {
    this.#excess = { events, ended }
  }

  /** How many events are still too many: less those that have ended since. */
  get excess(): number {
    return this.#excess.events - (this.#ended - this.#excess.ended)
  }

  /** Epoch milliseconds of the oldest first attempt of an event that waits for a retry; infinite when there is none. */
  get oldestAttempt(): number {
    let oldest = Number.POSITIVE_INFINITY
    for (const { firstAttemptAt } of this.retries.all()) {
      if (firstAttemptAt > 0) oldest = Math.min(oldest, firstAttemptAt + this.#clock.pausedFor)
    }
    return oldest
  }

  // --- what the journal stores ---------------------------------------------

  /** The changes since the last call, for the journal to store; `undefined` when there are none. */
  takeChanges(): Settlement | undefined {
    this.#storing = this.#ended
    return this.#changes.take(this.#lane, this.#window.cursor(), this.#clock.pausedFor)
  }

  /** The settlement that was taken last is on disk. */
  stored(): void {
    this.#stored = this.#storing
    this.#changes.stored()
  }

  /** Takes back changes that could not be stored: they go with the next ones. */
  restore(settlement: Settlement): void {
    this.#changes.restore(settlement)
  }

  /** Whether the event was a dead letter before it was taken back, and the journal has stored that. */
  isTakenBack(sequence: number): boolean {
    return this.#takenBack.has(sequence) && !this.#changes.isRetrying(sequence)
  }

  /** Whether a crash would find the digest of these events as it is here, and not with more or fewer. */
  isWhole(sequences: ReadonlyArray<number>): boolean {
    return !this.#changes.isEnding && !sequences.some((sequence) => this.#changes.isRetrying(sequence))
  }

  // --- an event's way ------------------------------------------------------

  /** Takes an event from the log; false when it is not this lane's to send, or not from here. */
  take({ sequence, event, sinks }: Entry): boolean {
    // An event that was moved here while it waited for a retry, and was routed here as well, stays in the retry queue.
    // Once it has ended from there, a settlement that also lets it wait would contradict itself: its key would never be free.
    if (!sinks.includes(this.#lane) || this.retries.has(sequence) || this.#changes.ends(sequence)) {
      this.#window.skip(sequence, sinks.includes(this.#lane))
      return false
    }
    if (!this.#window.take(sequence)) return false
    this.#bytes += event.body.length
    return true
  }

  /** Nothing up to `sequence` can be read any more. */
  pass(sequence: number): void {
    this.#window.skip(sequence)
  }

  /**
   * Takes over events that the journal moved here from another lane, where they
   * waited for a retry. Those that this lane has just ended are left out: the
   * journal may still have them, and their key would never be free again. So are
   * those that this lane has open itself: one would settle the other. Gives those that were taken over.
   */
  adopt(retrying: ReadonlyArray<Retry>): ReadonlyArray<Retry> {
    const unknown = retrying.filter(({ sequence }) => !this.retries.has(sequence) && !this.#changes.ends(sequence))
    for (const { sequence } of unknown) if (this.#window.isOpen(sequence)) this.#changes.endRetry(sequence)
    const taken = unknown.filter(({ sequence }) => !this.#window.isOpen(sequence))
    this.retries.load(taken, this.#clock.wall(), this.#clock.now())
    return taken
  }

  /** Whether the lane holds the event, or has ended it and the journal does not know. */
  has(sequence: number): boolean {
    return this.retries.has(sequence) || this.#changes.ends(sequence) || this.#window.isOpen(sequence)
  }

  /** A replayed dead letter, which had this many attempts before: it is due now, as if it had not been tried. */
  takeUp(item: Item, earlier: number): void {
    this.#wait(item, { tried: 0, firstAttemptAt: 0, delay: 0, earlier })
  }

  /** Events of one attempt have the same `delivery`. */
  delivered(item: Item, delivery: Delivery): void {
    const { sequence } = item.entry
    const tried = this.made(item)
    if (tried === 0) this.#changes.delivered(sequence, item.previous, delivery)
    else this.#changes.late(sequence, tried + 1, delivery)
    if (this.retries.has(sequence)) {
      this.retries.remove(sequence, this.#clock.now())
      this.#changes.endRetry(sequence)
    }
    this.#ended += 1
    this.#settle(item)
  }

  deadLetter(item: Item, failed: Attempt): void {
    const { sequence } = item.entry
    this.retries.remove(sequence, this.#clock.now())
    this.#changes.deadLetter(sequence, failed)
    this.#ended += 1
    this.#settle(item)
    this.deadLetterBytes += item.entry.event.body.length
  }

  /** An event as it must be to be taken back, once it was refused. */
  refused(item: Item): Refused {
    const { sequence, event } = item.entry
    const firstAttemptAt = this.#firstAttemptAt(item)
    const bytes = event.body.length
    const [tried, defects] = [this.tried(item), this.defects(item)]
    return { sequence, key: item.key, type: event.type, tried, defects, firstAttemptAt, bytes }
  }

  /** A dead letter that waits for a retry again, due now. */
  takeBack({ sequence, key, tried, defects, firstAttemptAt, bytes }: Refused): void {
    const [dueAt, due] = [this.#clock.now(), this.#clock.wall()]
    this.retries.put({ sequence, key, dueAt, due, delay: 0, firstAttemptAt, tried, defects, taken: false })
    this.#changes.takeBack({ sequence, key, due, delay: 0, firstAttemptAt, tried })
    this.#takenBack.add(sequence)
    this.deadLetterBytes -= bytes
  }

  /** To be tried again after `delay` milliseconds. */
  retry(item: Item, failed: Attempt, delay: number): void {
    this.#wait(item, { tried: this.tried(item) + 1, firstAttemptAt: this.#firstAttemptAt(item), delay, failed })
  }

  /** Waits behind an earlier event of its key, until that one has ended. A retry keeps its attempts and its age. */
  retryBehind(item: Item): void {
    const { sequence } = item.entry
    if (this.retries.has(sequence)) this.retries.giveBack(sequence, this.#clock.now())
    else this.#wait(item, { tried: 0, firstAttemptAt: 0, delay: 0 })
  }

  /** Goes with the digest of its key, whose window is so many milliseconds from its first event. */
  collect(item: Item, window: number): void {
    this.#wait(item, { tried: 0, firstAttemptAt: 0, delay: window })
  }

  /** The journal has an event that waits for a retry no more: it could not read it, or an operator has taken it. */
  lost(sequence: number): void {
    this.#takenBack.delete(sequence)
    this.retries.remove(sequence, this.#clock.now())
    this.#changes.forget(sequence)
  }

  /** Gives back an attempt that the sink's outage used; the event goes as soon as the sink is back. */
  refundAttempt(sequence: number): void {
    const retrying = this.retries.get(sequence)
    if (retrying === undefined || retrying.taken || retrying.tried === 0) return
    retrying.tried -= 1
    retrying.dueAt = this.#clock.now()
    this.retries.put(retrying)
    const { key, due, delay, firstAttemptAt, tried } = retrying
    this.#changes.refund({ sequence, key, due, delay, firstAttemptAt, tried })
  }

  // --- an event's attempts -------------------------------------------------

  /** An attempt that failed just now. */
  failed(reason: string, message: string, { answer, ...sent }: Failed = {}): Attempt {
    return {
      at: this.#clock.wall(),
      reason,
      message: message.slice(0, maxMessage),
      ...(answer !== undefined && { answer: Redacted.value(answer) }),
      ...sent,
    }
  }

  /** An attempt delivered events just now; it took so many milliseconds. */
  deliveredIn(took: number, code: number | undefined): Delivery {
    return { at: this.#clock.wall(), took: Math.round(took), ...(code !== undefined && { code }) }
  }

  /** How often the event was tried before. */
  tried(item: Item): number {
    return this.retries.get(item.entry.sequence)?.tried ?? 0
  }

  /** How many attempts of the event were made before, those before a replay included. */
  made(item: Item): number {
    return this.tried(item) + (this.retries.get(item.entry.sequence)?.earlier ?? 0)
  }

  /** How many of its newest attempts in a row ended in a bug. */
  defects(item: Item): number {
    return this.retries.get(item.entry.sequence)?.defects ?? 0
  }

  /** Milliseconds since the event was first tried, less the time that the lane was paused. */
  age(item: Item): number {
    return this.#clock.laneTime() - this.#firstAttemptAt(item)
  }

  /** When the event was first tried, in the lane's own time; now, if this is the first time. */
  #firstAttemptAt(item: Item): number {
    const before = this.retries.get(item.entry.sequence)?.firstAttemptAt ?? 0
    return before > 0 ? before : this.#clock.laneTime()
  }

  #wait(item: Item, { tried, firstAttemptAt, delay: asked, failed, ...waiting }: Waiting): void {
    const { sequence } = item.entry
    const { key } = item
    const earlier = waiting.earlier ?? this.retries.get(sequence)?.earlier ?? 0
    // A sink may ask for a fraction of a millisecond, and the journal stores whole ones.
    const delay = Math.ceil(asked)
    const dueAt = this.#clock.now() + delay
    const due = this.#clock.wall() + delay
    const defects = failed?.reason === "Defect" ? this.defects(item) + 1 : 0
    this.retries.put({ sequence, key, dueAt, due, delay, firstAttemptAt, tried, earlier, defects, taken: false })
    this.#changes.retry({ sequence, key, due, delay, firstAttemptAt, tried }, failed)
    this.#settle(item)
  }

  /** The cursor may pass the event. One that waited for a retry was settled before. */
  #settle({ entry }: Item): void {
    this.#takenBack.delete(entry.sequence)
    if (!this.#window.settle(entry.sequence)) return
    this.#bytes -= entry.event.body.length
    this.#changes.settled()
  }
}
