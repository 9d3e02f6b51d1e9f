/** Checks room and age, prunes the log, and starts the worker once there is work for it. */
import { Clock, Duration, Effect, Latch } from "effect"
import { repeating } from "../../../event/Rounds.ts"
import type { WallClock } from "../../WallClock.ts"
import type { Engine } from "../commit/Engine.ts"
import { passAfter, passEvery } from "../commit/LaneStore.ts"
import { maxLogBytes } from "../file/Checkpoints.ts"
import { prune, sweep } from "../operations/Retention.ts"

/** How often room and age are checked, in milliseconds; sooner while there is more to prune, or room gets tight. */
const inspectEvery = 250
const pruneAgainAfter = 20
/** Passes of pruning for an append that finds no room: on a busy machine a pass removes one row. */
const passesWhenFull = 8

/** Has the cursors of idle lanes follow the head now and then: a search and a start begin at the lowest cursor. */
const passingIdle = () => {
  let [head, at] = [0, performance.now()]
  return (engine: Engine): void => {
    const now = performance.now()
    if (engine.isStarting || (engine.head < head + passAfter && now < at + passEvery)) return
    ;[head, at] = [engine.head, now]
    engine.passIdle()
  }
}

/** Runs until it is interrupted, or the journal breaks. */
export const keepRoom = Effect.fnUntraced(function* (
  engine: Engine,
  retention: Duration.Duration,
  wallClock: WallClock,
  needWorker: () => void,
): Effect.fn.Return<never> {
  const clock = yield* Clock.Clock
  const passIdle = passingIdle()
  const tight = Latch.makeUnsafe(false)
  engine.space.onTight = () => tight.openUnsafe()
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
      passIdle(engine)
      // With the first commit, or where pruning or an operation on a lane has made the write-ahead log long.
      if (engine.counters.commits > 0 || engine.space.walBytes > maxLogBytes) needWorker()
      if (!engine.isStarting) {
        const before = wallClock.trusted() ? clock.currentTimeMillisUnsafe() - Duration.toMillis(retention) : 0
        const swept = sweep(engine)
        more = prune(engine, before) || swept
      }
    } catch (error) {
      engine.failed(error)
    }
    tight.closeUnsafe()
    const idle = Effect.raceFirst(tight.await, Effect.sleep(inspectEvery - pruneAgainAfter))
    return Effect.andThen(Effect.sleep(pruneAgainAfter), more ? Effect.void : idle)
  })
  return yield* repeating("looking after room and age", inspect)
})
