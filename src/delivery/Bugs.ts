/**
 * Logs bugs in the relay and decides how long to wait before the failed part
 * restarts. A bug that an event triggers would recur immediately without the wait.
 */
import { type Cause, Effect } from "effect"

const firstWait = 1_000
const longestWait = 60_000
const resetAfter = 600_000

/**
 * The waits after repeated bugs of one part, in milliseconds. Each wait is twice the
 * last; after ten minutes without a bug they start again from the first.
 */
export class BugWaits {
  /** The number of bugs in a row. */
  inARow = 0

  /** Returns the wait after a bug; `without` is the time since the previous one, in milliseconds. */
  next(without: number): number {
    this.inARow = without > resetAfter ? 1 : this.inARow + 1
    return Math.min(firstWait * 2 ** (this.inARow - 1), longestWait)
  }
}

export const logBug = (what: string, cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  Effect.logError(`internal error: ${what}; please report it`, cause)
