/** Counts the turns of the event loop while an effect works. */
import { Effect } from "effect"

export const countTurns = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    let turns = 0
    let isRunning = true
    const turn = () => {
      turns += 1
      if (isRunning) setImmediate(turn)
    }
    setImmediate(turn)
    const result = yield* Effect.ensuring(
      effect,
      Effect.sync(() => {
        isRunning = false
      }),
    )
    return { result, turns }
  })
