/**
 * Decides when a lane checks its deadlines: 40 times a second while an attempt is in
 * flight, at the next deadline if all its events wait, and never while it has no
 * events.
 *
 * Otherwise, a lane with one event that waits an hour for its retry would wake up
 * 144,000 times.
 */
import { Effect, Latch } from "effect"

/** Milliseconds between two checks of deadlines. */
export const tick = 25
/** Maximum milliseconds between two checks, which limits how late an unexpected deadline is noticed. */
const longestRest = 1_000

export class TimeKeeper {
  /** Returns the milliseconds until the next deadline, unless the pump runs earlier. */
  readonly #rest: () => number
  /** Checks deadlines. Returns false if there is nothing left to watch. */
  readonly #look: () => boolean
  readonly #watching = Latch.makeUnsafe(false)
  /** Open once the pump has run, because the lane's next deadline may have changed. */
  readonly #pumped = Latch.makeUnsafe(false)

  constructor(rest: () => number, look: () => boolean) {
    this.#rest = rest
    this.#look = look
  }

  /** Called after the pump has run. `watch` says whether there may be deadlines. */
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
