/** How fast a replay goes at most. */
import { Duration } from "effect"

/** Slices a second, so that a receiver gets no burst of a whole second. */
const perSecond = 4

/** The pace of a rate in events a second; without a rate, no limit. */
export const paceOf = (rate = Number.POSITIVE_INFINITY) => ({
  /** The most events of a slice. */
  most: Math.max(1, Math.floor(rate / perSecond)),
  /** The rest after a slice of this many events. */
  rest: (events: number): Duration.Duration => Duration.millis((events / rate) * 1000),
})
