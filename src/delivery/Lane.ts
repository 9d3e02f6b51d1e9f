/**
 * A lane: takes what was routed to one sink out of the journal, in order,
 * and sees to it that each event is settled: delivered, parked to be tried
 * again, or a dead letter.
 *
 * **Promise.** The cursor only passes an event that is settled, and what is
 * parked or dead is handed to the journal with the very settlement that moves
 * the cursor past it. A crash repeats deliveries, at most `duplicateBound` of
 * them; it never skips one.
 *
 * **How it runs.** One fiber pumps: it reads, fills batches and starts
 * attempts. Three things wake it: a commit, a finished attempt, and a tick that
 * also enforces deadlines. No timer and no race an event: those would cost more
 * than the delivery itself.
 *
 * **A bug** costs the event that meets it. One in the lane itself ends
 * {@link Lane.run}; whoever runs it builds another from the journal.
 *
 * **A digest** is a retry that many share: each event is parked under its group
 * as it comes, and when the group is due it goes to the sink in one batch.
 */
import { Cause, Clock, Duration, Effect, type Exit, Latch, Random } from "effect"
import type { LaneConfig } from "../config/Config.ts"
import { type Entry, Journal, type OpenedLane } from "../journal/Journal.ts"
import type { Failures, Sink, SinkError } from "../sinks/Sink.ts"
import { type Flight, Flights, type Fork } from "./Flights.ts"
import { Gate } from "./Gate.ts"
import { Landing, type LaneEvents } from "./Landing.ts"
import { Ledger } from "./Ledger.ts"
import { type Item, type Limits, Queue } from "./Queue.ts"
import { Standing } from "./Standing.ts"
import { Suspects } from "./Suspects.ts"

/** Events that a lane holds above its cursor at most. */
const windowSize = 1_024
/** Bytes that a lane holds in memory at most, one event more included. */
const windowBytes = 8 * 1024 * 1024
/** How often deadlines and waits are looked at. */
const tick = Duration.millis(25)
/** Settled events that the journal may not know of yet: it bounds what a crash repeats. */
const maxUnstored = 1_024
/** Parked events that are read back for another attempt at once. */
const retriesInHand = 256
const endless = Number.POSITIVE_INFINITY

export interface LaneOptions {
  readonly config: LaneConfig
  readonly sink: Sink
  readonly state: OpenedLane
  /** The order key of an event, or the group of its digest; only called where the lane keeps either. It may throw `Unrenderable`. */
  readonly key: (entry: Entry) => string
  readonly events: LaneEvents
  /** False while the wall clock can't be trusted: nothing is given up by age then. */
  readonly wallClockTrusted: () => boolean
  /** When monotonic time began, by the wall clock as it was when the relay started: a reload has not set it right or wrong. */
  readonly started: number
  /** Rejections don't block this lane: rejecting is what it is for (the quarantine). */
  readonly rejects: boolean
}

export class Lane {
  readonly config: LaneConfig
  readonly ledger: Ledger
  readonly flights: Flights
  readonly standing: Standing

  readonly #options: LaneOptions
  readonly #journal: Journal["Service"]
  readonly #gate: Gate
  readonly #queue = new Queue()
  readonly #suspects = new Suspects()
  readonly #landing: Landing
  readonly #wake = Latch.makeUnsafe(true)
  #fillingSince = 0
  #launching = false
  #moreToRead = false
  /** The journal could not be read: not again for a second. */
  #resting = false
  /** The relay stops: no batch waits to fill. */
  #hurry = false
  #draining = false
  /** A bug outside the pump, in what an attempt's end sets off: the pump dies of it. */
  #broken: { readonly defect: unknown } | undefined
  /** So many events are too many, when so many had ended. */
  #excess = { events: 0, ended: 0 }

  constructor(options: LaneOptions, journal: Journal["Service"], clock: Clock.Clock, random: () => number, fork: Fork) {
    this.config = options.config
    this.ledger = new Ledger(
      options.state,
      options.config.name,
      clock,
      options.config.digest?.maxEvents ?? 1,
      options.started,
    )
    this.#options = options
    this.#journal = journal
    this.flights = new Flights(fork, options.config.delivery.timeout)
    this.#gate = new Gate(options.config)
    this.standing = new Standing(options.config.name, options.state.paused, this.#gate, this.ledger)
    this.#landing = new Landing({
      ...options,
      ledger: this.ledger,
      flights: this.flights,
      gate: this.#gate,
      queue: this.#queue,
      standing: this.standing,
      suspects: this.#suspects,
      random,
    })
  }

  // --- what the outside reads and turns ------------------------------------

  /** Epoch milliseconds of the oldest event in hand; 0 when nothing is. */
  get oldestAt(): number {
    let oldest = this.ledger.oldestAttempt
    oldest = Math.min(oldest, this.#queue.first?.entry.event.receivedAt ?? endless)
    for (const flight of this.flights.all()) {
      for (const item of flight.items) oldest = Math.min(oldest, item.entry.event.receivedAt)
    }
    return oldest === endless ? 0 : oldest
  }

  /** The most events that a crash at any moment sends twice: those under way, and those whose end is not on disk. */
  get duplicateBound(): number {
    return maxUnstored + this.config.concurrency * this.#maxEvents
  }

  /** Events that go together at most. */
  get #maxEvents(): number {
    return this.config.digest?.maxEvents ?? this.#options.sink.batch.maxEvents
  }

  resume(): void {
    this.standing.resume()
    this.ledger.parking.hasten(this.#now())
    this.#options.events.resumed()
    this.#wake.openUnsafe()
  }

  /**
   * Events beyond the lane's backlog limit: the oldest go to the dead letters instead of the sink. The journal counted
   * them when it knew of `ended` that had: what has ended since is too many no more, though the journal has yet to hear.
   */
  giveUp(events: number, ended: number): void {
    this.#excess = { events, ended }
    if (events > 0) this.#wake.openUnsafe()
  }

  /** Takes over what the journal moved here from another lane. */
  adopt({ waiting }: OpenedLane): void {
    this.ledger.adopt(waiting)
    this.#wake.openUnsafe()
  }

  /** The ledger's last changes are on disk: a lane that waited for that goes on. */
  stored(): void {
    this.ledger.stored()
    this.#wake.openUnsafe()
  }

  // --- the pump ------------------------------------------------------------

  /** Pumps until interrupted, or drained. A bug in any part of it ends the whole. */
  get run(): Effect.Effect<void> {
    const pump = Effect.gen({ self: this }, function* () {
      while (!this.#draining) {
        this.#wake.closeUnsafe()
        if (this.#broken !== undefined) return yield* Effect.die(this.#broken.defect)
        const more = yield* this.#pump().pipe(Effect.catch(() => this.#rest))
        if (!more) yield* this.#wake.await
      }
    })
    return Effect.raceFirst(pump, Effect.raceFirst(this.#follow, this.#keepTime))
  }

  /** The journal says by itself what is wrong with it; a lane only has to come back. */
  get #rest(): Effect.Effect<true> {
    this.#resting = true
    return Effect.sleep("1 second").pipe(
      Effect.map(() => {
        this.#resting = false
        return true as const
      }),
    )
  }

  /**
   * Sends once more what a working sink can take at once, then starts nothing,
   * lets attempts under way end, and interrupts those that don't within `grace`.
   */
  drain(grace: Duration.Duration): Effect.Effect<void> {
    const last = Effect.suspend(() => {
      this.#hurry = true
      if (this.#gate.probing || this.standing.failed !== "") return Effect.void
      return Effect.catchDefect(Effect.ignore(this.#pump()), (defect) => Effect.sync(() => this.#break(defect)))
    })
    const landing = Effect.suspend(() => {
      this.#draining = true
      return this.flights.land(grace)
    })
    return last.pipe(Effect.andThen(landing), Effect.andThen(Effect.sync(() => this.standing.track())))
  }

  get #follow(): Effect.Effect<never> {
    return Effect.forever(
      Effect.suspend(() => this.#journal.awaitBeyond(this.ledger.window.position)).pipe(
        Effect.tap(() => Effect.sync(() => this.#wake.openUnsafe())),
        // A lane that lets batches fill need not hear of every commit. One that is full, or can't read,
        // leaves its position where it is: look again later, not at once.
        Effect.andThen(
          Effect.suspend(() => {
            const { linger = 0 } = this.#options.sink.batch
            if (this.#resting || !this.#hasRoom()) return Effect.sleep(tick)
            return linger > 0 ? Effect.sleep(Duration.millis(linger)) : Effect.yieldNow
          }),
        ),
      ),
    )
  }

  get #keepTime(): Effect.Effect<never> {
    return Effect.forever(
      Effect.sleep(tick).pipe(
        Effect.tap(() =>
          Effect.sync(() => {
            this.flights.interruptOverdue(this.#now())
            if (this.#queue.size + this.ledger.parking.size > 0) this.#wake.openUnsafe()
          }),
        ),
      ),
    )
  }

  #hasRoom(): boolean {
    return (
      this.ledger.window.size < windowSize &&
      this.ledger.bytes < windowBytes &&
      this.ledger.parking.hasRoom(this.config.delivery.maxParked) &&
      this.standing.blocked === ""
    )
  }

  /** Reads, takes up what is due, starts attempts. True when there may be more to do at once. */
  readonly #pump = Effect.fnUntraced(function* (this: Lane) {
    const room = this.#hasRoom() ? windowSize - this.ledger.window.size : 0
    let read = 0
    if (room > 0) {
      const entries = yield* this.#journal.read(this.ledger.window.position, room)
      read = entries.length
      for (const entry of entries) this.#intake(entry)
    }
    // What did not fit is there to be read as soon as attempts have made room.
    this.#moreToRead = read > 0 && (read === room || this.ledger.bytes >= windowBytes)
    const tooMany = this.#excess.events - (this.ledger.ended - this.#excess.ended)
    if (tooMany > 0) this.#landing.giveUp(this.#queue.takeOldest(tooMany))
    const due = !this.standing.stopped && this.#queue.retries === 0 ? yield* this.#takeDue(this.#now()) : 0
    this.#launch()
    return (read > 0 && this.#queue.fresh === 0) || (due > 0 && this.#queue.retries === 0)
  })

  /** Starts attempts for as long as there are places and batches. */
  #launch(): void {
    // An attempt may end before its start returns: the loop below goes on, it must not nest.
    if (this.#launching) return
    this.#launching = true
    const now = this.#now()
    while (!this.#draining && this.flights.size < this.config.concurrency) {
      // Progress that is not on disk is what a crash repeats: past the bound, the disk comes first.
      if (this.ledger.unstored >= maxUnstored) {
        this.#options.events.settle()
        break
      }
      const batch = this.#nextBatch(now)
      if (batch.length === 0) break
      this.#gate.started(batch.length)
      this.flights.start(this.#options.sink, batch, () => this.#now(), this.#landed)
    }
    this.#launching = false
  }

  /** Takes up what is due, as much as goes out at once; the number of events. */
  readonly #takeDue = Effect.fnUntraced(function* (this: Lane, now: number) {
    const { parking } = this.ledger
    const { digest, concurrency } = this.config
    const limit = Math.min(concurrency * this.#maxEvents, retriesInHand)
    const due = (
      digest === undefined ? parking.takeDue(now, limit) : parking.takeGroup(now, this.#suspects.isApart)
    ).map((_) => _.sequence)
    // Or a crash would send in two what had been sent as one, and together what had been two.
    if (digest !== undefined && due.length > 0 && !this.ledger.isWhole(due)) {
      for (const sequence of due) parking.giveBack(sequence, now)
      this.#options.events.settle()
      return 0
    }
    const entries = yield* this.#readParked(due).pipe(
      Effect.onError(() =>
        Effect.sync(() => {
          for (const sequence of due) parking.giveBack(sequence, now)
        }),
      ),
    )
    const read = new Set<number>()
    for (const entry of entries) {
      read.add(entry.sequence)
      const key = parking.get(entry.sequence)?.key
      if (key !== undefined) this.#queue.addRetry({ entry, key })
    }
    // Due before the settlement that parks it is on disk: the next turn finds it.
    for (const sequence of due) if (!read.has(sequence)) parking.giveBack(sequence, now + 100)
    return read.size
  })

  /** Reads parked events back, as many as a lane may hold; what is lost is given up. */
  readonly #readParked = Effect.fnUntraced(function* (this: Lane, sequences: ReadonlyArray<number>) {
    const read: Array<Entry> = []
    for (let next = 0, bytes = 0; next < sequences.length && bytes < windowBytes; ) {
      const asked = sequences.slice(next, next + retriesInHand)
      const { entries, lost } = yield* this.#journal.readParked(this.config.name, asked)
      for (const sequence of lost) this.ledger.lost(sequence)
      for (const entry of entries) bytes += entry.event.body.length
      read.push(...entries)
      // Of what was asked for some may not be stored yet; and an answer ends when it is large.
      const last = Math.max(...[...entries.map(({ sequence }) => sequence), ...lost].map((one) => asked.indexOf(one)))
      next += last < 0 ? asked.length : last + 1
    }
    return read
  })

  #intake(entry: Entry): void {
    // One that came parked from another lane, and was routed here as well, goes on as the parked one.
    if (!entry.sinks.includes(this.config.name) || this.ledger.parking.has(entry.sequence)) {
      this.ledger.window.skip(entry.sequence)
      return
    }
    if (!this.ledger.window.take(entry.sequence)) return
    const { digest, order } = this.config
    this.ledger.bytes += entry.event.body.length
    const key = digest !== undefined || (order === "key" && !entry.replayed) ? this.#landing.keyOf(entry) : ""
    if (key === undefined) return
    if (digest !== undefined) {
      this.ledger.collect({ entry, key }, Duration.toMillis(digest.wait))
      return
    }
    if (this.#queue.size === 0) this.#fillingSince = this.#now()
    this.#queue.add({ entry, key })
  }

  #nextBatch(now: number): ReadonlyArray<Item> {
    const allowed = this.#gate.allowance(now, this.flights.size)
    if (allowed < 1 || this.#queue.size === 0 || this.standing.stopped || this.#lingers(now)) return []
    this.#fillingSince = now
    return this.#queue.next(
      this.#limits(allowed),
      (key) => this.ledger.parking.holds(key),
      (item) => this.ledger.parkBehind(item),
    )
  }

  #limits(allowed: number): Limits {
    // What is in the queue is one digest, and goes as one.
    const apart = this.#suspects.isApart
    if (this.config.digest !== undefined) return { events: endless, bytes: endless, probing: false, apart }
    const { maxEvents, maxBytes } = this.#options.sink.batch
    const { probing } = this.#gate
    return { events: Math.min(allowed, maxEvents), bytes: maxBytes, probing, apart }
  }

  /** Whether the batch may wait to fill: a sink that pays by the batch says for how long. */
  #lingers(now: number): boolean {
    const { linger = 0, maxEvents } = this.#options.sink.batch
    return (
      !this.#hurry &&
      now - this.#fillingSince < linger &&
      this.#queue.size < maxEvents &&
      this.#queue.retries === 0 &&
      !this.#gate.probing &&
      this.#hasRoom()
    )
  }

  readonly #landed = (flight: Flight, exit: Exit.Exit<Failures, SinkError>): void => {
    try {
      this.#landing.landed(flight, exit, this.#draining)
      this.#launch()
    } catch (defect) {
      this.#break(defect)
    }
    if (this.#moreToRead && this.#queue.fresh < windowSize / 2) this.#wake.openUnsafe()
  }

  #break(defect: unknown): void {
    this.#broken ??= { defect }
    this.#options.events.defect(Cause.die(defect))
    this.#wake.openUnsafe()
  }

  #now(): number {
    return this.ledger.now()
  }
}

/** Opens a lane over a sink that is open. It does nothing until `Lane.run`. */
export const make = Effect.fnUntraced(function* (options: LaneOptions) {
  const journal = yield* Journal
  const clock = yield* Clock.Clock
  const random = yield* Random.Random
  const fork = Effect.runForkWith(yield* Effect.context<never>())
  return new Lane(
    options,
    journal,
    clock,
    () => random.nextDoubleUnsafe(),
    (send) => fork(send),
  )
})
