import { Clock, Effect } from "effect"

/** The clock in force, with a wall clock that a test sets: `ahead` is by how many milliseconds it is ahead. */
export const settable = Effect.map(Clock.Clock, (clock) => {
  const wall = { ahead: 0 }
  const now = () => clock.currentTimeMillisUnsafe() + wall.ahead
  const set: Clock.Clock = { ...clock, currentTimeMillisUnsafe: now, currentTimeMillis: Effect.sync(now) }
  return { wall, now, withWall: Effect.provideService(Clock.Clock, set) }
})

export const hour = 3_600_000
