/** Checks room and age, prunes the log, and starts the worker once there is work for it. */
import { Clock, Duration, Effect, Latch } from "effect"
import { repeating } from "../../../event/Rounds.ts"
import { Passing } from "../../stream/Backlogs.ts"
import { expiredBefore, type WallClock } from "../../WallClock.ts"
import type { Engine } from "../commit/Engine.ts"
import { maxLogBytes } from "../file/Checkpoints.ts"
import { prune, sweep } from "../operations/Retention.ts"

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
  /** The engine's writes that the worker knows of. */
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
