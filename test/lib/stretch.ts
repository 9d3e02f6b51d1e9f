/** How long this thread holds what waits, by its own work, whatever else the machine does. */
import { Effect } from "effect"

/** Milliseconds for which this thread has worked. */
export const worked = (): number => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}

/** The longest stretch of work, in milliseconds, for which whatever waits has to wait during `effect`. */
export const longestStretch = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<number, E, R> =>
  Effect.gen(function* () {
    let longest = 0
    let before = worked()
    let isRunning = true
    const turn = () => {
      longest = Math.max(longest, worked() - before)
      if (isRunning) setImmediate(turn)
      before = worked()
    }
    setImmediate(turn)
    yield* Effect.ensuring(
      effect,
      Effect.sync(() => {
        isRunning = false
        turn()
      }),
    )
    return longest
  })
