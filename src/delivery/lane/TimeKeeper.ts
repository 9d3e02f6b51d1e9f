/**
 * When a lane looks at its deadlines and waits: 40 times a second while
 * something is in flight, at the next time while all that it has waits for one,
 * and not at all while it has nothing.
 *
 * A lane whose only event waits an hour for its retry would otherwise wake up
 * 144,000 times for it.
 */
import { Effect, Latch } from "effect"

/** Milliseconds between two looks at deadlines. */
export const tick = 25
/** Milliseconds between two looks at most, so that a time that was not foreseen is late by no more. */
const longestRest = 1_000

export class TimeKeeper {
  /** Milliseconds for which there is nothing to do unless the pump runs. */
  readonly #rest: () => number
  /** Does what it is time for. False when there is nothing left to watch. */
  readonly #look: () => boolean
  readonly #watching = Latch.makeUnsafe(false)
  /** Open once the pump has run: what the lane waits for may have changed. */
  readonly #pumped = Latch.makeUnsafe(false)

  constructor(rest: () => number, look: () => boolean) {
    this.#rest = rest
    this.#look = look
  }

  /** The pump has run, and there may be something to watch. */
  pumped(watch: boolean): void {
    if (watch) this.#watching.openUnsafe()
    this.#pumped.openUnsafe()
  }

  get run(): Effect.Effect<never> {
    const rested = Effect.suspend(() => {
      this.#pumped.closeUnsafe()
      const rest = Math.min(Math.max(tick, Math.ceil(this.#rest())), longestRest)
      const slept = Effect.as(Effect.sleep(rest), true)
      return rest === tick ? slept : Effect.raceFirst(slept, Effect.as(this.#pumped.await, false))
    })
    const next = Effect.gen({ self: this }, function* () {
      yield* this.#watching.await
      if ((yield* rested) && !this.#look()) this.#watching.closeUnsafe()
    })
    return Effect.forever(next)
  }
}
