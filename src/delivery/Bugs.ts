/** A bug in relay: it is logged, and what it ended begins again after a wait, for a bug that an event sets off comes again. */
import { type Cause, Effect } from "effect"

const firstWait = 1_000
const longestWait = 60_000
const resetAfter = 600_000

/** The waits after the bugs of one thing, in milliseconds: doubled each time, and from the first again after ten minutes without one. */
export class BugWaits {
  /** How many bugs came in a row. */
  inARow = 0

  /** The wait after a bug that came after so many milliseconds without one. */
  next(without: number): number {
    this.inARow = without > resetAfter ? 1 : this.inARow + 1
    return Math.min(firstWait * 2 ** (this.inARow - 1), longestWait)
  }
}

export const logBug = (what: string, cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  Effect.logError(`a bug in relay: ${what}`, cause)
