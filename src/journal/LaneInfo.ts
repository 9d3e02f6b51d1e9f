/** The journal's view of a lane, and of the events that it keeps for it. */
import type { Entry } from "../event/Entry.ts"
import type { Attempt, Cursor, Wait } from "./Settlement.ts"

/** The journal's knowledge of a lane. */
export interface LaneInfo {
  readonly name: string
  readonly cursor: Cursor
  /** How many events wait for a retry. */
  readonly retrying: number
  /** Replayed dead letters that the lane has yet to take up. */
  readonly returned: number
  readonly deadLetters: number
  /** Their events and attempts, with what was answered. */
  readonly deadLetterBytes: number
  /** Events routed to it and not settled: in the log above the cursor, waiting for a retry, or returned. */
  readonly backlog: number
  /** The lowest sequence of these events; 0 when there is none. */
  readonly oldest: number
  /** Paused by a person (`lanes pause`), across restarts. */
  readonly paused: boolean
}

/** A lane as it is opened, with its retries; `readRetries` reads their bytes. */
export interface OpenedLane extends LaneInfo {
  /** How long it was paused in all, in milliseconds. */
  readonly pausedFor: number
  readonly retries: ReadonlyArray<Retry>
}

/** A dead letter that was replayed: it waits among the retries until its lane takes it up. */
export interface Returned {
  readonly sequence: number
  /** How many attempts it had before. */
  readonly attempts: number
}

/** The delay of a retry that its lane has yet to take up: only the lane knows its order key. */
export const returnedDelay = -1

/** A dead letter as it waits for its lane from `now` on, in epoch milliseconds. */
export const returning = (sequence: number, now: number): Wait => ({
  ...{ sequence, key: "", due: Math.round(now), delay: returnedDelay, firstAttemptAt: 0, tried: 0 },
})

export interface RetryEntries {
  /** In the order asked for. */
  readonly entries: ReadonlyArray<Entry>
  /** Dead letters whose bytes are not what was written: they are lost, and removed. */
  readonly lost: ReadonlyArray<number>
}

export interface DeadLetterQuery {
  readonly lane?: string
  /** A pattern of event types. */
  readonly type?: string
  /** Only older than this id, for paging. Newest first. */
  readonly before?: string
  readonly limit: number
}

/** An event that waits for a retry, as the journal keeps it. */
export interface Retry extends Wait {
  /** The reason of its newest failed attempt, e.g. `DeliveryFailed`; empty when there is none. */
  readonly lastFailure: string
}

export interface StoredDeadLetter {
  /** Identifies it on the command line: the lane and the sequence, `lake:42`. */
  readonly id: string
  readonly lane: string
  readonly sequence: number
  /** Epoch milliseconds. */
  readonly at: number
  readonly attempts: ReadonlyArray<Attempt>
  readonly entry: Entry
}
