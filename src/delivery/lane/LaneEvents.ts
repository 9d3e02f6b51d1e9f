/** The events that a lane reports. `Announcements.ts` turns them into log lines and own events. */
import type { Cause } from "effect"
import type { Entry } from "../../event/Entry.ts"

export interface LaneEvents {
  readonly deadLettered: (entry: Entry, reason: string, message: string) => void
  readonly paused: (reason: string, message: string) => void
  readonly resumed: () => void
  /** The lane did something: it may have work, and progress to store. */
  readonly active: () => void
  /** Progress should be stored now, not at the next interval. */
  readonly settle: () => void
  /** A bug, for the log. */
  readonly defect: (cause: Cause.Cause<unknown>) => void
}
