/**
 * When to try again: exponential backoff with full jitter, so that a thousand
 * events which failed together don't come back together.
 */
import { Duration } from "effect"
import type { Delivery } from "../../config/Config.ts"

/** A sink that asks for a longer wait is not obeyed, in milliseconds. */
const maxThrottle = 3_600_000

/** A random delay in milliseconds after the `failures`th failure in a row (from 1); `random` is in [0, 1). */
export const backoff = (retry: Delivery["retry"], failures: number, random: number): number => {
  const ceiling = Math.min(
    Duration.toMillis(retry.max),
    Duration.toMillis(retry.initial) * 2 ** Math.min(failures - 1, 40),
  )
  return Math.ceil(random * ceiling)
}

/** How long to wait for a sink that asks to be left alone for so many milliseconds. */
export const throttled = (retryAfter: number): number => Math.min(retryAfter, maxThrottle)

/**
 * How long a stored wait still lasts, in milliseconds. Never longer than it was
 * meant to be, so a wall clock that went back can't hold an event for years.
 */
export const remaining = (due: number, delay: number, now: number): number => Math.min(Math.max(due - now, 0), delay)
