/**
 * The monotonic clock. Durations within one run of the process use it, so that
 * setting the wall clock doesn't change them.
 */
import { Clock, Effect } from "effect"
import type { Millis } from "./Quantities.ts"

/** Returns the time since an arbitrary point. */
export const millis = (clock: Clock.Clock): Millis => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

/** `millis` of the current clock. */
export const now: Effect.Effect<Millis> = Effect.map(Clock.Clock, millis)

type Outside = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/**
 * Effect's pools and caches measure durations by the wall clock. Within `use`, they
 * use the monotonic clock instead. `outside` restores both clocks for an effect.
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
