/** Opens the engine for the length of a scope, and reads the state in memory at the start. */
import { Clock, Effect, Latch, type Scope } from "effect"
import type { JournalBroken, JournalError } from "../../JournalError.ts"
import { Engine } from "../commit/Engine.ts"
import { classify } from "../file/SqliteFailure.ts"
import { open } from "../file/Store.ts"
import { scan } from "../operations/StartupScan.ts"
import { isCorrupt } from "../rows/SqliteErrors.ts"
import type { SqliteConfig } from "../SqliteConfig.ts"
import { attempt, macrotask } from "./EngineEffects.ts"

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
  ).pipe(Effect.tap(({ store }) => Effect.forEach(store.notes, (note) => Effect.logWarning(note), { discard: true })))

/** Starts the engine, in slices. The latch opens when it is ready or broken. Fails where the first slice does. */
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
  yield* Effect.repeat(Effect.andThen(macrotask, slice), { until: (done) => done }).pipe(
    // Without lanes and duplicates it can't go on.
    Effect.catch((error) => Effect.sync(() => engine.breakDown(error.message))),
    Effect.forkScoped,
  )
  return ready
})
