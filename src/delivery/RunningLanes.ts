/**
 * The running lanes of one stream. Each has its own sink and fiber, and their
 * progress is stored together.
 *
 * **Guarantee.** When a lane is retired, all of its decisions are in the journal.
 * The next lane of its name continues from there, with another sink or other rules.
 * Once another relay owns the stream, these lanes store nothing more, and the other
 * relay decides about their events again.
 */
import { Clock, type Context, Duration, Effect, Exit, FiberMap, Schedule, Scope, type Semaphore } from "effect"
import { rounds } from "../event/Rounds.ts"
import { isNotFenced, type JournalError, type Log, type OpenedLane, type OpenOptions } from "../journal/Journal.ts"
import * as WallClock from "../journal/WallClock.ts"
import type { Announce } from "./Announcements.ts"
import { BugWaits, logBug } from "./Bugs.ts"
import { type LaneSpec, openOptions } from "./LaneSpec.ts"
import type { AttemptStats } from "./lane/InFlight.ts"
import { type Counted, type Lane, type LaneOptions, make as makeLane } from "./lane/Lane.ts"
import * as ProgressStore from "./ProgressStore.ts"
import { settleEvery } from "./ProgressStore.ts"
import type { AcquiredSink, Pool } from "./SinkPool.ts"

const countEvery = Duration.seconds(1)
const idle: Counted = { backlog: 0, deadLetterBytes: 0, paused: false }

/**
 * Checks the lanes over one stream each second, except idle ones. It reads the journal's counts, notices that an
 * operator paused or resumed a lane at another relay, makes lanes take up replayed dead letters, and finds stalled
 * lanes. `get` finds a lane by its name, and `takeUp` makes a lane take up its replayed dead letters.
 */
const countLanes = (
  log: Log,
  get: (name: string) => Lane | undefined,
  takeUp: (lane: Lane) => Effect.Effect<void, JournalError>,
) => {
  const active = new Set<string>()
  const attend = (name: string): void => {
    if (active.has(name)) return
    active.add(name)
    get(name)?.watchAgain()
  }
  const lanes = (): ReadonlyArray<Lane> => [...active].flatMap((name) => get(name) ?? [])

  const count = Effect.gen(function* () {
    // Read before the journal counts, because events may end before the journal stores that they did.
    const before = lanes().map((lane) => ({ lane, ended: lane.progress.endedOnDisk }))
    const infos = new Map((yield* log.holding).map((info) => [info.name, info]))
    for (const { lane, ended } of before) {
      const { name } = lane.config
      if (get(name) === lane) lane.counted(infos.get(name) ?? idle, ended)
      if (!infos.has(name) && lane.isIdle) active.delete(name)
      if (get(name) === lane && (infos.get(name)?.returned ?? 0) > 0) yield* takeUp(lane)
      infos.delete(name)
    }
    // An operator has paused it at another relay.
    for (const [name, info] of infos) {
      const lane = get(name)
      if (lane === undefined) continue
      attend(name)
      lane.counted(info, lane.progress.endedOnDisk)
      if (info.returned > 0) yield* takeUp(lane)
    }
  })
  // Runs even if the journal can't be read; then it uses the last counts.
  const watch = Effect.suspend(() =>
    Effect.forEach(
      lanes().filter((lane) => lane.watch()),
      ({ config: { name }, state: { stalled } }) =>
        Effect.annotateLogs(
          stalled === ""
            ? Effect.logInfo(`sink ${name}: its lane continues`)
            : Effect.logError(`sink ${name}: its lane has stalled: ${stalled}`),
          { sink: name },
        ),
      { discard: true },
    ),
  )
  const counting = rounds("counting dead letters and backlogs", Effect.ignore(count), countEvery)
  return {
    /** Called when a lane did something. The lane is checked until it is idle. */
    active: attend,
    /** The lanes that are checked. All others are idle. */
    lanes,
    /** Checks the lanes forever. */
    looking: Effect.delay(Effect.raceFirst(counting, rounds("watching the lanes", watch, countEvery)), countEvery),
  }
}

/** The retries for storing the decisions of an ended lane. */
const settleRetries = Schedule.max([Schedule.spaced(settleEvery), Schedule.recurs(20)])
/** How often the deadlines of a lane's last attempts are checked. */
const checkEvery = Duration.millis(25)

interface LaneParts extends Pick<LaneOptions, "log" | "events" | "stats" | "wallClock"> {
  readonly spec: LaneSpec
  readonly acquired: AcquiredSink
  /** Time limit for attempts in flight when the lane ends. */
  readonly grace: () => Duration.Duration
  /** Stores the progress: see `ProgressStore.ts`. */
  readonly settle: Effect.Effect<ReadonlySet<Lane>>
}

/**
 * Runs a lane over its sink. If a bug ends the lane, it is recreated from the journal, and the events that it held
 * in memory are read again.
 */
const runLane = Effect.fnUntraced(function* (options: LaneParts, opened: OpenedLane) {
  const { spec, acquired, log, events, stats, wallClock, grace, settle } = options
  const { config, key } = spec
  const { name } = config
  const place = (state: OpenedLane) =>
    makeLane({ config, key, sink: acquired.sink, within: acquired.within, log, state, events, stats, wallClock })
  let lane = yield* place(opened)

  /** Starts no more attempts and waits for those in flight, which keep their deadline. */
  const end = Effect.suspend(() => {
    const ending = lane
    const endAttempts = Effect.sync(() => ending.endAttempts())
    const keepTime = Effect.delay(rounds("ending attempts", endAttempts, checkEvery), checkEvery)
    return Effect.andThen(
      Effect.raceFirst(ending.drain(grace()), keepTime),
      Effect.sync(() => ending.state.end()),
    )
  })
  const isStored = (unstored: ReadonlySet<Lane>) => !unstored.has(lane)
  /**
   * Ends the lane and stores its decisions. If they can't be stored within the retries, the deliveries are repeated, as
   * after a crash.
   */
  const finish = Effect.andThen(end, Effect.repeat(settle, { until: isStored, schedule: settleRetries }))

  const withSink = Effect.annotateLogs({ sink: name })
  const waits = new BugWaits()
  const run = Effect.gen(function* () {
    for (;;) {
      const started = lane.clock.now()
      const exit = yield* Effect.exit(Effect.andThen(Effect.ignore(acquired.ensureOpen), lane.run))
      if (Exit.isSuccess(exit)) return
      const wait = waits.next(lane.clock.now() - started)
      const within = `it restarts within ${wait / 1_000} s`
      lane.state.fail(`an internal error ended the lane; ${within}, and the log has the cause`)
      yield* withSink(logBug(`the lane of sink ${name} ended, ${waits.inARow} in a row; ${within}`, exit.cause))
      yield* finish
      yield* Effect.sleep(wait)
      const opening = log.openLane(name, openOptions(config))
      const next = yield* place(yield* Effect.retry(opening, { schedule: Schedule.spaced("1 second") }))
      next.state.inherit(lane.state.blocked)
      lane = next
      yield* withSink(Effect.logInfo(`sink ${name}: the lane was restarted`))
    }
  })

  return {
    acquired,
    /** The lane that runs now. */
    current: (): Lane => lane,
    run,
    end,
    finish,
  }
})
type RunningLane = Effect.Success<ReturnType<typeof runLane>>

/** How long a lane may still send before it is removed, and how often it is checked whether it has caught up. */
const catchUpTimeout = Duration.seconds(2)
const pollEvery = Duration.millis(25)
/** How often a lane retries adopting another lane. */
const adoptEvery = Duration.seconds(1)

interface RunningLanesOptions {
  readonly log: Log
  readonly pool: Pool
  readonly announce: Announce
  /** Time limit for attempts in flight when a lane is retired or the relay stops. */
  readonly grace: () => Duration.Duration
  /** Returns a sink's attempt counts, which its lanes in all streams share. */
  readonly stats: (sink: string) => AttemptStats
  /** Changes of lanes run one at a time. */
  readonly oneChange: Semaphore.Semaphore
}

/** Logs the attempts that the stop waits for. */
const sayInFlight = (lanes: ReadonlyArray<Lane>, grace: Duration.Duration): Effect.Effect<void> => {
  const busy = lanes.filter(({ inFlight }) => inFlight.size > 0)
  if (busy.length === 0) return Effect.void
  const attempts = busy.map(({ config, inFlight }) => `${config.name} (${inFlight.size})`).join(", ")
  return Effect.logInfo(
    `waiting for attempts in flight: ${attempts}, for ${Duration.format(grace)} at most; attempts that have not ended by then are repeated after the next start`,
  )
}

/** Waits for a running lane to send its backlog, for two seconds at most. */
const caughtUp = Effect.fnUntraced(function* (log: Log, lane: Lane | undefined) {
  if (lane === undefined) return
  const isDone = Effect.gen(function* () {
    if (lane.state.condition !== "running") return true
    const info = (yield* log.holding).find(({ name }) => name === lane.config.name)
    return info === undefined || info.backlog <= info.retrying
  })
  const look = Effect.tap(isDone, (done) => (done ? Effect.void : Effect.sleep(pollEvery)))
  yield* Effect.timeoutOption(Effect.ignore(Effect.repeat(look, { until: (done) => done })), catchUpTimeout)
})

/** Stores the progress of active lanes, and checks them. */
const kept = Effect.fnUntraced(function* (log: Log, laneOf: (name: string) => Lane | undefined, announce: Announce) {
  const progress = yield* ProgressStore.make(log, laneOf)
  // Runs between two settlements, so that an event that the lane has just ended is either in its changes or no longer
  // in the journal.
  const takeUp = Effect.fnUntraced(function* (lane: Lane) {
    while ((yield* progress.between(lane.takeUp)) > 0) {
      progress.active(lane.config.name)
      yield* progress.settle
    }
  })
  const counts = countLanes(log, laneOf, takeUp)
  return {
    settle: progress.settle,
    busy: counts.lanes,
    /** Stores and checks forever. */
    keep: Effect.raceFirst(progress.keepSettling, counts.looking),
    /** The event handlers of a running lane. */
    eventsOf: (name: string) =>
      announce(name, {
        settle: progress.settleSoon,
        active: () => {
          progress.active(name)
          counts.active(name)
        },
      }),
  }
})

export const make = Effect.fnUntraced(function* (given: RunningLanesOptions) {
  const { log, pool, announce, grace, stats, oneChange } = given
  const context = yield* Effect.context<never>()
  const wallClock = WallClock.make(yield* Clock.Clock)
  const running = new Map<string, RunningLane>()
  const lanes = (): ReadonlyArray<Lane> => [...running.values()].map((one) => one.current())
  const laneOf = (name: string): Lane | undefined => running.get(name)?.current()
  const { settle, busy, keep, eventsOf } = yield* kept(log, laneOf, announce)

  // Finalizers run in reverse: the pumps stop, attempts in flight end, their outcomes are stored, the sinks close.
  const sinks = yield* Scope.fork(yield* Scope.Scope)
  yield* Effect.addFinalizer(() => settle)
  yield* Effect.addFinalizer(() => {
    const ends = Effect.forEach(running.values(), ({ end }) => end, { concurrency: "unbounded", discard: true })
    return Effect.andThen(sayInFlight(lanes(), grace()), ends)
  })
  const pumps = yield* FiberMap.make<string>()
  const adopting = yield* FiberMap.make<string>()
  yield* Effect.forkScoped(keep)

  const acquire = Effect.fnUntraced(function* (spec: LaneSpec): Effect.fn.Return<AcquiredSink> {
    const { name } = spec.config
    const scope = yield* Scope.fork(sinks)
    const broke = (message: string): void => {
      const lane = running.get(name)
      if (lane?.acquired === acquired) lane.current().inFlight.giveBack(message)
    }
    const sink = yield* Scope.provide(pool.acquire(spec, { name, stats: stats(name), broke }), scope)
    const acquired: AcquiredSink = { ...sink, scope }
    return acquired
  })

  const startInside = Effect.fnUntraced(function* (
    spec: LaneSpec,
    state: OpenedLane,
    acquired: AcquiredSink,
    blocked = "",
  ) {
    const { name, backlog } = spec.config
    yield* log.limitBacklog(name, backlog?.whenFull === "refuse" ? backlog.max : undefined, spec.maxBytes)
    const events = eventsOf(name)
    const options = { spec, acquired, log, events, stats: stats(name), wallClock, grace, settle }
    const lane = yield* runLane(options, state)
    lane.current().state.inherit(blocked)
    running.set(name, lane)
    events.active()
    yield* FiberMap.run(pumps, name, lane.run)
  })

  /** Runs without the caller's context, because the effect outlives the caller. */
  const apart = <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.updateContext(effect, (_: Context.Context<never>) => context)

  const reopen = (name: string, options?: OpenOptions) =>
    Effect.map(log.openLane(name, options), (opened) => running.get(name)?.current().adopt(opened))

  const adoptLater = (name: string, options: OpenOptions) => {
    const adopt = Effect.andThen(settle, reopen(name, options)).pipe(
      oneChange.withPermit,
      Effect.delay(adoptEvery),
      Effect.retry({ while: isNotFenced }),
      Effect.andThen(Effect.logInfo(`sink ${name}: nothing is left under its former name ${options.renamedFrom}`)),
      Effect.annotateLogs({ sink: name }),
      Effect.ignore,
    )
    return apart(FiberMap.run(adopting, name, adopt))
  }

  const retire = Effect.fnUntraced(function* (name: string) {
    const lane = running.get(name)
    if (lane === undefined) return
    yield* FiberMap.remove(pumps, name)
    yield* lane.finish
    // The lane is deleted after the steps above, so that a stop during them still finds it and ends it.
    running.delete(name)
    yield* Scope.close(lane.acquired.scope, Exit.void)
  })

  return {
    log,
    get: laneOf,
    names: (): ReadonlyArray<string> => [...running.keys()],
    /** The lanes that may not be idle. */
    busy,
    isOpen: pool.isOpen,
    /** Acquires a sink for a lane. It closes with the lane. */
    acquire,
    /** Starts a lane. If `blocked` isn't empty, the lane is blocked for that reason until an operator resumes it. */
    start: (...lane: Parameters<typeof startInside>) => apart(startInside(...lane)),
    /**
     * Ends a lane: it starts no more attempts, waits for those in flight and stores their outcomes. Its sink closes
     * unless another lane uses it.
     */
    retire,
    /**
     * Opens a lane again and gives it the retries that were moved to it from another lane. All of its decisions must be
     * settled first.
     */
    reopen,
    /**
     * Makes a running lane adopt the lane of its former name. Retries each second until the journal succeeds or the
     * next config change.
     */
    adoptLater,
    /** Stops all retried adoptions, because a config change decides again which lane adopts which. */
    adoptNothing: FiberMap.clear(adopting),
    /** Lets a working lane send its backlog, within `catchUpTimeout`. */
    catchUp: (name: string) => caughtUp(log, laneOf(name)),
    settle,
  }
})
export type RunningLanes = Effect.Success<ReturnType<typeof make>>
