/**
 * A lane: reads the events that were routed to one sink from the journal, in
 * order, and settles each: delivered, waiting for a retry, or a dead letter.
 *
 * **Guarantee.** The cursor only passes an event that is settled, and retries
 * and dead letters are stored by the same settlement that moves the cursor past
 * them. A crash repeats deliveries, at most `duplicateBound` of them; it never
 * skips one.
 *
 * **Gotcha.** A bug costs the event that meets it. One in the lane itself ends
 * {@link Lane.run}; whoever runs it makes another lane from the journal.
 *
 * One fiber pumps: it reads, fills batches and starts attempts. Three things
 * wake it: a commit, an attempt that ends, and a tick that also enforces
 * deadlines. A timer or a race for each event would cost more than its delivery.
 *
 * A lane that sends digests puts each event into the retry queue under its
 * group; when the group is due it goes to the sink in one batch.
 */
import { Cause, Clock, Duration, Effect, type Exit, Latch, Random } from "effect"
import type { LaneConfig } from "../../config/Config.ts"
import type { Log, OpenedLane } from "../../journal/Journal.ts"
import type { Failures, SinkError } from "../../sinks/Sink.ts"
import type { AttemptStats } from "./AttemptStats.ts"
import { Batcher } from "./Batcher.ts"
import { CircuitBreaker } from "./CircuitBreaker.ts"
import { type Batch, type Fork, InFlight } from "./InFlight.ts"
import { Intake } from "./Intake.ts"
import { LaneClock } from "./LaneClock.ts"
import type { LaneParts } from "./LaneParts.ts"
import { LaneState } from "./LaneState.ts"
import { Outcome } from "./Outcome.ts"
import { Progress } from "./Progress.ts"
import { Queue } from "./Queue.ts"
import { RejectionRate } from "./RejectionRate.ts"
import { RetryPolicy } from "./RetryPolicy.ts"
import { Stall } from "./Stall.ts"
import { Suspects } from "./Suspects.ts"

/** Events that a lane holds above its cursor at most. */
const maxOpen = 1_024
/** Events that are read at once: from the disk that takes about a millisecond, in which nobody is answered. */
const readAtOnce = 256
/** Retries that are read back at once, at least. */
const retriesAtOnce = 64
/** Bytes that a lane holds in memory at most, one event more included. */
const maxOpenBytes = 8 * 1024 * 1024
/** How often deadlines and waits are checked. */
const tick = Duration.millis(25)
/** Settled events that the journal may not know of yet: it bounds what a crash repeats. */
const maxUnstored = 1_024
/** How long a lane waits when the journal can't be read. */
const journalWait = Duration.seconds(1)
const endless = Number.POSITIVE_INFINITY

export interface LaneOptions
  extends Pick<LaneParts, "config" | "sink" | "key" | "log" | "events" | "wallClockTrusted"> {
  readonly state: OpenedLane
  readonly stats: AttemptStats
  /** Starts an attempt, so that what comes of it is the sink's. See `LazySink.ts`. */
  readonly within: <A>(run: () => A) => A
  /** When monotonic time began, by the wall clock as it was when the relay started. */
  readonly started: number
  /** Rejections don't block this lane: rejecting is what it is for (the quarantine). */
  readonly rejects: boolean
}

export class Lane {
  readonly config: LaneConfig
  readonly clock: LaneClock
  readonly progress: Progress
  readonly inFlight: InFlight
  readonly state: LaneState

  readonly #options: LaneOptions
  readonly #log: Log
  readonly #breaker: CircuitBreaker
  readonly #rejections: RejectionRate | undefined
  readonly #queue = new Queue()
  readonly #suspects = new Suspects()
  readonly #intake: Intake
  readonly #batcher: Batcher
  readonly #outcome: Outcome
  readonly #wake = Latch.makeUnsafe(true)
  #launching = false
  #moreToRead = false
  #resting = false
  readonly #stall = new Stall()
  #fruitfulAttempts = 0
  /** Its pump has begun: its sink was opened, or could not be. */
  #hasBegun = false
  /** Why the journal could not be read, and why it could not store what was delivered; empty since it could. */
  #unread = ""
  unstorable = ""
  /** The relay stops: no batch waits to fill. */
  #hurry = false
  #draining = false
  /** A bug outside the pump, in what the end of an attempt sets off: it ends the pump. */
  #broken: { readonly defect: unknown } | undefined

  constructor(options: LaneOptions, clock: Clock.Clock, random: () => number, fork: Fork) {
    const { config, events, log, state } = options
    this.#options = options
    this.#log = log
    this.config = config
    this.clock = new LaneClock(clock, state.pausedFor, options.started)
    this.progress = new Progress(state, config.name, this.clock, config.digest?.maxEvents ?? 1)
    this.inFlight = new InFlight(fork, () => this.clock.now(), config.delivery.timeout, options.stats)
    this.#breaker = new CircuitBreaker(config, random)
    this.#rejections = options.rejects ? undefined : new RejectionRate()
    this.state = new LaneState(config.name, state.paused, this.#breaker, this.clock)
    const parts = {
      ...{ config, events, log, random, sink: options.sink, key: options.key },
      ...{ clock: this.clock, progress: this.progress, state: this.state, wallClockTrusted: options.wallClockTrusted },
      ...{ queue: this.#queue, suspects: this.#suspects, breaker: this.#breaker, rejections: this.#rejections },
    }
    const policy = new RetryPolicy(parts)
    this.#intake = new Intake({ ...parts, policy })
    this.#batcher = new Batcher(parts)
    this.#outcome = new Outcome({ ...parts, policy })
  }

  // --- what the outside reads and controls ---------------------------------

  /** Epoch milliseconds of the oldest event that is not settled; 0 when there is none. */
  get oldestAt(): number {
    const queued = this.#queue.first?.entry.event.receivedAt ?? endless
    const oldest = Math.min(this.progress.oldestAttempt, queued, this.inFlight.oldestReceivedAt)
    return oldest === endless ? 0 : oldest
  }

  /** Epoch milliseconds of the next attempt, while events or the sink wait for their time; 0 when none does. */
  get nextAttemptAt(): number {
    const now = this.clock.now()
    const next = this.#breaker.until > now ? this.#breaker.until : this.progress.retries.nextDue
    return this.state.stopped || next === endless ? 0 : Math.round(this.clock.wall() + Math.max(0, next - now))
  }

  /** The last failed attempt, at epoch milliseconds. */
  get lastFailure(): { readonly at: number; readonly message: string } | undefined {
    const { lastFailure } = this.attempts
    return lastFailure && { ...lastFailure, at: Math.round(this.clock.wall() - this.clock.now() + lastFailure.at) }
  }

  get attempts(): AttemptStats {
    return this.#options.stats
  }

  /** The most events that a crash at any moment sends twice: those in flight, and those whose end is not on disk. */
  get duplicateBound(): number {
    return maxUnstored + this.#portion
  }

  /** Events that go together at most. */
  get #maxEvents(): number {
    return this.config.digest?.maxEvents ?? this.#options.sink.batch.maxEvents
  }

  resume(): void {
    this.state.resume()
    this.#rejections?.reset()
    this.progress.retries.retryNow(this.clock.now())
    this.#options.events.resumed()
    this.#wake.openUnsafe()
  }

  /** The number of events beyond the backlog limit: the oldest become dead letters. See {@link Progress.overLimit}. */
  giveUp(events: number, ended: number): void {
    this.progress.overLimit(events, ended)
    if (events > 0) this.#wake.openUnsafe()
  }

  /** Takes over what the journal moved here from another lane. */
  adopt({ retries }: OpenedLane): void {
    this.progress.adopt(retries)
    this.#wake.openUnsafe()
  }

  /** Ends attempts that have had their time, and all where another relay may send their events. */
  endAttempts(): void {
    if (!this.#log.mayStart()) {
      this.inFlight.cutOff()
      return
    }
    const stalled = this.inFlight.interruptOverdue(this.clock.now())
    if (stalled === undefined || !this.#breaker.stalled(stalled)) return
    this.state.track()
    this.#options.events.paused("DeliveryFailed", stalled)
  }

  /** Looks whether it stands still; `backlog` is what the journal counts. True when that has changed. */
  watch(backlog: number): boolean {
    const now = this.clock.now()
    const maySend = !this.state.stopped && this.state.condition !== "failed"
    const hasWork = backlog > 0 && maySend && !this.#mustWait(now, backlog)
    const activity = this.#fruitfulAttempts + this.progress.endedOnDisk
    const cause = () => this.#standsBecause()
    return this.state.stall(this.#stall.look({ now, wall: this.clock.wall(), activity, hasWork, cause }))
  }

  /** An attempt has its time yet, or none may start: for the sink, for the rate limit, or because all that waits is not due. */
  #mustWait(now: number, backlog: number): boolean {
    if (this.inFlight.isWithinTime(now) || this.#breaker.until > now || this.#batcher.isLimited(now)) return true
    const { retries } = this.progress
    const isAllRetrying = backlog <= retries.size || !this.#hasRoom()
    return this.#queue.size === 0 && isAllRetrying && retries.nextDue > now && retries.nextDue < endless
  }

  #standsBecause(): string {
    if (!this.#hasBegun) return "its sink has not opened"
    if (!this.#log.mayStart()) {
      return "this relay may not send them: its journal does not answer, or another relay may have taken the stream"
    }
    if (this.unstorable !== "") return `what was delivered can't be stored: ${this.unstorable}`
    if (this.#unread !== "") return `the journal can't be read: ${this.#unread}`
    if (this.inFlight.size > 0) return "an attempt has had its time, and does not end"
    return "relay does not know why, so it is a bug: please report it with the log; restart the relay and it goes on"
  }

  /** The changes that were taken last are on disk: the lane may have waited for that. */
  stored(): void {
    this.unstorable = ""
    this.progress.stored()
    this.state.accept()
    this.#wake.openUnsafe()
  }

  // --- what runs -----------------------------------------------------------

  /** Pumps until interrupted, or drained. A bug in any part of it ends the whole. */
  get run(): Effect.Effect<void> {
    const pump = Effect.gen({ self: this }, function* () {
      this.#hasBegun = true
      while (!this.#draining) {
        this.#wake.closeUnsafe()
        if (this.#broken !== undefined) return yield* Effect.die(this.#broken.defect)
        const more = yield* this.#pump().pipe(Effect.catch(({ message }) => this.#rest(message)))
        if (!more) yield* this.#wake.await
      }
    })
    return Effect.raceFirst(pump, Effect.raceFirst(this.#follow, this.#keepTime))
  }

  /** The journal reports by itself what is wrong with it; a lane only tries again. */
  #rest(why: string): Effect.Effect<true> {
    this.#unread = why
    this.#resting = true
    const rested = Effect.sync(() => {
      this.#resting = false
      return true as const
    })
    return Effect.andThen(Effect.sleep(journalWait), rested)
  }

  /**
   * Sends once more what a working sink can take at once, then starts nothing,
   * lets attempts in flight end, and interrupts those that don't within `grace`.
   */
  drain(grace: Duration.Duration): Effect.Effect<void> {
    const last = Effect.suspend(() => {
      this.#hurry = true
      if (this.#breaker.probing || this.state.failed !== "") return Effect.void
      return Effect.catchDefect(Effect.ignore(this.#pump()), (defect) => Effect.sync(() => this.#break(defect)))
    })
    const stop = Effect.suspend(() => {
      this.#draining = true
      return this.inFlight.stop(grace)
    })
    return last.pipe(Effect.andThen(stop), Effect.andThen(Effect.sync(() => this.state.track())))
  }

  get #follow(): Effect.Effect<never> {
    return Effect.forever(
      Effect.suspend(() => this.#log.awaitBeyond(this.progress.position)).pipe(
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
            this.endAttempts()
            if (this.#queue.size + this.progress.retries.size > 0) this.#wake.openUnsafe()
          }),
        ),
      ),
    )
  }

  // --- the pump ------------------------------------------------------------

  /** Reads, takes up retries, starts attempts. True when there may be more to do at once. */
  readonly #pump = Effect.fnUntraced(function* (this: Lane) {
    const limit = this.#hasRoom() ? Math.min(readAtOnce, maxOpen - this.progress.open.events) : 0
    const entries = limit > 0 ? yield* this.#log.read(this.progress.position, limit, this.config.name) : []
    if (limit > 0) this.#unread = ""
    const now = this.clock.now()
    for (const entry of entries) this.#intake.take(entry, now)
    // Events that did not fit can be read once attempts have made room; without room it stays known that there is more.
    if (limit > 0) {
      this.#moreToRead = entries.length > 0 && (entries.length === limit || this.progress.open.bytes >= maxOpenBytes)
    }
    yield* this.#intake.enforceBacklogLimit()
    const wantsDue = !this.state.stopped && this.#hasFewRetries
    const due = wantsDue ? yield* this.#intake.takeDue(Math.max(this.#portion, retriesAtOnce)) : 0
    this.#launch()
    if (entries.length === readAtOnce && this.#hasRoom()) {
      yield* Effect.yieldNow
      return true
    }
    return (entries.length > 0 && this.#queue.fresh === 0) || (due > 0 && this.#queue.retries === 0)
  })

  /** Events that can be under way at once. */
  get #portion(): number {
    return this.config.concurrency * this.#maxEvents
  }

  /** The journal may be far: the next retries are read while these go out. A digest goes by itself. */
  get #hasFewRetries(): boolean {
    return this.#queue.retries < (this.config.digest === undefined ? this.#portion / 2 : 1)
  }

  #hasRoom(): boolean {
    const { events, bytes } = this.progress.open
    return (
      events < maxOpen &&
      bytes < maxOpenBytes &&
      this.progress.retries.hasRoom(this.config.delivery.maxRetrying) &&
      this.state.blocked === ""
    )
  }

  /** Starts attempts for as long as there are places and batches. */
  #launch(): void {
    // An attempt may end before its start returns: the loop below continues, it must not nest.
    if (this.#launching) return
    this.#launching = true
    const now = this.clock.now()
    while (!this.#draining && !this.state.stopped && this.inFlight.size < this.config.concurrency) {
      // Before each: a process that stood still may have lost the stream a moment ago.
      if (!this.#log.mayStart()) break
      // A crash repeats progress that is not on disk: past the bound, the disk comes first. It is asked at half of it,
      // so that a backlog need not wait.
      if (this.progress.untold >= maxUnstored / 2) this.#options.events.settle()
      if (this.progress.unstored >= maxUnstored) break
      const batch = this.#batcher.next(now, this.inFlight.size, !this.#hurry && this.#hasRoom())
      if (batch.length === 0) break
      this.inFlight.start(this.#options.sink, batch, this.#ended)
    }
    this.#launching = false
  }

  /** An attempt has ended: settles its events and starts the next one. */
  readonly #ended = (batch: Batch, exit: Exit.Exit<Failures, SinkError>, now: number): void => {
    try {
      const attempt = this.inFlight.result(batch, exit, now)
      if (attempt.whole?._tag !== "Interrupted") this.#fruitfulAttempts += 1
      const back = this.#outcome.settle(attempt, now)
      this.#queue.ended(batch.items, back)
      this.state.track()
      this.#launch()
    } catch (defect) {
      this.#break(defect)
    }
    const wantsDue = this.progress.retries.nextDue <= now && this.#hasFewRetries
    if (wantsDue || (this.#moreToRead && this.#queue.fresh < maxOpen / 2)) this.#wake.openUnsafe()
  }

  #break(defect: unknown): void {
    this.#broken ??= { defect }
    this.#options.events.defect(Cause.die(defect))
    this.#wake.openUnsafe()
  }
}

/** Makes a lane over a sink. It does nothing until `Lane.run`. */
export const make = Effect.fnUntraced(function* (options: LaneOptions) {
  const clock = yield* Clock.Clock
  const random = yield* Random.Random
  const fork = Effect.runForkWith(yield* Effect.context<never>())
  return new Lane(
    options,
    clock,
    () => random.nextDoubleUnsafe(),
    (send) => options.within(() => fork(send)),
  )
})
