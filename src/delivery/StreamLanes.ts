/** The lanes of all streams that the relay owns, usually one stream. They share the sinks. */
import { Duration, Effect, Exit, Scope, type Semaphore, Stream, SubscriptionRef } from "effect"
import { repeating } from "../event/Rounds.ts"
import type { JournalError, Log, Streams } from "../journal/Journal.ts"
import * as Announcements from "./Announcements.ts"
import { type LaneSpec, openOptions } from "./LaneSpec.ts"
import { AttemptStats } from "./lane/InFlight.ts"
import type { Lane } from "./lane/Lane.ts"
import * as RunningLanes from "./RunningLanes.ts"
import * as SinkPool from "./SinkPool.ts"

/** How often opening the lanes of a stream is retried. */
const openEvery = Duration.seconds(1)

interface Running {
  readonly lanes: RunningLanes.RunningLanes
  readonly scope: Scope.Closeable
}

/** The sinks that are not part of a rename. Their lanes are created together. */
const newIn = (specs: ReadonlyArray<LaneSpec>): ReadonlyArray<string> => {
  const formerNames = new Set(specs.map(({ config }) => config.renamedFrom))
  return specs.flatMap(({ config: { name, renamedFrom } }) =>
    renamedFrom === undefined && !formerNames.has(name) ? [name] : [],
  )
}

/**
 * `grace` is the time limit for attempts in flight when a lane is retired or the
 * relay stops. With `oneChange`, changes of the lanes run one at a time.
 */
export const make = Effect.fnUntraced(function* (grace: () => Duration.Duration, oneChange: Semaphore.Semaphore) {
  const announce = yield* Announcements.make
  const pool = yield* SinkPool.make
  const running = new Map<Log, Running>()
  const counted = new Map<string, AttemptStats>()
  const stats = (sink: string): AttemptStats => {
    const found = counted.get(sink) ?? new AttemptStats()
    counted.set(sink, found)
    return found
  }

  const leave = (log: Log) =>
    Effect.suspend(() => {
      const scope = running.get(log)?.scope
      return scope === undefined
        ? Effect.void
        : Effect.andThen(
            Scope.close(scope, Exit.void),
            Effect.sync(() => running.delete(log)),
          )
    })
  yield* Effect.addFinalizer(() => Effect.forEach([...running.keys()], leave, { concurrency: "unbounded" }))

  /**
   * Starts a lane for each sink. All lanes are opened before the first runs. Otherwise an own event of a running lane
   * could create another sink's lane, which could then no longer adopt its former one.
   */
  const follow = Effect.fnUntraced(function* (
    log: Log,
    specs: ReadonlyArray<LaneSpec>,
  ): Effect.fn.Return<void, JournalError> {
    const scope = yield* Scope.make()
    const lanes = yield* Scope.provide(RunningLanes.make({ log, pool, announce, grace, stats, oneChange }), scope)
    running.set(log, { lanes, scope })
    yield* Effect.gen(function* () {
      yield* log.createLanes(newIn(specs))
      const open = yield* Effect.forEach(specs, (spec) =>
        Effect.map(
          log.openLane(spec.config.name, {
            ...openOptions(spec.config, specs),
            renamedFrom: spec.config.renamedFrom,
          }),
          (state) => ({ spec, state }),
        ),
      )
      for (const { spec, state } of open) yield* lanes.start(spec, state, yield* lanes.acquire(spec))
    }).pipe(Effect.onError(() => leave(log)))
  })

  /**
   * Starts lanes for newly owned streams and stops those of lost streams. Returns false if a lane could not be opened.
   */
  const followAll = Effect.fnUntraced(function* (owned: ReadonlyArray<Log>, specs: ReadonlyArray<LaneSpec>) {
    const known = [...running.keys()]
    const lost = known.filter((log) => !owned.includes(log))
    yield* Effect.forEach(lost, leave, { concurrency: "unbounded", discard: true })
    const taken = owned.filter((log) => !known.includes(log))
    const opened = yield* Effect.forEach(taken, (log) => Effect.isSuccess(follow(log, specs)))
    return opened.every((isOpen) => isOpen)
  })

  return {
    follow,
    /** Follows the streams that the relay owns, forever. Each update is one change. */
    keepUp: (owned: Streams, specs: () => ReadonlyArray<LaneSpec>) =>
      repeating(
        "following the streams that the relay owns",
        Effect.gen(function* () {
          const logs = SubscriptionRef.getUnsafe(owned)
          const isDone = yield* oneChange.withPermit(Effect.suspend(() => followAll(logs, specs())))
          const changed = Stream.runHead(Stream.filter(SubscriptionRef.changes(owned), (now) => now !== logs))
          yield* Effect.raceFirst(changed, isDone ? Effect.never : Effect.sleep(openEvery))
        }),
      ),
    /** The attempts of each sink since the start, including sinks that have left the config. */
    counted: (): ReadonlyMap<string, AttemptStats> => counted,
    logs: (): ReadonlyArray<Log> => [...running.keys()],
    all: (): ReadonlyArray<RunningLanes.RunningLanes> => [...running.values()].map(({ lanes }) => lanes),
    /** Reports whether the sink has a running lane in the stream. */
    has: (log: Log, name: string): boolean => running.get(log)?.lanes.get(name) !== undefined,
    /** The sinks with a lane that may not be idle. */
    busy: (): ReadonlySet<string> =>
      new Set([...running.values()].flatMap(({ lanes }) => lanes.busy().map(({ config }) => config.name))),
    /** A sink's lane in each stream, or none if the config doesn't have the sink. */
    of: (name: string): ReadonlyArray<Lane> => [...running.values()].flatMap(({ lanes }) => lanes.get(name) ?? []),
  }
})
export type StreamLanes = Effect.Success<ReturnType<typeof make>>
