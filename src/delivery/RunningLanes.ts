/**
 * The lanes that run over one stream: each over its sink, pumped by a fiber of
 * its own, its progress stored together with that of the others.
 *
 * **Guarantee.** A lane that is retired has told the journal all that it decided.
 * The next one of its name, over another sink or by other rules, continues where
 * it ended. When another relay has taken the stream nothing more is told: what
 * these lanes decided since is that relay's to decide.
 */
import {
  Cause,
  Clock,
  type Context,
  Duration,
  Effect,
  Exit,
  FiberMap,
  Latch,
  RcMap,
  Schedule,
  Scope,
  Semaphore,
} from "effect"
import type { LaneConfig } from "../config/Config.ts"
import type { Entry } from "../event/Entry.ts"
import type { JournalError, LaneInfo, Log, OpenedLane, OpenOptions, RefusedSettlement } from "../journal/Journal.ts"
import * as WallClock from "../journal/WallClock.ts"
import type { Sink, SinkError } from "../sinks/Sink.ts"
import { Tracing } from "../telemetry/Tracing.ts"
import type { Announce } from "./Announcements.ts"
import type { LazySink } from "./LazySink.ts"
import type { AttemptStats } from "./lane/AttemptStats.ts"
import * as Lane from "./lane/Lane.ts"
import * as SinkPool from "./SinkPool.ts"

/** A sink as the lanes need it: its config, how to open it, and its order key. */
export interface LaneSpec {
  readonly config: LaneConfig
  readonly open: Effect.Effect<Sink, SinkError, Scope.Scope>
  readonly key: (entry: Entry) => string
  /** Appends are refused when what the lane keeps takes so many bytes; unlimited when absent. */
  readonly maxBytes?: number
}

/** A sink that stays open for a lane until its scope closes. */
export interface AcquiredSink {
  readonly sink: Sink
  readonly ensureOpen: Effect.Effect<Sink, SinkError>
  readonly within: LazySink["within"]
  readonly scope: Scope.Closeable
}

interface Running {
  readonly lane: Lane.Lane
  readonly acquired: AcquiredSink
}

/** How often lanes' progress is made durable: it bounds what a crash repeats. */
const settleEvery = Duration.millis(100)
/** How often dead letters and backlogs are counted. */
const countEvery = Duration.seconds(1)
/** How often storing what a retired lane decided is retried. */
const settleRetries = Schedule.max([Schedule.spaced(settleEvery), Schedule.recurs(20)])
/** How long a lane that is to be removed may still send, and how often it is asked whether it has caught up. */
const catchUpTimeout = Duration.seconds(2)
const pollEvery = Duration.millis(25)

/** How long a lane that a bug has ended waits to be restarted: doubled each time, and from the first again after so long without one. */
const restart = { firstMillis: 1_000, maxMillis: 60_000, resetMillis: 600_000 } as const

const logBug = (what: string, cause: Cause.Cause<unknown>) => Effect.logError(`a bug in relay: ${what}`, cause)

/** Repeats a task; a bug is logged, and ends that round alone. */
const repeating = (failure: string, task: Effect.Effect<void>): Effect.Effect<never> =>
  Effect.forever(
    Effect.catchDefect(task, (defect) =>
      Effect.andThen(logBug(`${failure}; it is tried again`, Cause.die(defect)), Effect.sleep(countEvery)),
    ),
  )

/** Only one relay may send its events: it must see all of a key, a group, or a time. */
export const isExclusive = ({ order, digest, rateLimit }: LaneConfig): boolean =>
  order === "key" || digest !== undefined || rateLimit !== undefined

/** How the lane of a config is opened. */
export const openOptions = (config: LaneConfig, specs?: ReadonlyArray<LaneSpec>): OpenOptions => ({
  exclusive: isExclusive(config),
  ...(specs !== undefined && { isConfigured: (name) => specs.some(({ config }) => config.name === name) }),
})

const isFenced = (cause: Cause.Cause<JournalError>): boolean => {
  const error = Cause.findErrorOption(cause)
  return error._tag === "Some" && error.value.reason._tag === "JournalFenced"
}

export interface RunningLanesOptions {
  readonly log: Log
  readonly pool: SinkPool.Pool
  readonly announce: Announce
  /** How long attempts in flight may take when a lane is retired, or the relay stops. */
  readonly grace: Duration.Duration
  /** How a sink's attempts are counted, in all streams together. */
  readonly stats: (sink: string) => AttemptStats
}

export const make = Effect.fnUntraced(function* ({ log, pool, announce, grace, stats }: RunningLanesOptions) {
  const context = yield* Effect.context<never>()
  const tracing = yield* Tracing
  const wallClock = WallClock.make(yield* Clock.Clock)
  const running = new Map<string, Running>()
  const settleNow = Latch.makeUnsafe(false)
  const oneSettlement = yield* Semaphore.make(1)

  /** A settlement that the journal refused stays with its lane: a crash sends it again, and the lane stops at its bound. */
  const refuse = (lane: Lane.Lane, { error }: RefusedSettlement) =>
    lane.state.refuse(
      `the journal refuses the progress of this lane, and takes that of others: ${error.message} If it lasts, restart the relay: what is not stored is sent again`,
    )
      ? Effect.logError(`sink ${lane.config.name}: ${lane.state.refused}`).pipe(
          Effect.annotateLogs({ sink: lane.config.name }),
        )
      : Effect.void

  /** The lanes of which not all is on disk. */
  const settleAll = Effect.suspend(() => {
    const taken = [...running.values()].flatMap(({ lane }) => {
      const changes = lane.progress.takeChanges()
      return changes === undefined ? [] : [{ lane, changes }]
    })
    const unstored = new Set<Lane.Lane>()
    if (taken.length === 0) return Effect.succeed(unstored)
    return Effect.matchCauseEffect(log.settle(taken.map(({ changes }) => changes)), {
      onSuccess: (refused) => {
        const told: Array<Effect.Effect<void>> = []
        for (const { lane, changes } of taken) {
          const refusal = refused.find((one) => one.lane === changes.lane)
          if (refusal === undefined) lane.stored()
          else {
            lane.progress.restore(changes)
            unstored.add(lane)
            told.push(refuse(lane, refusal))
          }
        }
        return Effect.as(Effect.all(told, { discard: true }), unstored)
      },
      // The journal reports what is wrong; what it could not store goes with the next settlement.
      onFailure: (cause) => {
        if (isFenced(cause)) return Effect.succeed(unstored)
        const error = Cause.findErrorOption(cause)
        for (const { lane, changes } of taken) {
          lane.progress.restore(changes)
          lane.unstorable = error._tag === "Some" ? error.value.message : "a bug in relay; the log has its cause"
          unstored.add(lane)
        }
        return Cause.hasDies(cause)
          ? Effect.as(logBug("the progress of the lanes could not be stored", cause), unstored)
          : Effect.succeed(unstored)
      },
    })
  })
  /** Uninterruptible: changes that were taken and neither stored nor restored would be lost to the lane. */
  const settle = oneSettlement.withPermit(Effect.uninterruptible(settleAll))

  /** Starts nothing more and waits for attempts in flight, which keep their deadline. */
  const end = (lane: Lane.Lane) => {
    const keepTime = Effect.delay(
      Effect.sync(() => lane.endAttempts()),
      pollEvery,
    )
    return Effect.andThen(
      Effect.raceFirst(lane.drain(grace), Effect.forever(keepTime)),
      Effect.sync(() => lane.state.end()),
    )
  }

  // Finalizers run in reverse: the pumps stop, attempts in flight end, their outcomes are stored, the sinks close.
  const sinks = yield* Scope.fork(yield* Scope.Scope)
  yield* Effect.addFinalizer(() => settle)
  /** The attempts that the stop waits for. */
  const sayInFlight = Effect.suspend(() => {
    const busy = [...running.values()].flatMap(({ lane: { config, inFlight } }) =>
      inFlight.size > 0 ? [`${config.name} (${inFlight.size})`] : [],
    )
    if (busy.length === 0) return Effect.void
    return Effect.logInfo(
      `waiting for attempts in flight: ${busy.join(", ")}, for ${Duration.format(grace)} at most; what has not ended by then is sent again after the next start`,
    )
  })
  yield* Effect.addFinalizer(() =>
    Effect.andThen(
      sayInFlight,
      Effect.forEach(running.values(), ({ lane }) => end(lane), { concurrency: "unbounded", discard: true }),
    ),
  )
  const pumps = yield* FiberMap.make<string>()
  yield* Effect.forkScoped(
    repeating(
      "the progress of the lanes could not be collected",
      settleNow.await.pipe(
        Effect.timeoutOption(settleEvery),
        Effect.andThen(settleNow.close),
        Effect.andThen(settle),
        Effect.asVoid,
      ),
    ),
  )

  /** An operator may have paused or resumed the sink at another relay. */
  const keepUp = (lane: Lane.Lane, { paused }: LaneInfo): void => {
    if (paused === lane.state.pausedByOperator) return
    if (paused) lane.state.pause()
    else lane.resume()
  }

  /** Also where the journal can't be asked: then by what it counted last. */
  const backlogs = new WeakMap<Lane.Lane, number>()
  const watch = Effect.suspend(() =>
    Effect.forEach(
      [...running.values()].filter(({ lane }) => lane.watch(backlogs.get(lane) ?? 0)),
      ({ lane: { config, state } }) =>
        (state.stalled === ""
          ? Effect.logInfo(`sink ${config.name}: its lane goes on`)
          : Effect.logError(`sink ${config.name}: its lane stands still: ${state.stalled}`)
        ).pipe(Effect.annotateLogs({ sink: config.name })),
      { discard: true },
    ),
  )

  const count = Effect.gen(function* () {
    // Read before the journal counts: events that it does not know of by then have ended all the same.
    const ended = new Map([...running.values()].map(({ lane }) => [lane, lane.progress.endedOnDisk]))
    for (const state of yield* log.lanes) {
      const lane = running.get(state.name)?.lane
      const before = lane && ended.get(lane)
      if (lane === undefined || before === undefined) continue
      backlogs.set(lane, state.backlog)
      lane.progress.counted(state)
      keepUp(lane, state)
      const limit = lane.config.backlog
      if (limit?.whenFull === "deadLetter") lane.giveUp(Math.max(0, state.backlog - limit.max), before)
    }
  })
  yield* Effect.forkScoped(
    repeating("dead letters and backlogs could not be counted", Effect.delay(Effect.ignore(count), countEvery)),
  )
  yield* Effect.forkScoped(repeating("lanes could not be watched", Effect.delay(watch, countEvery)))

  /** The part of the lane's config that concerns the sink. */
  const sinkConfig = ({ config, digest, key, enrich }: LaneConfig) => config && [config, digest && key, enrich]
  const keyOf = ({ config, open }: LaneSpec) => new SinkPool.SinkKey(config.type, sinkConfig(config), open)

  /** Acquires a sink for a lane; nothing is opened yet, unless another lane has it open. */
  const acquire = Effect.fnUntraced(function* (spec: LaneSpec): Effect.fn.Return<AcquiredSink> {
    const scope = yield* Scope.fork(sinks)
    const { sink, ensureOpen, within, use } = yield* Scope.provide(RcMap.get(pool, keyOf(spec)), scope)
    const { name, type } = spec.config
    const traced = tracing === undefined ? sink : tracing.traced(sink, name, type)
    const acquired: AcquiredSink = { sink: traced, ensureOpen, within, scope }
    const broke = (message: string): void => {
      const one = running.get(name)
      if (one?.acquired === acquired) one.lane.inFlight.giveBack(message)
    }
    yield* Scope.provide(use({ name, stats: stats(name), broke }), scope)
    return acquired
  })

  /** Makes a lane from what the journal knows. */
  const place = Effect.fnUntraced(function* (spec: LaneSpec, state: OpenedLane, acquired: AcquiredSink) {
    const { config, key } = spec
    const { name } = config
    const lane = yield* Lane.make({
      config,
      sink: acquired.sink,
      within: acquired.within,
      log,
      state,
      key,
      events: announce(name, () => settleNow.openUnsafe()),
      stats: stats(name),
      wallClock,
    })
    running.set(name, { lane, acquired })
    return lane
  })

  const isStored = (lane: Lane.Lane) => (unstored: ReadonlySet<Lane.Lane>) => !unstored.has(lane)
  /** Attempts in flight end, and their outcomes are stored. What can't be stored for long is repeated, as after a crash. */
  const finish = (lane: Lane.Lane) =>
    Effect.andThen(end(lane), Effect.repeat(settle, { until: isStored(lane), schedule: settleRetries }))

  /**
   * Runs a lane, and restarts one that a bug has ended from what the journal knows: events that it held in memory are
   * read again. It waits longer each time, for a bug that an event sets off comes again.
   */
  const keepRunning = Effect.fnUntraced(function* (spec: LaneSpec, acquired: AcquiredSink, first: Lane.Lane) {
    const { name } = spec.config
    let lane = first
    for (let failures = 0; ; ) {
      const started = lane.clock.now()
      const exit = yield* Effect.exit(Effect.andThen(Effect.ignore(acquired.ensureOpen), lane.run))
      if (Exit.isSuccess(exit)) return
      failures = lane.clock.now() - started > restart.resetMillis ? 1 : failures + 1
      const wait = Math.min(restart.firstMillis * 2 ** (failures - 1), restart.maxMillis)
      const within = `it restarts within ${wait / 1_000} s`
      lane.state.fail(`a bug in relay ended the lane; ${within}, and the log has the cause`)
      yield* logBug(`the lane of sink ${name} ended, ${failures} in a row; ${within}`, exit.cause).pipe(
        Effect.annotateLogs({ sink: name }),
      )
      yield* finish(lane)
      yield* Effect.sleep(wait)
      const opening = log.openLane(name, openOptions(spec.config))
      const state = yield* Effect.retry(opening, { schedule: Schedule.spaced("1 second") })
      const next = yield* place(spec, state, acquired)
      next.state.blocked = lane.state.blocked
      lane = next
      yield* Effect.annotateLogs(Effect.logInfo(`sink ${name}: the lane was restarted`), { sink: name })
    }
  })

  const startInside = Effect.fnUntraced(function* (spec: LaneSpec, state: OpenedLane, acquired: AcquiredSink) {
    const { name, backlog } = spec.config
    yield* log.limitBacklog(name, backlog?.whenFull === "refuse" ? backlog.max : undefined, spec.maxBytes)
    const lane = yield* place(spec, state, acquired)
    yield* FiberMap.run(pumps, name, keepRunning(spec, acquired, lane))
  })
  /** A lane outlives its caller, and so takes nothing of the caller's context. */
  const start = (...lane: Parameters<typeof startInside>) =>
    Effect.updateContext(startInside(...lane), (_: Context.Context<never>) => context)

  /** Ends a lane: it starts nothing, attempts in flight end, their outcomes are stored. Its sink closes, unless another lane has it. */
  const retire = Effect.fnUntraced(function* (name: string) {
    const one = running.get(name)
    if (one === undefined) return
    yield* FiberMap.remove(pumps, name)
    // The one that runs now: it may have been restarted.
    yield* finish(running.get(name)?.lane ?? one.lane)
    // Not sooner: a stop in the middle still finds it, and ends it.
    running.delete(name)
    yield* Scope.close(one.acquired.scope, Exit.void)
  })

  return {
    log,
    get: (name: string): Lane.Lane | undefined => running.get(name)?.lane,
    names: (): ReadonlyArray<string> => [...running.keys()],
    /** Whether a lane of any stream has this very sink. */
    isOpen: (spec: LaneSpec) => RcMap.has(pool, keyOf(spec)),
    acquire,
    start,
    retire,
    /** Lets a lane whose sink works send its backlog, as far as that is soon done. */
    catchUp: Effect.fnUntraced(function* (name: string) {
      const lane = running.get(name)?.lane
      if (lane === undefined) return
      const head = yield* log.head
      const isDone = () => lane.progress.cursor >= head || lane.state.condition !== "running"
      yield* Effect.timeoutOption(
        Effect.repeat(
          Effect.suspend(() => (isDone() ? Effect.void : Effect.sleep(pollEvery))),
          { until: isDone },
        ),
        catchUpTimeout,
      )
    }),
    settle,
  }
})
export type RunningLanes = Effect.Success<ReturnType<typeof make>>
