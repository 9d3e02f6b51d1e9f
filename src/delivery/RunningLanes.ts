/**
 * The lanes that run: each over its sink, pumped by a fiber of its own, its
 * progress stored with that of the others.
 *
 * **Promise.** A lane that is retired has told the journal all that it decided.
 * The next one of its name, over another sink or by other rules, goes on where
 * it stood.
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
import { quarantine } from "../event/Event.ts"
import { Journal, type OpenedLane } from "../journal/Journal.ts"
import * as WallClock from "../journal/WallClock.ts"
import type { Sink, SinkError } from "../sinks/Sink.ts"
import { Tracing } from "../telemetry/Tracing.ts"
import type { Announce } from "./Announcements.ts"
import * as Lane from "./lane/Lane.ts"
import * as SinkPool from "./SinkPool.ts"

/** A sink as the lanes need it: its config, how to open it, and its order key. */
export interface LaneSpec {
  readonly config: LaneConfig
  readonly open: Effect.Effect<Sink, SinkError, Scope.Scope>
  readonly key: (entry: Entry) => string
}

/** A sink that is kept for a lane until its scope closes. */
export interface Held {
  readonly sink: Sink
  readonly ensureOpen: Effect.Effect<Sink, SinkError>
  readonly scope: Scope.Closeable
}

interface Running {
  readonly lane: Lane.Lane
  readonly held: Held
}

/** How often lanes' progress is made durable: it bounds what a crash repeats. */
const settleEvery = Duration.millis(100)
const keepHouseEvery = Duration.seconds(1)
/** How often the journal is asked once more to store what a retired lane decided. */
const settleAgain = Schedule.max([Schedule.spaced(settleEvery), Schedule.recurs(20)])
/** How long a lane that is to be removed may go on for, and how often it is asked whether it has caught up. */
const catchUpFor = Duration.seconds(2)
const lookEvery = Duration.millis(25)

/** How soon a lane that a bug has ended begins anew, at most how late, and after how long without one that is forgotten; milliseconds. */
const revival = { first: 1_000, last: 60_000, forgotten: 600_000 } as const

const died = (what: string, cause: Cause.Cause<unknown>) => Effect.logError(`a bug in relay: ${what}`, cause)

/** One round after the other; a bug is told, and ends that round alone. */
const rounds = (what: string, round: Effect.Effect<void>): Effect.Effect<never> =>
  Effect.forever(
    Effect.catchDefect(round, (defect) =>
      Effect.andThen(died(`${what}; it is tried again`, Cause.die(defect)), Effect.sleep(keepHouseEvery)),
    ),
  )

/** `grace` is how long attempts under way may take when a lane is retired, or the relay stops. */
export const make = Effect.fnUntraced(function* (announce: Announce, grace: Duration.Duration) {
  const context = yield* Effect.context<Journal>()
  const journal = yield* Journal
  const tracing = yield* Tracing
  const wallClock = WallClock.make(yield* Clock.Clock)
  const running = new Map<string, Running>()
  const settleNow = Latch.makeUnsafe(false)
  const oneSettlement = yield* Semaphore.make(1)

  /** Whether all is on disk. */
  const settleAll = Effect.suspend(() => {
    const taken = [...running.values()].flatMap(({ lane }) => {
      const changes = lane.progress.takeChanges()
      return changes === undefined ? [] : [{ lane, changes }]
    })
    if (taken.length === 0) return Effect.succeed(true)
    return Effect.matchCauseEffect(journal.settle(taken.map(({ changes }) => changes)), {
      onSuccess: () => {
        for (const { lane } of taken) lane.stored()
        return Effect.succeed(true)
      },
      // The journal says what is wrong; what it could not store goes with the next settlement.
      onFailure: (cause) => {
        for (const { lane, changes } of taken) lane.progress.restore(changes)
        return Cause.hasDies(cause)
          ? Effect.as(died("what lanes have come to could not be stored", cause), false)
          : Effect.succeed(false)
      },
    })
  })
  /** Not to be cut off: what was taken and neither stored nor taken back would be lost to the lane. */
  const settle = oneSettlement.withPermit(Effect.uninterruptible(settleAll))

  /** Starts nothing more and waits for what is under way, which keeps its deadline. */
  const end = (lane: Lane.Lane) => {
    const keepTime = Effect.delay(
      Effect.sync(() => lane.inFlight.interruptOverdue(lane.progress.now())),
      lookEvery,
    )
    return Effect.andThen(
      Effect.raceFirst(lane.drain(grace), Effect.forever(keepTime)),
      Effect.sync(() => lane.state.end()),
    )
  }

  // Finalizers run in reverse: the pumps stop, attempts under way end, what they came to is stored, the sinks close.
  const sinks = yield* Scope.fork(yield* Scope.Scope)
  const pool = yield* Scope.provide(SinkPool.make, sinks)
  yield* Effect.addFinalizer(() => settle)
  yield* Effect.addFinalizer(() =>
    Effect.forEach(running.values(), ({ lane }) => end(lane), { concurrency: "unbounded", discard: true }),
  )
  const pumps = yield* FiberMap.make<string>()
  yield* Effect.forkScoped(
    rounds(
      "lanes could not be asked for what they have come to",
      settleNow.await.pipe(
        Effect.timeoutOption(settleEvery),
        Effect.andThen(settleNow.close),
        Effect.andThen(settle),
        Effect.asVoid,
      ),
    ),
  )

  const keepHouse = Effect.gen(function* () {
    // Read before the journal counts: what it does not know of by then has ended all the same.
    const ended = new Map([...running.values()].map(({ lane }) => [lane, lane.progress.endedOnDisk]))
    for (const state of yield* journal.lanes) {
      const lane = running.get(state.name)?.lane
      const before = lane && ended.get(lane)
      if (lane === undefined || before === undefined) continue
      lane.progress.deadLetters = state.deadLetters
      lane.progress.deadLetterBytes = state.deadLetterBytes
      const limit = lane.config.backlog
      if (limit?.whenFull === "deadLetter") lane.giveUp(Math.max(0, state.backlog - limit.max), before)
    }
  })
  yield* Effect.forkScoped(
    rounds("dead letters and backlogs could not be counted", Effect.delay(Effect.ignore(keepHouse), keepHouseEvery)),
  )

  /** Of what the lane asks, this much is the sink's business. */
  const asked = ({ config, digest, key, enrich }: LaneConfig) => config && [config, digest && key, enrich]
  const keyOf = ({ config, open }: LaneSpec) => new SinkPool.SinkKey(config.type, asked(config), open)

  /** Keeps a sink for a lane; nothing is opened yet, unless another lane has it open. */
  const hold = Effect.fnUntraced(function* (spec: LaneSpec): Effect.fn.Return<Held> {
    const scope = yield* Scope.fork(sinks)
    const { sink, ensureOpen } = yield* Scope.provide(RcMap.get(pool, keyOf(spec)), scope)
    const { name, type } = spec.config
    return { sink: tracing === undefined ? sink : tracing.traced(sink, name, type), ensureOpen, scope }
  })

  /** Puts a lane where the journal says it stands; `before` is the one that it takes the place of. */
  const place = Effect.fnUntraced(function* (spec: LaneSpec, state: OpenedLane, held: Held, before?: Lane.Lane) {
    const { config, key } = spec
    const { name } = config
    const lane = yield* Lane.make({
      config,
      sink: held.sink,
      state,
      key,
      events: announce(name, () => settleNow.openUnsafe()),
      wallClockTrusted: wallClock.trusted,
      started: wallClock.start,
      rejects: name === quarantine,
    })
    if (before !== undefined) lane.inFlight.takeOver(before.inFlight)
    running.set(name, { lane, held })
    return lane
  })

  /** What is under way ends, and what came of it is stored. What can't be stored for so long is repeated, as after a crash. */
  const finish = (lane: Lane.Lane) =>
    Effect.andThen(end(lane), Effect.repeat(settle, { until: (stored) => stored, schedule: settleAgain }))

  /**
   * Runs a lane. One that a bug has ended begins anew, where the journal says it stands: what it had in hand it reads
   * again. It waits longer each time, for a bug that an event sets off comes again.
   */
  const keepRunning = Effect.fnUntraced(function* (spec: LaneSpec, held: Held, first: Lane.Lane) {
    const { name } = spec.config
    let lane = first
    for (let deaths = 0; ; ) {
      const began = lane.progress.now()
      const exit = yield* Effect.exit(Effect.andThen(Effect.ignore(held.ensureOpen), lane.run))
      if (Exit.isSuccess(exit)) return
      deaths = lane.progress.now() - began > revival.forgotten ? 1 : deaths + 1
      const wait = Math.min(revival.first * 2 ** (deaths - 1), revival.last)
      lane.state.fail(
        `a bug in relay has ended the lane; it begins anew within ${wait / 1_000} s, and the log has the cause`,
      )
      yield* died(
        `the lane of sink ${name} has ended, ${deaths} in a row; it begins anew within ${wait / 1_000} s`,
        exit.cause,
      )
      yield* finish(lane)
      yield* Effect.sleep(wait)
      const state = yield* Effect.retry(journal.openLane(name), { schedule: Schedule.spaced("1 second") })
      const next = yield* place(spec, state, held, lane)
      next.state.blocked = lane.state.blocked
      lane = next
      yield* Effect.logInfo(`sink ${name}: the lane has begun anew`)
    }
  })

  const begin = Effect.fnUntraced(function* (spec: LaneSpec, state: OpenedLane, held: Held, before?: Lane.Lane) {
    const { name, backlog } = spec.config
    yield* journal.limitBacklog(name, backlog?.whenFull === "refuse" ? backlog.max : undefined)
    const lane = yield* place(spec, state, held, before)
    yield* FiberMap.run(pumps, name, keepRunning(spec, held, lane))
  })
  /** A lane outlives whoever asked for it, and so takes nothing of the asker's context. */
  const start = (...lane: Parameters<typeof begin>) =>
    Effect.updateContext(begin(...lane), (_: Context.Context<never>) => context)

  /** Ends a lane: it starts nothing, what is under way ends, what came of it is stored. Its sink closes, if no other lane has it. */
  const retire = Effect.fnUntraced(function* (name: string) {
    const one = running.get(name)
    if (one === undefined) return
    yield* FiberMap.remove(pumps, name)
    // The one that runs now: a bug may have had it begin anew.
    yield* finish(running.get(name)?.lane ?? one.lane)
    // Not sooner: a stop in the middle still finds it, and ends what is left to end.
    running.delete(name)
    yield* Scope.close(one.held.scope, Exit.void)
  })

  return {
    get: (name: string): Lane.Lane | undefined => running.get(name)?.lane,
    names: (): ReadonlyArray<string> => [...running.keys()],
    /** Whether a lane has this very sink. */
    isOpen: (spec: LaneSpec) => RcMap.has(pool, keyOf(spec)),
    hold,
    start,
    retire,
    /** Lets a lane whose sink works send what the journal holds for it, as far as that is soon done. */
    catchUp: Effect.fnUntraced(function* (name: string) {
      const lane = running.get(name)?.lane
      if (lane === undefined) return
      const head = yield* journal.head
      const isDone = () => lane.progress.cursor >= head || lane.state.condition !== "running"
      yield* Effect.timeoutOption(
        Effect.repeat(
          Effect.suspend(() => (isDone() ? Effect.void : Effect.sleep(lookEvery))),
          { until: isDone },
        ),
        catchUpFor,
      )
    }),
    settle,
  }
})
