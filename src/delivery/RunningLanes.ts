/**
 * The lanes that run over one stream: each over its sink, pumped by a fiber of
 * its own, its progress stored together with that of the others.
 *
 * **Guarantee.** A lane that is retired has told the journal all that it decided.
 * The next one of its name, over another sink or by other rules, continues where
 * it ended. When another relay has taken the stream nothing more is told: what
 * these lanes decided since is that relay's to decide.
 */
import { Clock, type Context, Duration, Effect, Exit, FiberMap, Scope, type Semaphore } from "effect"
import { isNotFenced, type Log, type OpenedLane, type OpenOptions } from "../journal/Journal.ts"
import * as WallClock from "../journal/WallClock.ts"
import type { Announce } from "./Announcements.ts"
import * as LaneCounts from "./LaneCounts.ts"
import type { LaneSpec } from "./LaneSpec.ts"
import type { AttemptStats } from "./lane/AttemptStats.ts"
import type { Lane } from "./lane/Lane.ts"
import * as ProgressStore from "./ProgressStore.ts"
import * as RunningLane from "./RunningLane.ts"
import type { AcquiredSink, Pool } from "./SinkPool.ts"

/** How long a lane that is to be removed may still send, and how often it is asked whether it has caught up. */
const catchUpTimeout = Duration.seconds(2)
const pollEvery = Duration.millis(25)
/** How often a lane tries again to adopt another one. */
const adoptEvery = Duration.seconds(1)

export interface RunningLanesOptions {
  readonly log: Log
  readonly pool: Pool
  readonly announce: Announce
  /** How long attempts in flight may take when a lane is retired, or the relay stops. */
  readonly grace: () => Duration.Duration
  /** How a sink's attempts are counted, in all streams together. */
  readonly stats: (sink: string) => AttemptStats
  /** Changes of lanes are made one after the other. */
  readonly oneChange: Semaphore.Semaphore
}

/** Says which attempts the stop waits for. */
const sayInFlight = (lanes: ReadonlyArray<Lane>, grace: Duration.Duration): Effect.Effect<void> => {
  const busy = lanes.filter(({ inFlight }) => inFlight.size > 0)
  if (busy.length === 0) return Effect.void
  const said = busy.map(({ config, inFlight }) => `${config.name} (${inFlight.size})`).join(", ")
  return Effect.logInfo(
    `waiting for attempts in flight: ${said}, for ${Duration.format(grace)} at most; what has not ended by then is sent again after the next start`,
  )
}

/** Waits until a lane that runs has sent its backlog, for two seconds at most. */
const caughtUp = Effect.fnUntraced(function* (log: Log, lane: Lane | undefined) {
  if (lane === undefined) return
  const isDone = Effect.gen(function* () {
    if (lane.state.condition !== "running") return true
    const info = (yield* log.holding).find((one) => one.name === lane.config.name)
    return info === undefined || info.backlog <= info.retrying
  })
  const look = Effect.tap(isDone, (done) => (done ? Effect.void : Effect.sleep(pollEvery)))
  yield* Effect.timeoutOption(Effect.ignore(Effect.repeat(look, { until: (done) => done })), catchUpTimeout)
})

/** Stores the progress of lanes that did something, and checks them. */
const kept = Effect.fnUntraced(function* (log: Log, laneOf: (name: string) => Lane | undefined, announce: Announce) {
  const progress = yield* ProgressStore.make(log, laneOf)
  // Between two settlements, so an event that the lane has just ended is in its changes or out of the journal.
  const takeUp = Effect.fnUntraced(function* (lane: Lane) {
    while ((yield* progress.between(lane.takeUp)) > 0) {
      progress.active(lane.config.name)
      yield* progress.settle
    }
  })
  const counts = LaneCounts.make(log, laneOf, takeUp)
  return {
    settle: progress.settle,
    /** Does both for ever. */
    keep: Effect.raceFirst(progress.keepSettling, counts.looking),
    /** The events of a lane that runs. */
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
  const running = new Map<string, RunningLane.RunningLane>()
  const lanes = (): ReadonlyArray<Lane> => [...running.values()].map((one) => one.current())
  const laneOf = (name: string): Lane | undefined => running.get(name)?.current()
  const { settle, keep, eventsOf } = yield* kept(log, laneOf, announce)

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
      const one = running.get(name)
      if (one?.acquired === acquired) one.current().inFlight.giveBack(message)
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
    const one = yield* RunningLane.make(options, state)
    one.current().state.inherit(blocked)
    running.set(name, one)
    events.active()
    yield* FiberMap.run(pumps, name, one.run)
  })

  /** Outlives its caller, and so takes nothing of the caller's context. */
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
    const one = running.get(name)
    if (one === undefined) return
    yield* FiberMap.remove(pumps, name)
    yield* one.finish
    // Not sooner: a stop in the middle still finds it, and ends it.
    running.delete(name)
    yield* Scope.close(one.acquired.scope, Exit.void)
  })

  return {
    log,
    get: laneOf,
    names: (): ReadonlyArray<string> => [...running.keys()],
    isOpen: pool.isOpen,
    /** Acquires a sink for a lane, which closes with the lane. */
    acquire,
    /** Starts a lane; `blocked` says why an operator must look before it sends. */
    start: (...lane: Parameters<typeof startInside>) => apart(startInside(...lane)),
    /** Ends a lane: it starts nothing, attempts in flight end, their outcomes are stored. Its sink closes, unless another lane has it. */
    retire,
    /** Opens a lane once more, and gives it the retries that came to it from another. All that it decided must be settled. */
    reopen,
    /** Has a lane that runs adopt its former one, each second until the journal does it, or a change decides anew. */
    adoptLater,
    /** A change decides anew what each lane adopts. */
    adoptNothing: FiberMap.clear(adopting),
    /** Lets a lane whose sink works send its backlog, as far as that is soon done. */
    catchUp: (name: string) => caughtUp(log, laneOf(name)),
    settle,
  }
})
export type RunningLanes = Effect.Success<ReturnType<typeof make>>
