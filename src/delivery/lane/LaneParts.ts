/** The parts of a lane that its steps share. Each step names those that it needs. */
import type { Cause } from "effect"
import type { LaneConfig } from "../../config/Config.ts"
import type { Entry } from "../../event/Entry.ts"
import type { Log } from "../../journal/Journal.ts"
import type { Sink } from "../../sinks/Sink.ts"
import type { CircuitBreaker } from "./CircuitBreaker.ts"
import type { LaneClock } from "./LaneClock.ts"
import type { LaneState } from "./LaneState.ts"
import type { Progress } from "./Progress.ts"
import type { Queue } from "./Queue.ts"
import type { RejectionRate } from "./RejectionRate.ts"
import type { Suspects } from "./Suspects.ts"

/** A lane's reports, as they happen. */
export interface LaneEvents {
  readonly deadLettered: (entry: Entry, reason: string, message: string) => void
  readonly paused: (reason: string, message: string) => void
  readonly resumed: () => void
  /** Progress should be stored now, not at the next interval. */
  readonly settle: () => void
  /** A bug, for the log. */
  readonly defect: (cause: Cause.Cause<unknown>) => void
}

export interface LaneParts {
  readonly config: LaneConfig
  readonly sink: Sink
  readonly log: Log
  readonly events: LaneEvents
  /** The order key of an event, or the group of its digest; only called where the lane keeps either. It may throw `Unrenderable`. */
  readonly key: (entry: Entry) => string
  readonly clock: LaneClock
  readonly progress: Progress
  readonly queue: Queue
  readonly breaker: CircuitBreaker
  /** Absent where rejections don't block the lane. */
  readonly rejections: RejectionRate | undefined
  readonly suspects: Suspects
  readonly state: LaneState
  readonly random: () => number
  /** False while the wall clock can't be trusted: no event is too old then. */
  readonly wallClockTrusted: () => boolean
}
