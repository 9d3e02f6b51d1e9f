/**
 * The monotonic clock. Durations within one run of the process are measured by
 * it, so setting the wall clock neither shortens nor extends them.
 */
import { Clock, Effect } from "effect"
import type { Millis } from "./Quantities.ts"

/** The time since a point of no meaning. */
export const millis = (clock: Clock.Clock): Millis => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

/** `millis` of the clock in force. */
export const now: Effect.Effect<Millis> = Effect.map(Clock.Clock, millis)

type Outside = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/**
 * Effect's pools and caches measure durations by the wall clock. In `use` they
 * measure by the monotonic clock; `outside` gives an effect both clocks again.
 */
export const measured = <A, E, R>(use: (outside: Outside) => Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Clock.Clock, (clock) => {
    const time = () => millis(clock)
    const only: Clock.Clock = Object.create(clock, {
      currentTimeMillisUnsafe: { value: time },
      currentTimeMillis: { value: Effect.sync(time) },
    })
    return Effect.provideService(
      use((effect) => Effect.provideService(effect, Clock.Clock, clock)),
      Clock.Clock,
      only,
    )
  })
