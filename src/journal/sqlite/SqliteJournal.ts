/**
 * The journal on SQLite (`node:sqlite`, WAL, `synchronous=FULL`): the embedded
 * default.
 *
 * **Guarantee.** That of `Journal`. One fsync acknowledges every append that
 * waited for it, and stores the lanes' settlements.
 *
 * **Gotcha.** SQLite is synchronous: a commit holds the event loop for the
 * length of an fsync (0.3 to 3 ms on a good disk). The layer fails when another
 * relay holds the journal, or when a newer one wrote it. After `broken` the
 * process must end: nothing in it can be trusted with the file any more.
 */
import { Clock, Deferred, Duration, Effect, Latch, Layer, Schedule, type Scope } from "effect"
import * as StateFile from "../../runtime/StateFile.ts"
import type { Archive, JournalStatus } from "../Archive.ts"
import type { EventQuery } from "../EventQuery.ts"
import type { Appended, Journal } from "../Journal.ts"
import { type JournalBroken, JournalError } from "../JournalError.ts"
import type { RefusedSettlement } from "../Settlement.ts"
import type { Backlog } from "../stream/Backlog.ts"
import { readBytes } from "../stream/BulkSlices.ts"
import { type Removal, removal } from "../stream/Removal.ts"
import * as WallClock from "../WallClock.ts"
import { servicesOf, type WholeJournal } from "../WholeJournal.ts"
import { WorkerEntrypoint } from "../WorkerEntrypoint.ts"
import { Engine } from "./commit/Engine.ts"
import { isLocked } from "./commit/ForeignLock.ts"
import { allOf } from "./commit/LaneStore.ts"
import { maxLogBytes } from "./file/Checkpoints.ts"
import { classify } from "./file/SqliteFailure.ts"
import { open } from "./file/Store.ts"
import * as JournalWorker from "./JournalWorker.ts"
import * as BulkOperations from "./operations/BulkOperations.ts"
import { importEvents } from "./operations/Import.ts"
import { prune, sweep } from "./operations/Retention.ts"
import { scan } from "./operations/StartupScan.ts"
import { isCorrupt } from "./rows/SqliteErrors.ts"
import { hourOf, type SqliteConfig } from "./SqliteConfig.ts"
import * as Search from "./search/Search.ts"

/** How often room and age are checked, in milliseconds; sooner while there is more to prune, or room gets tight. */
const inspectEvery = 250
const pruneAgainAfter = 20
/** Milliseconds that the start reads before anything else runs: a small journal is ready at once. */
const startSlice = 20
/** Milliseconds that a search may hold the event loop, where there is no worker. */
const searchSlice = 5

const macrotask = Effect.callback<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})

/** Anything but a `JournalError` is a bug. */
const attempt = <A>(work: () => A): Effect.Effect<A, JournalError> =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(work())
    } catch (error) {
      return error instanceof JournalError ? Effect.fail(error) : Effect.die(error)
    }
  })

/** Runs work that may wait until another process has released the file. */
const patient = <A>(work: () => A): Effect.Effect<A, JournalError> =>
  Effect.retry(attempt(work), {
    while: isLocked,
    schedule: Schedule.max([Schedule.spaced("20 millis"), Schedule.recurs(250)]),
  })

/** Runs an operation slice by slice; other work runs in between. */
const sliced = <A>(engine: Engine, steps: () => Generator<void, A>): Effect.Effect<A, JournalError> =>
  Effect.suspend(() => {
    const generator = steps()
    const step: Effect.Effect<A, JournalError> = Effect.suspend(() => {
      try {
        const next = generator.next()
        return next.done === true ? Effect.succeed(next.value) : Effect.andThen(macrotask, step)
      } catch (error) {
        return Effect.fail(engine.failed(error))
      }
    })
    return step
  })

/** Opens the journal for the length of a scope. */
const make = Effect.fnUntraced(function* (
  options: SqliteConfig,
): Effect.fn.Return<WholeJournal, JournalError, Scope.Scope> {
  const clock = yield* Clock.Clock
  const entry = yield* WorkerEntrypoint
  const wallClock = WallClock.make(clock)
  const now = () => clock.currentTimeMillisUnsafe()
  const engine = yield* Effect.acquireRelease(
    attempt(() => {
      const store = open(options.path)
      try {
        return new Engine(store, options)
      } catch (error) {
        if (isCorrupt(error)) store.mark.damaged()
        store.close()
        throw classify(options.path, error)
      }
    }),
    (engine) =>
      Effect.sync(() => {
        engine.stop()
        if (engine.brokenBy === undefined) engine.checkpoints.run()
        engine.store.close()
      }),
  )

  const brokenSignal = Deferred.makeUnsafe<never, JournalBroken>()
  const ready = Latch.makeUnsafe(false)
  engine.onBroken = (error) => {
    Deferred.doneUnsafe(brokenSignal, Effect.fail(error))
    ready.openUnsafe()
  }

  // The start.
  const startup = scan(engine, options, now())
  const startUntil = (deadline: number): boolean => {
    while (startup.next().done !== true) if (performance.now() > deadline) return false
    ready.openUnsafe()
    return true
  }
  const startSlices = attempt(() => {
    try {
      return startUntil(performance.now() + startSlice)
    } catch (error) {
      throw engine.failed(error)
    }
  })
  if (!(yield* startSlices)) {
    yield* Effect.repeat(Effect.andThen(macrotask, startSlices), { until: (done) => done }).pipe(
      // Without lanes and duplicates it can't go on.
      Effect.catch((error) => Effect.sync(() => engine.breakDown(error.message))),
      Effect.forkScoped,
    )
  }

  // Checkpoints and searches. The worker takes 6 MB, so an idle relay has none: it starts with the first commit or search,
  // or where the write-ahead log has grown long without them, by pruning or an operation on a lane.
  let worker: JournalWorker.JournalWorker | undefined
  const needWorker = (): JournalWorker.JournalWorker | undefined => {
    if (entry === undefined) return undefined
    worker ??= JournalWorker.start(entry, engine.store.path, {
      checkpoint: (frames) => {
        if (engine.brokenBy === undefined) engine.checkpoints.reported(frames)
      },
      failure: (message, code) => engine.checkpoints.failed(message, code),
    })
    return worker
  }
  yield* Effect.addFinalizer(() => (worker === undefined ? Effect.void : Effect.promise(worker.stop)))
  engine.checkpoints.isOwn = entry === undefined
  const ownSearch = yield* attempt(() => engine.guard(() => new Search.Search(engine.store.db)))
  const search = Effect.fnUntraced(function* (query: EventQuery) {
    const page = yield* Effect.tryPromise({
      try: async () => engine.guard(() => needWorker()?.search(query)),
      catch: (error) => engine.failed(error),
    })
    if (page !== undefined) return page
    yield* macrotask
    return yield* attempt(() => engine.guard(() => ownSearch.look(query, searchSlice)))
  })

  // Room and age.
  const retention = Duration.toMillis(options.retention)
  const tight = Latch.makeUnsafe(false)
  engine.space.onTight = () => tight.openUnsafe()
  const inspect = Effect.suspend(() => {
    if (engine.brokenBy !== undefined) return Effect.never
    let more = false
    try {
      engine.inspect()
      if (engine.counters.commits > 0 || engine.space.walBytes > maxLogBytes) needWorker()
      if (!engine.isStarting) {
        const swept = sweep(engine)
        more = prune(engine, wallClock.trusted() ? now() - retention : 0) || swept
      }
    } catch (error) {
      engine.failed(error)
    }
    tight.closeUnsafe()
    const idle = Effect.raceFirst(tight.await, Effect.sleep(inspectEvery - pruneAgainAfter))
    return Effect.andThen(Effect.sleep(pruneAgainAfter), more ? Effect.void : idle)
  })
  yield* Effect.forkScoped(Effect.forever(inspect))

  const started = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> => ready.whenOpen(effect)
  const opened = new Set<string>()

  const openOne = (name: string) =>
    patient(() => {
      engine.flush()
      const { backlogs } = engine.lanes
      if (!backlogs.has(name)) engine.apply(() => engine.lanes.begin(name, engine.head))
      const backlog = backlogs.get(name) as Backlog
      opened.add(name)
      const { pausedFor } = backlog
      const retries = engine.guard(() => engine.lanes.retries.ofLane(name))
      return { ...engine.lanes.info(backlog), pausedFor, retries }
    })

  const setPaused = (lane: string, paused: boolean) =>
    patient(() => engine.apply(() => engine.lanes.setPaused(lane, paused)))

  /** An operation that is recorded with who asked for it, and when. */
  const byOperator = <A>(work: (why: Removal) => Effect.Effect<A, JournalError>): Effect.Effect<A, JournalError> =>
    Effect.flatMap(removal, work)

  const dropLane = (name: string) =>
    byOperator((why) => sliced(engine, () => BulkOperations.dropLane(engine, name, why)))

  const moveLane = Effect.fnUntraced(function* (from: string, to: string) {
    const moved = yield* byOperator((why) => sliced(engine, () => BulkOperations.moveLane(engine, from, to, why)))
    // A lane without a sink is not listed any more.
    if (!opened.has(from) && from !== to) yield* dropLane(from)
    return moved
  })

  /** A renamed sink stays paused, and nothing is left of the lane that it had. */
  const adopt = Effect.fnUntraced(function* (from: string, name: string) {
    yield* openOne(name)
    if (engine.lanes.backlogs.get(from)?.paused === true) yield* setPaused(name, true)
    opened.delete(from)
    yield* moveLane(from, name)
    return yield* openOne(name)
  })

  const readRetries = (lane: string, sequences: ReadonlyArray<number>) =>
    patient(() => {
      const read = engine.guard(() => engine.lanes.readRetries(lane, sequences))
      if (read.lost.length > 0) {
        engine.apply(() => allOf(read.lost.map((sequence) => engine.lanes.loseRetry(lane, sequence))))
      }
      return read
    })

  const status = Effect.sync((): JournalStatus => {
    const { usedBytes, walBytes, freeDiskBytes, filling, message } = engine.space
    const health =
      engine.brokenBy !== undefined
        ? "broken"
        : engine.isStarting
          ? "starting"
          : engine.space.refusal !== undefined
            ? "full"
            : engine.locked.message !== ""
              ? "unavailable"
              : engine.alarm.message !== ""
                ? "red"
                : "ok"
    const clockMessage = wallClock.trusted()
      ? ""
      : `The wall clock was set by ${Math.round(wallClock.drift() / 1000)} s: nothing is deleted by age until it agrees again or the relay restarts.`
    return {
      health,
      message: [engine.brokenBy?.message ?? "", message, engine.locked.message, engine.alarm.message, clockMessage]
        .filter((text) => text !== "")
        .join("\n"),
      alarm: {
        lines: engine.alarm.message === "" ? [] : engine.alarm.message.split("\n"),
        since: engine.alarm.since,
      },
      head: engine.head,
      first: engine.brokenBy === undefined ? (engine.log.oldestRow()?.first ?? engine.head + 1) : 0,
      usedBytes,
      maxBytes: options.maxSize,
      filling,
      counters: { ...engine.counters },
      engine: { path: options.path, walBytes, freeDiskBytes },
    }
  })

  return {
    appendUnsafe: (event, sinks) => engine.appendUnsafe(event, sinks),
    append: (event, sinks) =>
      Effect.callback<Appended, JournalError>((resume) => {
        const exit = engine.append(event, sinks, resume)
        if (exit !== undefined) resume(exit)
      }),
    read: (after, limit, reader) => attempt(() => engine.read(after, limit, reader)),
    settle: (settlements) =>
      started(
        Effect.callback<ReadonlyArray<RefusedSettlement>, JournalError>((resume) => {
          engine.settle(settlements, resume)
        }),
      ),
    head: Effect.sync(() => engine.head),
    awaitBeyond: (after) =>
      Effect.callback<void>((resume) => {
        if (engine.head > after) return resume(Effect.void)
        const cancel = engine.waiting.add(after, () => resume(Effect.void))
        return Effect.sync(cancel)
      }),
    lanes: started(
      attempt(() => {
        engine.flush()
        return [...engine.lanes.backlogs.values()]
          .map((backlog) => engine.lanes.info(backlog))
          .sort((a, b) => (a.name < b.name ? -1 : 1))
      }),
    ),
    openLane: (name, { renamedFrom } = {}) =>
      started(
        Effect.suspend(() =>
          renamedFrom !== undefined && renamedFrom !== name && engine.lanes.backlogs.has(renamedFrom)
            ? adopt(renamedFrom, name)
            : openOne(name),
        ),
      ),
    limitBacklog: (lane, max, maxBytes) =>
      started(
        Effect.sync(() => {
          const backlog = engine.lanes.backlogs.get(lane)
          if (backlog === undefined) return
          backlog.max = max ?? Number.POSITIVE_INFINITY
          backlog.maxBytes = maxBytes ?? Number.POSITIVE_INFINITY
        }),
      ),
    setPaused: (lane, paused) => started(setPaused(lane, paused)),
    moveLane: (from, to) => started(moveLane(from, to)),
    dropLane: (name) =>
      started(
        Effect.suspend(() => {
          opened.delete(name)
          return dropLane(name)
        }),
      ),
    readRetries,
    deadLetters: (query) => attempt(() => engine.guard(() => engine.lanes.deadLetters.query(query, readBytes))),
    replayDeadLetters: (ids, reroute) =>
      started(byOperator((why) => sliced(engine, () => BulkOperations.replayDeadLetters(engine, ids, reroute, why)))),
    dropDeadLetters: (ids) =>
      started(byOperator((why) => sliced(engine, () => BulkOperations.dropDeadLetters(engine, ids, why)))),
    replay: (targets) => started(byOperator((why) => patient(() => BulkOperations.replay(engine, targets, why)))),
    import: (journal, events) => started(attempt(() => importEvents(engine, journal, events))),
    events: (query) => Search.page(query, search),
    mayStart: () => true,
    end: Effect.sync(() => String(engine.head)),
    status,
    hour: StateFile.at(hourOf(options.path)),
    broken: Deferred.await(brokenSignal),
    acknowledge: patient(() => engine.acknowledge()),
  }
})

export const layer = (options: SqliteConfig): Layer.Layer<Journal | Archive, JournalError> =>
  Layer.effectContext(Effect.map(make(options), servicesOf))
