/**
 * A lane's progress: the events taken from the log, the events that wait for a
 * retry, and the changes that the journal has not stored. Only this class keeps
 * their counts.
 *
 * **Guarantee.** Each event that was taken ends in exactly one way (delivered,
 * waiting for a retry, dead letter), and the settlement that moves the cursor past
 * it says which.
 */
import { Redacted } from "effect"
import type { Entry } from "../../event/Event.ts"
import type { AlertChange, Attempt, Delivery, OpenedLane, Retry, Settlement } from "../../journal/Journal.ts"
import { Changes, Window } from "./Changes.ts"
import type { LaneClock } from "./LaneClock.ts"
import type { Item } from "./Queue.ts"
import { RetryQueue } from "./RetryQueue.ts"
import type { Refused } from "./Suspects.ts"

/** Characters of a failed attempt's message that are kept. */
const maxMessage = 1_000

/** The facts of a failed attempt; empty if there was no attempt. */
export interface Failed {
  readonly answer?: Redacted.Redacted<string>
  readonly number?: number
  readonly took?: number
  readonly code?: number
}

interface Waiting {
  readonly tried: number
  readonly firstAttemptAt: number
  /** In milliseconds. */
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
  /** The journal's last count plus the bytes added since. */
  deadLetterBytes: number
  /** The number of events that have ended: delivered or dead. */
  #ended = 0
  /** The value of `#ended` at the settlement that is being stored. */
  #storing = 0
  /** The value of `#ended` at the last stored settlement. */
  #stored = 0
  readonly #takenBack = new Set<number>()
  /** The excess of the backlog over its limit, and the number of ended events at that time. */
  #excess = { events: 0, ended: 0 }

  /** `together` is the maximum number of events of one key in a digest, or 1 without digests. */
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

  /** The sequence of the lane's event before the one that was taken last. */
  get previous(): number {
    return this.#window.previous
  }

  get cursor(): number {
    const { oldest, position } = this.#window
    return oldest === undefined ? position : oldest - 1
  }

  /** The number of settled events that a crash would send again. */
  get unstored(): number {
    return this.#changes.unstored
  }

  /** The number of settled events that are in no settlement yet. */
  get unsubmitted(): number {
    return this.#changes.unsubmitted
  }

  /** The number of events that have ended since the lane started, as stored in the journal. */
  get endedOnDisk(): number {
    return this.#stored
  }

  /**
   * Takes the number of events beyond the backlog limit. The journal counted them when it had stored the end of `ended`
   * events.
   */
  overLimit(events: number, ended: number): void {
    this.#excess = { events, ended }
  }

  /** The number of events that are still over the limit, without those that have ended since the count. */
  get excess(): number {
    return this.#excess.events - (this.#ended - this.#excess.ended)
  }

  /**
   * Epoch milliseconds of the earliest first attempt among events that wait for a retry, or infinity if there is none.
   */
  get oldestAttempt(): number {
    let oldest = Number.POSITIVE_INFINITY
    for (const { firstAttemptAt } of this.retries.all()) {
      if (firstAttemptAt > 0) oldest = Math.min(oldest, firstAttemptAt + this.#clock.pausedFor)
    }
    return oldest
  }

  // --- what the journal stores ---------------------------------------------

  /** Returns the changes since the last call for the journal to store, or `undefined` if there are none. */
  takeChanges(): Settlement | undefined {
    this.#storing = this.#ended
    return this.#changes.take(this.#lane, this.#window.cursor(), this.#clock.pausedFor)
  }

  /** Called when the last taken settlement is on disk. */
  stored(): void {
    this.#stored = this.#storing
    this.#changes.stored()
  }

  /** Takes back changes that could not be stored. They go into the next settlement. */
  restore(settlement: Settlement): void {
    this.#changes.restore(settlement)
  }

  /** Reports whether the event was taken back from the dead letters and the journal has stored this. */
  isTakenBack(sequence: number): boolean {
    return this.#takenBack.has(sequence) && !this.#changes.isRetrying(sequence)
  }

  /**
   * Reports whether the journal has stored this digest with exactly these events, so that a crash would not change it.
   */
  isWhole(sequences: ReadonlyArray<number>): boolean {
    return !this.#changes.isEnding && !sequences.some((sequence) => this.#changes.isRetrying(sequence))
  }

  // --- an event's way ------------------------------------------------------

  /** Takes an event from the log. Returns false if the lane must not send it, or sends it from the retry queue. */
  take({ sequence, event, sinks }: Entry): boolean {
    // An event that was routed here and also moved here while it waited for a retry stays in the retry queue. Once it
    // has ended from there, it must not wait again: the settlement would contradict itself and its key would never be
    // free.
    if (!sinks.includes(this.#lane) || this.retries.has(sequence) || this.#changes.ends(sequence)) {
      this.#window.skip(sequence, sinks.includes(this.#lane))
      return false
    }
    if (!this.#window.take(sequence)) return false
    this.#bytes += event.body.length
    return true
  }

  /** Skips the log up to `sequence`, because no event there can be read any more. */
  pass(sequence: number): void {
    this.#window.skip(sequence)
  }

  /**
   * Takes over events that waited for a retry in another lane and that the journal moved here. It leaves out events
   * that this lane has just ended: the journal may still have them, and their key would never be free again. It also
   * leaves out events that are open in this lane, because one copy would settle the other. Returns the events taken
   * over.
   */
  adopt(retrying: ReadonlyArray<Retry>): ReadonlyArray<Retry> {
    const unknown = retrying.filter(({ sequence }) => !this.retries.has(sequence) && !this.#changes.ends(sequence))
    for (const { sequence } of unknown) if (this.#window.isOpen(sequence)) this.#changes.endRetry(sequence)
    const taken = unknown.filter(({ sequence }) => !this.#window.isOpen(sequence))
    this.retries.load(taken, this.#clock.wall(), this.#clock.now())
    return taken
  }

  /** Reports whether the lane holds the event, or has ended it but the journal has not stored this. */
  has(sequence: number): boolean {
    return this.retries.has(sequence) || this.#changes.ends(sequence) || this.#window.isOpen(sequence)
  }

  /** Takes up a replayed dead letter with `earlier` attempts. It is due now, as if it had not been tried. */
  takeUp(item: Item, earlier: number): void {
    this.#wait(item, { tried: 0, firstAttemptAt: 0, delay: 0, earlier })
  }

  /** Records a delivered event. All events of one attempt share one `delivery` object. */
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

  /** Ends an event that was not sent yet, because the operator `by` had muted the sink. */
  drop(entry: Entry, by: string): void {
    this.#changes.dropped({ sequence: entry.sequence, at: this.#clock.wall(), by })
    this.#ended += 1
    this.#settle({ entry })
  }

  /** Ends an event without a message of its own, because the alert with this id counts it. */
  count(entry: Entry, alert: number): void {
    const { sequence } = entry
    this.#changes.counted({ sequence, at: this.#clock.wall(), alert })
    if (this.retries.has(sequence)) {
      this.retries.remove(sequence, this.#clock.now())
      this.#changes.endRetry(sequence)
    }
    this.#ended += 1
    this.#settle({ entry })
  }

  /** Stores the new state of an alert with the events that it counts. */
  alert(change: AlertChange): void {
    this.#changes.alert(change)
  }

  deadLetter(item: Item, failed: Attempt): void {
    const { sequence } = item.entry
    this.retries.remove(sequence, this.#clock.now())
    this.#changes.deadLetter(sequence, failed)
    this.#ended += 1
    this.#settle(item)
    this.deadLetterBytes += item.entry.event.body.length
  }

  /** Returns the fields of a refused event with which it can be taken back. */
  refused(item: Item): Refused {
    const { sequence, event } = item.entry
    const firstAttemptAt = this.#firstAttemptAt(item)
    const bytes = event.body.length
    const [tried, defects] = [this.tried(item), this.defects(item)]
    return { sequence, key: item.key, type: event.type, tried, defects, firstAttemptAt, bytes }
  }

  /** Makes a dead letter wait for a retry again, due now. */
  takeBack({ sequence, key, tried, defects, firstAttemptAt, bytes }: Refused): void {
    const [dueAt, due] = [this.#clock.now(), this.#clock.wall()]
    this.retries.put({ sequence, key, dueAt, due, delay: 0, firstAttemptAt, tried, defects, taken: false })
    this.#changes.takeBack({ sequence, key, due, delay: 0, firstAttemptAt, tried })
    this.#takenBack.add(sequence)
    this.deadLetterBytes -= bytes
  }

  /** Makes the event wait `delay` milliseconds for a retry. */
  retry(item: Item, failed: Attempt, delay: number): void {
    this.#wait(item, { tried: this.tried(item) + 1, firstAttemptAt: this.#firstAttemptAt(item), delay, failed })
  }

  /** Makes the event wait until an earlier event of its key has ended. A retry keeps its attempts and its age. */
  retryBehind(item: Item): void {
    const { sequence } = item.entry
    if (this.retries.has(sequence)) this.retries.giveBack(sequence, this.#clock.now())
    else this.#wait(item, { tried: 0, firstAttemptAt: 0, delay: 0 })
  }

  /** Adds the event to the digest of its key. The digest's window is `window` milliseconds from its first event. */
  collect(item: Item, window: number): void {
    this.#wait(item, { tried: 0, firstAttemptAt: 0, delay: window })
  }

  /** Forgets an event that waits for a retry, because the journal could not read it or an operator has taken it. */
  lost(sequence: number): void {
    this.#takenBack.delete(sequence)
    this.retries.remove(sequence, this.#clock.now())
    this.#changes.forget(sequence)
  }

  /** Refunds an attempt that failed because of the sink's outage. The event is sent once the sink recovers. */
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

  /** Returns the record of an attempt that failed just now. */
  failed(reason: string, message: string, { answer, ...sent }: Failed = {}): Attempt {
    return {
      at: this.#clock.wall(),
      reason,
      message: message.slice(0, maxMessage),
      ...(answer !== undefined && { answer: Redacted.value(answer) }),
      ...sent,
    }
  }

  /** Returns the record of an attempt that delivered events just now; `took` is in milliseconds. */
  deliveredIn(took: number, code: number | undefined): Delivery {
    return { at: this.#clock.wall(), took: Math.round(took), ...(code !== undefined && { code }) }
  }

  /** Returns the number of earlier attempts that were charged to the event. */
  tried(item: Item): number {
    return this.retries.get(item.entry.sequence)?.tried ?? 0
  }

  /** Returns the number of earlier attempts, including those before a replay. */
  made(item: Item): number {
    return this.tried(item) + (this.retries.get(item.entry.sequence)?.earlier ?? 0)
  }

  /** Returns how many of the event's latest attempts in a row ended in a bug. */
  defects(item: Item): number {
    return this.retries.get(item.entry.sequence)?.defects ?? 0
  }

  /** Returns the milliseconds since the event was first tried, without the time that the lane was paused. */
  age(item: Item): number {
    return this.#clock.laneTime() - this.#firstAttemptAt(item)
  }

  /**
   * Returns when the event was first tried, in the lane's own time. If it has not been tried, returns the current time.
   */
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

  /** Lets the cursor pass the event. An event that waited for a retry was already settled. */
  #settle({ entry }: Pick<Item, "entry">): void {
    this.#takenBack.delete(entry.sequence)
    if (!this.#window.settle(entry.sequence)) return
    this.#bytes -= entry.event.body.length
    this.#changes.settled()
  }
}
