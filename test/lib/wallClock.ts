import { Clock, Effect } from "effect"

/** The current clock with a wall clock that a test sets. `ahead` is its error in milliseconds. */
export const settable = Effect.map(Clock.Clock, (clock) => {
  const wall = { ahead: 0 }
  const now = () => clock.currentTimeMillisUnsafe() + wall.ahead
  const set: Clock.Clock = { ...clock, currentTimeMillisUnsafe: now, currentTimeMillis: Effect.sync(now) }
  return { wall, now, withWall: Effect.provideService(Clock.Clock, set) }
})

export const hour = 3_600_000
