/**
 * The journal on SQLite (`node:sqlite`, WAL, `synchronous=FULL`): the embedded
 * default.
 *
 * **Guarantee.** As `Journal` states it. One fsync acknowledges every append
 * that waited for it, and takes the lanes' settlements along.
 *
 * **Gotchas.** SQLite is synchronous: a commit holds the event loop for the
 * length of an fsync (0.3 to 3 ms on a good disk). The layer fails when another
 * relay holds the journal, or when a newer one wrote it. After `broken` the
 * process must end: nothing in it can be trusted with the file any more.
 */
import { Clock, Deferred, Duration, Effect, Latch, Layer, type Scope } from "effect"
import {
  type Appended,
  type EventQuery,
  Journal,
  type JournalBroken,
  JournalError,
  type JournalStatus,
} from "../Journal.ts"
import * as WallClock from "../WallClock.ts"
import { Backlog } from "./Backlog.ts"
import { Engine, type Options } from "./Engine.ts"
import { classify, isCorrupt } from "./file/SqliteErrors.ts"
import { open } from "./file/Store.ts"
import { importOwed } from "./Import.ts"
import * as Checkpointer from "./JournalWorker.ts"
import * as Handover from "./Reappend.ts"
import { recover } from "./Restore.ts"
import { prune, sweep } from "./Retention.ts"
import * as Search from "./search/Search.ts"

/** How often room and age are looked at, in milliseconds; sooner while there is more to prune, or room gets tight. */
const lookEvery = 250
const pruneAgainAfter = 20
/** The start reads this long before it lets anything else run, in milliseconds: a small journal is ready at once. */
const startSlice = 20
/** As long may a search hold the event loop, in milliseconds, where no worker does it. */
const searchSlice = 5

const macrotask = Effect.callback<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})

/** Work on the engine, with its errors where they belong. Anything but a `JournalError` is a bug. */
const attempt = <A>(work: () => A): Effect.Effect<A, JournalError> =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(work())
    } catch (error) {
      return error instanceof JournalError ? Effect.fail(error) : Effect.die(error)
    }
  })

/** Runs a sliced work to its end; other work comes in between. */
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
  options: Options,
): Effect.fn.Return<Journal["Service"], JournalError, Scope.Scope> {
  const clock = yield* Clock.Clock
  const entry = yield* Checkpointer.WorkerEntrypoint
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
        if (engine.brokenBy === undefined) engine.checkpoint()
        engine.store.close()
      }),
  )

  const brokenSignal = Deferred.makeUnsafe<never, JournalBroken>()
  const ready = Latch.makeUnsafe(false)
  engine.onBroken = (error) => {
    Deferred.doneUnsafe(brokenSignal, Effect.fail(error))
    ready.openUnsafe()
  }

  // Start: what is held is read back.
  const recovery = recover(engine, options, now())
  const recoverUntil = (deadline: number): boolean => {
    while (recovery.next().done !== true) if (performance.now() > deadline) return false
    ready.openUnsafe()
    return true
  }
  const recoverSome = attempt(() => {
    try {
      return recoverUntil(performance.now() + startSlice)
    } catch (error) {
      throw engine.failed(error)
    }
  })
  if (!(yield* recoverSome)) {
    yield* Effect.repeat(Effect.andThen(macrotask, recoverSome), { until: (done) => done }).pipe(
      // Without it nothing is known of lanes and duplicates, so there is no going on.
      Effect.catch((error) => Effect.sync(() => engine.breakDown(error.message))),
      Effect.forkScoped,
    )
  }

  // Checkpoints and searches.
  let checkpointer: Checkpointer.JournalWorker | undefined
  if (entry !== undefined) {
    checkpointer = yield* Effect.acquireRelease(
      Effect.sync(() =>
        Checkpointer.start(entry, engine.store.path, {
          pass: (frames) => engine.checkpointed(frames),
          failure: (message, code) => engine.checkpointFailed(message, code),
        }),
      ),
      (checkpointer) => Effect.promise(checkpointer.stop),
    )
  }
  engine.ownCheckpoints = entry === undefined
  const ownSearch = yield* attempt(() => engine.guard(() => new Search.Search(engine.store.db)))
  const search = Effect.fnUntraced(function* (query: EventQuery) {
    const page = yield* Effect.tryPromise({
      try: async () => engine.guard(() => checkpointer?.search(query)),
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
  const look = Effect.suspend(() => {
    if (engine.brokenBy !== undefined) return Effect.never
    let more = false
    try {
      engine.look()
      if (!engine.isStarting) {
        const swept = sweep(engine)
        more = prune(engine, wallClock.trusted() ? now() - retention : 0) || swept
      }
    } catch (error) {
      engine.failed(error)
    }
    tight.closeUnsafe()
    const idle = Effect.raceFirst(tight.await, Effect.sleep(lookEvery - pruneAgainAfter))
    return Effect.andThen(Effect.sleep(pruneAgainAfter), more ? Effect.void : idle)
  })
  yield* Effect.forkScoped(Effect.forever(look))

  const started = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> => ready.whenOpen(effect)
  const opened = new Set<string>()

  const openOne = (name: string) =>
    attempt(() => {
      engine.flush()
      const known = engine.lanes.backlogs.get(name)
      const backlog = known ?? new Backlog(name, { sequence: engine.head, settled: [] })
      if (known === undefined) {
        engine.exclusively(() => {
          engine.lanes.insert(name, engine.head)
          return { result: undefined, committed: () => engine.lanes.backlogs.set(name, backlog) }
        })
      }
      opened.add(name)
      const { pausedFor } = backlog
      return { ...engine.lanes.state(backlog), pausedFor, retries: engine.lanes.retries(name) }
    })

  const setPaused = (lane: string, paused: boolean) =>
    attempt(() => engine.exclusively(() => ({ result: undefined, committed: engine.lanes.setPaused(lane, paused) })))

  const dropLane = (name: string) => sliced(engine, () => Handover.dropLane(engine, name))

  const moveLane = Effect.fnUntraced(function* (from: string, to: string) {
    const moved = yield* sliced(engine, () => Handover.moveLane(engine, from, to))
    // One that nobody sends from has no reason to be listed any more.
    if (!opened.has(from) && from !== to) yield* dropLane(from)
    return moved
  })

  /** A renamed sink: who paused it paused it by whatever name. */
  const adopt = Effect.fnUntraced(function* (from: string, name: string) {
    yield* openOne(name)
    if (engine.lanes.backlogs.get(from)?.paused === true) yield* setPaused(name, true)
    yield* moveLane(from, name)
    return yield* openOne(name)
  })

  const readRetries = (lane: string, sequences: ReadonlyArray<number>) =>
    attempt(() => {
      const read = engine.guard(() => engine.lanes.readRetries(lane, sequences))
      if (read.lost.length > 0) {
        engine.exclusively(() => {
          const committed = read.lost.map((sequence) => engine.lanes.forget(lane, sequence))
          return {
            result: undefined,
            committed: () => {
              for (const apply of committed) apply()
            },
          }
        })
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
            : engine.alarm.message !== ""
              ? "red"
              : "ok"
    const clockMessage = wallClock.trusted()
      ? ""
      : `The wall clock was set by ${Math.round(wallClock.drift() / 1000)} s: nothing is deleted by age until it agrees again or the relay restarts.`
    return {
      health,
      message: [engine.brokenBy?.message ?? "", message, engine.alarm.message, clockMessage]
        .filter((text) => text !== "")
        .join("\n"),
      red: {
        lines: engine.alarm.message === "" ? [] : engine.alarm.message.split("\n"),
        since: engine.alarm.since,
      },
      head: engine.head,
      tail: engine.brokenBy === undefined ? (engine.log.oldestRow()?.first ?? engine.head + 1) : 0,
      usedBytes,
      maxBytes: options.maxSize,
      walBytes,
      freeDiskBytes,
      path: options.path,
      filling,
      counters: { ...engine.counters },
    }
  })

  return Journal.of({
    appendUnsafe: (event, sinks) => engine.appendUnsafe(event, sinks),
    append: (event, sinks) =>
      Effect.callback<Appended, JournalError>((resume) => {
        const exit = engine.append(event, sinks, resume)
        if (exit !== undefined) resume(exit)
      }),
    read: (after, limit) => attempt(() => engine.read(after, limit)),
    settle: (settlements) =>
      started(
        Effect.callback<void, JournalError>((resume) => {
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
          .map((backlog) => engine.lanes.state(backlog))
          .sort((a, b) => (a.name < b.name ? -1 : 1))
      }),
    ),
    openLane: (name, renamedFrom) =>
      started(
        Effect.suspend(() =>
          renamedFrom !== undefined && renamedFrom !== name && engine.lanes.backlogs.has(renamedFrom)
            ? adopt(renamedFrom, name)
            : openOne(name),
        ),
      ),
    limitBacklog: (lane, max) =>
      started(
        Effect.sync(() => {
          const backlog = engine.lanes.backlogs.get(lane)
          if (backlog !== undefined) backlog.max = max ?? Number.POSITIVE_INFINITY
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
    deadLetters: (query) => attempt(() => engine.guard(() => engine.lanes.deadLetters(query))),
    replayDeadLetters: (ids, reroute) =>
      started(sliced(engine, () => Handover.replayDeadLetters(engine, ids, reroute))),
    dropDeadLetters: (ids) => started(sliced(engine, () => Handover.dropDeadLetters(engine, ids))),
    replay: (query) => started(sliced(engine, () => Handover.replay(engine, query))),
    import: (journal, owed) => started(attempt(() => importOwed(engine, journal, owed))),
    events: (query) => Search.page(query, search),
    status,
    broken: Deferred.await(brokenSignal),
    acknowledge: attempt(() => engine.acknowledge()),
  })
})

export const layer = (options: Options): Layer.Layer<Journal, JournalError> => Layer.effect(Journal, make(options))
