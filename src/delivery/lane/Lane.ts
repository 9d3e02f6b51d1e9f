/**
 * A lane reads the events of one sink from the journal, in order, and settles each
 * of them: it is delivered, waits for a retry, or becomes a dead letter.
 *
 * **Guarantee.** The cursor only passes an event that is settled, and retries and
 * dead letters are stored by the same settlement that moves the cursor past them. A
 * crash repeats deliveries, at most `duplicateBound` of them; it never skips one.
 *
 * **Gotcha.** A bug in an attempt affects only its event. A bug in the lane itself
 * ends {@link Lane.run}, and `RunningLanes.ts` creates another lane from the journal.
 *
 * One fiber, the pump, reads, fills batches and starts attempts. Three things wake
 * it: a commit, the end of an attempt, and a tick that also enforces deadlines. A
 * timer or a race for each event would cost more than its delivery. A lane that only
 * waits has no tick: see {@link TimeKeeper}.
 *
 * A lane that sends digests puts each event into the retry queue under its group. A
 * due group goes to the sink in one batch. A lane with a policy of alerts puts the
 * events that are messages there (`Alerts.ts`). The end of a mute may do the same with the
 * events of any lane: see `Queue.ts`.
 */
import { Cause, Clock, Duration, Effect, type Exit, Latch, Random } from "effect"
import { changesOf, digestOf, type LaneConfig } from "../../config/Config.ts"
import { type Entry, quarantine } from "../../event/Event.ts"
import { eventLoop } from "../../event/EventLoop.ts"
import type { EpochMillis } from "../../event/Quantities.ts"
import { repeating } from "../../event/Rounds.ts"
import type { JournalError, LaneInfo, Log, Mute, OpenedLane } from "../../journal/Journal.ts"
import type { WallClock } from "../../journal/WallClock.ts"
import type { Failures, Sink, SinkError } from "../../sinks/Sink.ts"
import { ownEvent } from "../RelayEvents.ts"
import { type AlertState, Alerts, type Request } from "./Alerts.ts"
import { Batcher } from "./Batcher.ts"
import { CircuitBreaker } from "./CircuitBreaker.ts"
import { type AttemptStats, type Batch, type Fork, InFlight } from "./InFlight.ts"
import { Intake, readAtOnce } from "./Intake.ts"
import { LaneClock } from "./LaneClock.ts"
import { type LaneEvents, LaneState, Stall } from "./LaneState.ts"
import { Outcome, RetryPolicy } from "./Outcome.ts"
import { Progress } from "./Progress.ts"
import { Queue } from "./Queue.ts"
import { Suspects, TargetRefusals } from "./Suspects.ts"

/** Minimum milliseconds between two looks at the alerts that are due. */
const attendEvery = 1_000
/**
 * Maximum milliseconds between two looks while there are alerts. The wall clock may be set, and a machine may sleep, so
 * an alert may be due earlier than expected.
 */
const longestAttendance = 60_000
/** Milliseconds between two checks of deadlines. */
const tick = 25
/** Maximum milliseconds between two checks, which limits how late an unexpected deadline is noticed. */
const longestRest = 1_000

/**
 * Decides when a lane checks its deadlines: 40 times a second while an attempt is in flight, at the next deadline
 * if all its events wait, and never while it has no events.
 *
 * Otherwise, a lane with one event that waits an hour for its retry would wake up 144,000 times.
 */
class TimeKeeper {
  /** Returns the milliseconds until the next deadline, unless the pump runs earlier. */
  readonly #rest: () => number
  /** Checks deadlines. Returns false if there is nothing left to watch. */
  readonly #look: () => boolean
  readonly #watching = Latch.makeUnsafe(false)
  /** Open once the pump has run, because the lane's next deadline may have changed. */
  readonly #pumped = Latch.makeUnsafe(false)

  constructor(rest: () => number, look: () => boolean) {
    this.#rest = rest
    this.#look = look
  }

  /** Called after the pump has run. `watch` says whether there may be deadlines. */
  pumped(watch: boolean): void {
    if (watch) this.#watching.openUnsafe()
    this.#pumped.openUnsafe()
  }

  get run(): Effect.Effect<never> {
    const rested = Effect.suspend(() => {
      this.#pumped.closeUnsafe()
      const rest = Math.min(Math.max(tick, Math.ceil(this.#rest())), longestRest)
      const slept = Effect.as(Effect.sleep(rest), true)
      return rest === tick ? slept : Effect.raceFirst(slept, Effect.as(this.#pumped.await, false))
    })
    const next = Effect.gen({ self: this }, function* () {
      yield* this.#watching.await
      if ((yield* rested) && !this.#look()) this.#watching.closeUnsafe()
    })
    return Effect.forever(next)
  }
}

/** Maximum settled events that the journal has not stored. It limits how many a crash repeats. */
const maxUnstored = 1_024
/** The interval at which a muted lane checks whether it may read again. The end of the mute wakes it, too. */
const mutedWait = Duration.seconds(1)
/** The wait before a lane reads the journal again after an error. */
const journalWait = Duration.seconds(1)
const endless = Number.POSITIVE_INFINITY

export interface LaneOptions {
  readonly config: LaneConfig
  readonly sink: Sink
  /** Starts an attempt so that errors that follow from it are attributed to the sink. See `SinkPool.ts`. */
  readonly within: <A>(run: () => A) => A
  /** The order key; see `LaneSpec`. */
  readonly key: (entry: Entry) => string
  readonly log: Log
  readonly state: OpenedLane
  readonly events: LaneEvents
  readonly stats: AttemptStats
  readonly wallClock: WallClock
}

/** The journal's counts of a lane. */
export type Counted = Pick<LaneInfo, "backlog" | "deadLetterBytes" | "paused" | "mute">

/** Constructs the classes of a lane and connects them. */
const connect = (options: LaneOptions, clock: Clock.Clock, random: () => number, fork: Fork) => {
  const { config, stats, wallClock, state: opened } = options
  const time = new LaneClock(clock, opened.pausedFor, wallClock.start)
  const breaker = new CircuitBreaker(config, random)
  const [digest, changes] = [digestOf(config), changesOf(config)]
  const progress = new Progress(opened, config.name, time, digest?.maxEvents ?? 1)
  const parts = {
    ...options,
    random,
    clock: time,
    breaker,
    progress,
    state: new LaneState(config.name, opened, breaker, time),
    queue: new Queue(progress.retries.isOneMessage),
    suspects: new Suspects(),
    refusals: config.name === quarantine ? undefined : new TargetRefusals(),
    alerts: changes && new Alerts(changes, opened.alerts ?? []),
  }
  // The policy has no states any more, so the alerts end.
  if (changes === undefined) {
    for (const { key } of opened.alerts ?? []) parts.progress.alert({ key, state: undefined })
  }
  parts.suspects.recall(opened.retries)
  const policy = new RetryPolicy(parts)
  const batcher = new Batcher(parts)
  return {
    ...parts,
    batcher,
    intake: new Intake(parts, batcher, policy),
    outcome: new Outcome(parts, policy),
    inFlight: new InFlight(fork, time, config.delivery.timeout, stats),
  }
}
type ConnectedParts = ReturnType<typeof connect>

export class Lane {
  readonly config: LaneConfig
  readonly attempts: AttemptStats
  readonly clock: LaneClock
  readonly progress: Progress
  readonly inFlight: InFlight
  readonly state: LaneState

  readonly #parts: ConnectedParts
  readonly #wake = Latch.makeUnsafe(true)
  /** Open once the pump has finished the work it was last woken for. */
  readonly #pumped = Latch.makeUnsafe(false)
  readonly #time = new TimeKeeper(
    () => this.#rest,
    () => this.#look(),
  )
  #launching = false
  #stall = new Stall()
  #fruitfulAttempts = 0
  /** Unsettled events, by the journal's last count. */
  #backlog = 0
  /** The pump has started. It starts once the sink was opened, or could not be. */
  #hasBegun = false
  /** Why the journal could not store the lane's progress; empty if the last settlement succeeded. */
  unstorable = ""
  /** Set when the lane drains: no batch waits to fill. */
  #hurry = false
  #draining = false
  /** Opened when an alert is due before `#attendsAt`. */
  readonly #attend = Latch.makeUnsafe(false)
  /** Epoch milliseconds of the earliest alert that the lane waits for, or infinity if it waits for none. */
  #attendsAt = endless
  /** A bug outside the pump, while an attempt's end was handled. It ends the pump. */
  #broken: { readonly defect: unknown } | undefined

  constructor(parts: ConnectedParts) {
    this.#parts = parts
    this.config = parts.config
    this.attempts = parts.stats
    this.clock = parts.clock
    this.progress = parts.progress
    this.inFlight = parts.inFlight
    this.state = parts.state
  }

  // --- what the outside reads and controls ---------------------------------

  /** Epoch milliseconds of the oldest unsettled event, or 0 if there is none. */
  get oldestAt(): number {
    const queued = this.#parts.queue.first?.entry.event.receivedAt ?? endless
    const oldest = Math.min(this.progress.oldestAttempt, queued, this.inFlight.oldestReceivedAt)
    return oldest === endless ? 0 : oldest
  }

  /** Epoch milliseconds of the next attempt, if the lane waits for a retry or for the sink; otherwise 0. */
  get nextAttemptAt(): number {
    const now = this.clock.now()
    const next = this.#nextTime(now)
    return this.state.stopped || next === endless ? 0 : Math.round(this.clock.wall() + Math.max(0, next - now))
  }

  /** Monotonic milliseconds when the sink is tried again or the first retry is due, or infinity if neither waits. */
  #nextTime(now: number): number {
    return this.#parts.breaker.until > now ? this.#parts.breaker.until : this.progress.retries.nextDue
  }

  /** The last failed attempt; `at` is in epoch milliseconds. */
  get lastFailure(): { readonly at: number; readonly message: string } | undefined {
    const { lastFailure } = this.attempts
    return lastFailure && { ...lastFailure, at: Math.round(this.clock.wall() - this.clock.now() + lastFailure.at) }
  }

  /** Maximum events that a crash can send twice: those in flight, and those whose end is not on disk. */
  get duplicateBound(): number {
    return maxUnstored + this.#parts.batcher.portion
  }

  /** Ends the pause. If it ended by itself, `mute` is the rule for the events received during it. */
  resume(mute?: Mute): void {
    this.state.resume(mute)
    this.#parts.refusals?.reset()
    this.progress.retries.retryNow(this.clock.now())
    this.#parts.events.resumed()
    this.#wake.openUnsafe()
  }

  /**
   * Takes the journal's counts, made when it had stored the end of `ended` events. Events beyond the backlog limit
   * become dead letters.
   */
  counted(info: Counted, ended: number): void {
    this.#backlog = info.backlog
    this.progress.deadLetterBytes = info.deadLetterBytes
    // An operator may have paused or resumed the sink at another relay.
    if (info.paused !== false) this.state.pause(info.paused, info.mute)
    else if (this.state.paused !== false) this.resume(info.mute)
    const { backlog } = this.config
    if (backlog?.whenFull !== "deadLetter") return
    this.progress.overLimit(Math.max(0, info.backlog - backlog.max), ended)
    if (info.backlog > backlog.max) this.#wake.openUnsafe()
  }

  /** Takes over the events that the journal moved here from another lane. */
  adopt({ retries }: OpenedLane): void {
    this.#parts.suspects.recall(this.progress.adopt(retries))
    this.#wake.openUnsafe()
  }

  /** Reports whether the lane has nothing to do and runs normally. */
  get isIdle(): boolean {
    return this.inFlight.size + this.#waiting + this.#backlog === 0 && this.state.condition === "running"
  }

  /** Takes up replayed dead letters while there is space. Returns their number. */
  get takeUp(): Effect.Effect<number, JournalError> {
    return Effect.tap(this.#parts.intake.takeUp(), (taken) => Effect.sync(() => taken > 0 && this.#wake.openUnsafe()))
  }

  /** Ends overdue attempts, or all attempts if another relay may send their events. */
  endAttempts(): void {
    if (!this.#parts.log.mayStart()) {
      this.inFlight.cutOff()
      return
    }
    const stalled = this.inFlight.interruptOverdue(this.clock.now())
    if (stalled === undefined || !this.#parts.breaker.stalled(stalled)) return
    this.state.track()
    this.#parts.events.paused("DeliveryFailed", stalled)
  }

  /** Starts watching the lane again after it was idle. */
  watchAgain(): void {
    this.#stall = new Stall()
  }

  /** Checks whether the lane has stalled. Returns true if that has changed. */
  watch(): boolean {
    const now = this.clock.now()
    const maySend = !this.state.stopped && this.state.condition !== "failed"
    const hasWork = this.#backlog > 0 && maySend && !this.#mustWait(now)
    const activity = this.#fruitfulAttempts + this.progress.endedOnDisk
    const cause = () => this.#stallCause()
    return this.state.stall(this.#stall.look({ now, wall: this.clock.wall(), activity, hasWork, cause }))
  }

  /**
   * Reports whether the lane waits for a reason: an attempt is within its time, the sink or the rate limit allows none,
   * a batch fills, or no retry is due.
   */
  #mustWait(now: number): boolean {
    if (this.inFlight.mayTakeTime(now) || this.#parts.breaker.until > now || this.#parts.batcher.isLimited(now))
      return true
    if (this.#parts.queue.size > 0 && this.#parts.batcher.fillsUntil(now) > now) return true
    const { retries } = this.progress
    const isAllRetrying = this.#backlog <= retries.size || !this.#parts.intake.hasRoom
    return this.#parts.queue.size === 0 && isAllRetrying && retries.nextDue > now && retries.nextDue < endless
  }

  #stallCause(): string {
    if (!this.#hasBegun) return "its sink has not opened"
    if (!this.#parts.log.mayStart()) {
      return "this relay may not send them: its journal does not answer, or another relay may have taken the stream"
    }
    if (this.unstorable !== "") return `deliveries can't be stored: ${this.unstorable}`
    if (this.#parts.intake.unread !== "") return `the journal can't be read: ${this.#parts.intake.unread}`
    if (this.inFlight.size > 0) return this.inFlight.stallCause(this.clock.now())
    return "internal error with an unknown cause: restart the relay to continue, and report it with the log"
  }

  /** Called when the last taken changes are on disk. The lane may have waited for this. */
  stored(): void {
    this.unstorable = ""
    this.progress.stored()
    this.state.accept()
    this.#wake.openUnsafe()
  }

  // --- what runs -----------------------------------------------------------

  /** Pumps until interrupted or drained. A bug in any part ends the whole. */
  get run(): Effect.Effect<void> {
    const pump = Effect.gen({ self: this }, function* () {
      this.#hasBegun = true
      while (!this.#draining) {
        this.#wake.closeUnsafe()
        if (this.#broken !== undefined) return yield* Effect.die(this.#broken.defect)
        const more = yield* this.#pump().pipe(Effect.catch(({ message }) => this.#unreadable(message)))
        this.#parts.events.active()
        this.#time.pumped(this.inFlight.size + this.#waiting > 0)
        if ((this.#parts.alerts?.nextDue ?? endless) < this.#attendsAt) this.#attend.openUnsafe()
        if (!more) {
          this.#pumped.openUnsafe()
          yield* this.#wake.await
        }
      }
    })
    return Effect.raceAllFirst([pump, this.#follow, this.#time.run, this.#attendAlerts])
  }

  /** Appends an operator's request about an alert; `until` ends a mute. Returns false if the lane has no such alert. */
  readonly ask = Effect.fnUntraced(function* (this: Lane, id: number, request: Request, until?: EpochMillis) {
    const state = this.#parts.alerts?.get(id)
    if (state === undefined) return false
    yield* this.#appendOwn(state, request, until)
    return true
  })

  readonly #appendOwn = Effect.fnUntraced(function* (
    this: Lane,
    state: AlertState,
    what: Parameters<typeof ownEvent>[2],
    until?: EpochMillis,
  ) {
    const { clock, events, config } = this.#parts
    yield* events.append(ownEvent(config.name, state, what, clock.wall(), until ?? state.muted?.until))
  })

  /** Appends the reminders of alerts and their ends by time, once they are due. */
  get #attendAlerts(): Effect.Effect<never> {
    const { alerts, log, clock, wallClock, events, config } = this.#parts
    if (alerts === undefined) return Effect.never
    // A wrong clock would remind of all alerts, and a paused sink would get all reminders of the pause.
    const mayAttend = () => !this.state.stopped && wallClock.trusted() && log.mayStart()
    const attend = Effect.gen({ self: this }, function* () {
      yield* this.#untilDue(alerts, mayAttend)
      if (alerts.nextDue > clock.wall() || !mayAttend()) return
      for (const { key, state, what } of alerts.due(clock.wall())) {
        // Of a sink that is down, only one reminder waits.
        if (alerts.isWaiting(key, what, clock.wall(), this.progress.retries.hasKey)) continue
        if (what === "forgotten") {
          this.progress.alert(alerts.forget(key))
          events.active()
        } else {
          yield* this.#appendOwn(state, what)
        }
      }
    })
    return repeating(`looking after the alerts of the sink ${config.name}`, attend)
  }

  /** Waits until an alert may be due, or the next deadline has changed. Without alerts it waits for the first. */
  #untilDue(alerts: Alerts, mayAttend: () => boolean): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.#attend.closeUnsafe()
      const next = alerts.nextDue
      this.#attendsAt = mayAttend() ? next : endless
      if (next === endless) return Effect.asVoid(this.#attend.await)
      const rest = mayAttend() ? next - this.clock.wall() : longestAttendance
      const slept = Effect.sleep(Math.min(Math.max(rest, attendEvery), longestAttendance))
      return Effect.asVoid(Effect.raceFirst(slept, this.#attend.await))
    })
  }

  /** The journal itself reports its errors, so a lane only retries. */
  readonly #unreadable = Effect.fnUntraced(function* (this: Lane, why: string) {
    this.#parts.intake.unread = why
    yield* Effect.sleep(journalWait)
    return true
  })

  /**
   * If the sink works, starts attempts once more. Then it starts no others, and waits for those in flight. After
   * `grace`, it interrupts the rest.
   */
  readonly drain = Effect.fnUntraced(function* (this: Lane, grace: Duration.Duration) {
    this.#hurry = true
    if (!this.#parts.breaker.probing && this.state.failed === "") {
      yield* Effect.catchDefect(Effect.ignore(this.#pump()), (defect) => Effect.sync(() => this.#break(defect)))
    }
    this.#draining = true
    yield* this.inFlight.stop(grace)
    this.state.track()
  })

  get #follow(): Effect.Effect<never> {
    const next = Effect.gen({ self: this }, function* () {
      const { position } = this.progress
      this.#parts.intake.through = yield* this.#parts.log.awaitBeyond(position, this.config.name)
      this.#pumped.closeUnsafe()
      this.#wake.openUnsafe()
      // Waits until these are read, because reading the journal may take long.
      yield* this.#pumped.await
      // A lane that is full or can't read keeps its position, so it checks again later, not immediately. A lane that
      // lets batches fill need not wake for every commit. A muted lane reads nothing for hours.
      const { linger = 0 } = this.#parts.sink.batch
      if (this.progress.position === position) yield* Effect.sleep(this.state.isMuted ? mutedWait : tick)
      else if (linger > 0) yield* Effect.sleep(Math.min(linger, longestRest))
    })
    return Effect.forever(next)
  }

  /** The number of events in memory that are not in flight. */
  get #waiting(): number {
    return this.#parts.queue.size + this.progress.retries.size
  }

  /** Milliseconds until the next deadline. An event that arrives earlier wakes the lane. */
  get #rest(): number {
    if (this.inFlight.size > 0) return 0
    if (this.state.stopped) return endless
    const now = this.clock.now()
    const next = this.#nextTime(now)
    if (this.#parts.queue.size === 0 || this.#parts.breaker.until > now) return next - now
    return Math.min(next, this.#parts.batcher.fillsUntil(now)) - now
  }

  /** Checks deadlines. Returns false if there is nothing left to watch. */
  #look(): boolean {
    this.endAttempts()
    if (this.#waiting > 0) this.#wake.openUnsafe()
    return this.inFlight.size + this.#waiting > 0
  }

  // --- the pump ------------------------------------------------------------

  /** Fills the queue and starts attempts. Returns true if it should run again immediately. */
  readonly #pump = Effect.fnUntraced(function* (this: Lane) {
    if (this.#parts.intake.isBehind) yield* eventLoop.turn
    const filled = yield* this.#parts.intake.fill()
    this.#launch()
    if (filled.fresh === readAtOnce && this.#parts.intake.hasRoom) return true
    return (filled.fresh > 0 && this.#parts.queue.fresh === 0) || (filled.due > 0 && this.#parts.queue.retries === 0)
  })

  /** Starts attempts. While the lane catches up, deliveries go first. */
  #launch(): void {
    if (this.#parts.intake.isBehind) eventLoop.run(this.#launchOrBreak)
    else this.#launchNow()
  }

  readonly #launchOrBreak = (): void => {
    try {
      this.#launchNow()
    } catch (defect) {
      this.#break(defect)
    }
  }

  /** Starts attempts while the concurrency allows it and there are batches. */
  #launchNow(): void {
    // An attempt may end before its start returns. The loop below then continues, so this call must not start a second
    // one.
    if (this.#launching) return
    this.#launching = true
    const now = this.clock.now()
    while (!this.#draining && !this.state.stopped && this.inFlight.size < this.config.concurrency) {
      // Checked before each attempt, because a process that was suspended may just have lost the stream.
      if (!this.#parts.log.mayStart()) break
      // A crash repeats progress that is not on disk, so at the limit no attempt starts until it is stored. Storing
      // starts at half the limit, so that a backlog need not wait.
      if (this.progress.unsubmitted >= maxUnstored / 2) this.#parts.events.settle()
      if (this.progress.unstored >= maxUnstored) break
      const batch = this.#parts.batcher.next(now, this.inFlight.size, !this.#hurry && this.#parts.intake.hasRoom)
      if (batch.length === 0) break
      this.inFlight.start(this.#parts.sink, batch, this.#ended)
    }
    this.#launching = false
  }

  /** Called when an attempt has ended: settles its events and starts the next attempt. */
  readonly #ended = (batch: Batch, exit: Exit.Exit<Failures, SinkError>, now: number): void => {
    try {
      const attempt = this.inFlight.result(batch, exit, now)
      if (attempt.whole?._tag !== "Interrupted") this.#fruitfulAttempts += 1
      const back = this.#parts.outcome.settle(attempt, now)
      this.#parts.queue.ended(batch.items, back)
      this.state.track()
      this.#launch()
    } catch (defect) {
      this.#break(defect)
    }
    this.#parts.events.active()
    if (this.#parts.intake.wantsToFill(now)) this.#wake.openUnsafe()
  }

  #break(defect: unknown): void {
    this.#broken ??= { defect }
    this.#parts.events.defect(Cause.die(defect))
    this.#wake.openUnsafe()
  }
}

/** Makes a lane. It does nothing until `Lane.run`. */
export const make = Effect.fnUntraced(function* (options: LaneOptions) {
  const clock = yield* Clock.Clock
  const random = yield* Random.Random
  const fork = Effect.runForkWith(yield* Effect.context<never>())
  return new Lane(
    connect(
      options,
      clock,
      () => random.nextDoubleUnsafe(),
      (send) => options.within(() => fork(send)),
    ),
  )
})
