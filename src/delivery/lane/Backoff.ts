/** Exponential backoff with full jitter, so that a thousand events that failed together are not retried together. */
import { Duration } from "effect"
import type { Delivery } from "../../config/Config.ts"

/** The longest wait that a sink may request, in milliseconds. */
const maxThrottle = 3_600_000

/**
 * Returns a random delay in milliseconds. `failures` is the number of failures in a
 * row, from 1; `random` is in [0, 1).
 */
export const backoff = (retry: Delivery["retry"], failures: number, random: number): number => {
  const ceiling = Math.min(
    Duration.toMillis(retry.max),
    Duration.toMillis(retry.initial) * 2 ** Math.min(failures - 1, 40),
  )
  return Math.ceil(random * ceiling)
}

/** Returns how long to wait if a sink requests `retryAfter` milliseconds. */
export const throttled = (retryAfter: number): number => Math.min(retryAfter, maxThrottle)

/**
 * Returns the rest of a stored wait, in milliseconds. It is never longer than the
 * original delay, so a wall clock that was set back can't delay an event for years.
 */
export const remaining = (due: number, delay: number, now: number): number => Math.min(Math.max(due - now, 0), delay)
