/** Limits the speed of a replay. */
import { Duration } from "effect"

/** Slices per second, so that a receiver doesn't get a whole second's events at once. */
const perSecond = 4

/** Returns the pace for a rate in events per second (default: no limit). */
export const paceOf = (rate = Number.POSITIVE_INFINITY) => ({
  /** Maximum events in a slice. */
  most: Math.max(1, Math.floor(rate / perSecond)),
  /** Returns the wait after a slice of this many events. */
  rest: (events: number): Duration.Duration => Duration.millis((events / rate) * 1000),
})
