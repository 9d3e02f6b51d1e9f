/** Opens the engine for the length of a scope, and reads the state in memory at the start. */
import { dirname } from "node:path"
import { Clock, Duration, Effect, Latch, Schedule, type Scope } from "effect"
import { eventLoop } from "../../../event/EventLoop.ts"
import { repeating } from "../../../event/Rounds.ts"
import { diskOfOpen } from "../../../runtime/FileSystem.ts"
import { type JournalBroken, JournalError } from "../../JournalError.ts"
import { Passing } from "../../stream/Backlog.ts"
import { slice } from "../../stream/BulkSlices.ts"
import { expiredBefore, type WallClock } from "../../WallClock.ts"
import { Engine } from "../commit/Engine.ts"
import { isLocked } from "../commit/ForeignLock.ts"
import { maxLogBytes } from "../file/Checkpoints.ts"
import { classify } from "../file/SqliteFailure.ts"
import { open } from "../file/Store.ts"
import { prune, sweep } from "../operations/Retention.ts"
import { scan } from "../operations/StartupScan.ts"
import { isCorrupt } from "../rows/SqliteConnection.ts"
import type { SqliteConfig } from "../SqliteConfig.ts"

/** Milliseconds that the start reads before anything else runs: a small journal is ready at once. */
const startSlice = 20

const makeEngine = (options: SqliteConfig): Engine => {
  const store = open(options.path)
  try {
    return new Engine(store, options)
  } catch (error) {
    if (isCorrupt(error)) store.mark.damaged()
    store.close()
    throw classify(options.path, error)
  }
}

/** The engine on the journal's file; closed with its last commit and a checkpoint. */
export const openEngine = (options: SqliteConfig): Effect.Effect<Engine, JournalError, Scope.Scope> =>
  Effect.acquireRelease(
    attempt(() => makeEngine(options)),
    (engine) =>
      Effect.sync(() => {
        engine.stop()
        if (engine.brokenBy === undefined) engine.checkpoints.run()
        engine.store.close()
      }),
  ).pipe(
    Effect.tap(({ store }) => Effect.forEach(store.notes, (note) => Effect.logWarning(note), { discard: true })),
    Effect.tap(({ store: { path } }) => {
      const volatility = diskOfOpen(dirname(path))?.volatility
      return volatility === undefined
        ? Effect.void
        : Effect.logWarning(`The journal ${path} is on ${volatility}: what is accepted doesn't outlive that`)
    }),
  )

/** Starts the engine, in slices. The latch opens when it is ready or broken. Fails if the first slice fails. */
export const start = Effect.fnUntraced(function* (
  engine: Engine,
  options: SqliteConfig,
  onBroken: (error: JournalBroken) => void,
): Effect.fn.Return<Latch.Latch, JournalError, Scope.Scope> {
  const ready = Latch.makeUnsafe(false)
  engine.onBroken = (error) => {
    onBroken(error)
    ready.openUnsafe()
  }
  const steps = scan(engine, options, yield* Clock.currentTimeMillis)
  const slice = attempt(() => {
    const deadline = performance.now() + startSlice
    try {
      while (steps.next().done !== true) if (performance.now() > deadline) return false
    } catch (error) {
      throw engine.failed(error)
    }
    ready.openUnsafe()
    return true
  })
  if (yield* slice) return ready
  yield* Effect.repeat(Effect.andThen(eventLoop.turn, slice), { until: (done) => done }).pipe(
    // Without lanes and duplicates it can't go on.
    Effect.catch((error) => Effect.sync(() => engine.breakDown(error.message))),
    Effect.forkScoped,
  )
  return ready
})

/** How often room and age are checked, in milliseconds; sooner while there is more to prune, or room gets tight. */
const inspectEvery = 250
const pruneAgainAfter = 20
/** How often, while nothing is written and there is room. */
const inspectIdleEvery = 1_000
/** Passes of pruning for an append that finds no room: on a busy machine a pass removes one row. */
const passesWhenFull = 8

/** Runs until it is interrupted, or the journal breaks. */
export const keepRoom = Effect.fnUntraced(function* (
  engine: Engine,
  retention: Duration.Duration,
  wallClock: WallClock,
  onWritten: () => void,
): Effect.fn.Return<never> {
  const clock = yield* Clock.Clock
  const passing = new Passing()
  const tight = Latch.makeUnsafe(false)
  engine.space.onTight = () => tight.openUnsafe()
  const written = Latch.makeUnsafe(false)
  engine.onWrite = () => written.openUnsafe()
  /** The value of `engine.writes` when the worker was last notified. */
  let known = 0
  engine.space.onFull = () => {
    try {
      for (let pass = 0; pass < passesWhenFull && engine.space.refusal !== undefined; pass++) {
        const more = prune(engine, 0)
        engine.space.look()
        if (!more) break
      }
    } catch (error) {
      engine.failed(error)
    }
  }
  const inspect = Effect.suspend(() => {
    if (engine.brokenBy !== undefined) return Effect.never
    let more = false
    try {
      engine.inspect()
      if (!engine.isStarting && passing.isDue(engine.head, performance.now())) engine.passIdle()
      // With the first commit, or where pruning or an operation on a lane has made the write-ahead log long.
      const needsWorker = engine.counters.commits > 0 || engine.space.walBytes > maxLogBytes
      if (needsWorker && engine.writes !== known) {
        known = engine.writes
        onWritten()
      }
      if (!engine.isStarting) {
        const before = expiredBefore(wallClock, clock.currentTimeMillisUnsafe(), Duration.toMillis(retention))
        const swept = sweep(engine)
        more = prune(engine, before) || swept
      }
    } catch (error) {
      engine.failed(error)
    }
    tight.closeUnsafe()
    written.closeUnsafe()
    if (more) return Effect.sleep(pruneAgainAfter)
    const soon = Effect.sleep(inspectEvery)
    const idle = Effect.raceFirst(Effect.andThen(written.await, soon), Effect.sleep(inspectIdleEvery))
    const rest = engine.space.refusal === undefined ? idle : soon
    return Effect.raceFirst(Effect.andThen(tight.await, Effect.sleep(pruneAgainAfter)), rest)
  })
  return yield* repeating("looking after room and age", inspect)
})

// The engine's synchronous work as effects.

/** Delays an effect until the journal has loaded its state, or is broken. */
export type Started = <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>

/** Fails with the `JournalError` that `work` throws. Anything else is a bug. */
export const attempt = <A>(work: () => A): Effect.Effect<A, JournalError> =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(work())
    } catch (error) {
      return error instanceof JournalError ? Effect.fail(error) : Effect.die(error)
    }
  })

/** Repeats work for five seconds while another process holds the file. */
export const patient = <A>(work: () => A): Effect.Effect<A, JournalError> =>
  Effect.retry(attempt(work), {
    while: isLocked,
    schedule: Schedule.max([Schedule.spaced("20 millis"), Schedule.recurs(250)]),
  })

/** Maximum entries of a slice, which holds the event loop: while deliveries arrive, a slice is shorter. */
export const entriesInSlice = (): number => (eventLoop.isShared ? 16 : slice.entries)

/** Runs a slice that does not suspend, and then waits for a turn of the event loop that has time. */
export const inOneTurn = <A>(engine: Engine, work: Effect.Effect<A, JournalError>): Effect.Effect<A, JournalError> =>
  patient(() => {
    // Deliveries of the open batch are stored or refused before a slice looks for them.
    engine.flush(true)
    return Effect.runSync(work)
  }).pipe(Effect.tap(() => eventLoop.turn))

/** Runs an operation step by step. Other work runs between the steps. */
export const sliced = <A>(engine: Engine, steps: () => Generator<void, A>): Effect.Effect<A, JournalError> =>
  Effect.acquireUseRelease(
    Effect.sync(steps),
    (generator) =>
      attempt(() => engine.guard(() => generator.next())).pipe(
        Effect.tap(() => eventLoop.turn),
        Effect.repeat({ until: ({ done }) => done === true }),
        Effect.map(({ value }) => value as A),
      ),
    // An interrupted operation may hold a resource.
    (generator) => Effect.sync(() => generator.return(undefined as A)),
  )
