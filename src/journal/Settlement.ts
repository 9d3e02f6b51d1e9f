/** The changes that a lane makes durable: its cursor, retries, and dead letters. */
import type { Attempt } from "./DeliveryStatus.ts"
import type { JournalError } from "./JournalError.ts"

/** Each event up to `sequence` is settled, waits for a retry, or isn't routed to the lane. */
export interface Cursor {
  readonly sequence: number
  /** Ranges above `sequence` that are also settled, both ends included, ascending. */
  readonly settled: ReadonlyArray<readonly [from: number, to: number]>
}

/** The attempt that delivered events. */
export interface Delivery {
  /** When it ended, in epoch milliseconds. */
  readonly at: number
  /** Duration in milliseconds. */
  readonly took: number
  /** The answer's code, if the sink has one. */
  readonly code?: number
}

/**
 * One attempt delivered all events from `from` to `to` that the lane has, except those that the settlement
 * lists otherwise.
 */
export interface DeliveredRange extends Delivery {
  readonly from: number
  readonly to: number
}

/** When an event is tried again. */
export interface Wait {
  readonly sequence: number
  /** The lane's order key of the event; empty if the lane keeps no order. */
  readonly key: string
  /** Wall-clock due time in epoch milliseconds; a load waits clamp(due − now, 0, delay). */
  readonly due: number
  /** The delay in milliseconds that led to `due`. */
  readonly delay: number
  /**
   * When the first attempt was made, in epoch milliseconds, minus the lane's total pause until then. It is 0 if
   * there was none.
   */
  readonly firstAttemptAt: number
  /** Number of attempts that count. Those during a sink's outage don't. */
  readonly tried: number
}

/** Attempts since the last settlement: see {@link keptAttempts}. */
export interface Tries {
  /** Number of the newest stored attempts that no longer count, because the sink was down. */
  readonly refunded: number
  /** The attempts that failed since. */
  readonly failed: ReadonlyArray<Attempt>
}

/** Maximum attempts kept per event: the first and the newest. */
const maxAttempts = 10

/**
 * Returns the attempts to keep, from the stored and the new ones. A new attempt that is stored already is ignored:
 * it was sent again because the first answer was lost.
 */
export const keptAttempts = (before: ReadonlyArray<Attempt>, { refunded, failed }: Tries): ReadonlyArray<Attempt> => {
  const left = before.slice(0, Math.max(0, before.length - refunded))
  const isKnown = (one: Attempt) => left.some(({ at, number }) => at === one.at && number === one.number)
  const all = [...left, ...failed.filter((one) => one.number === undefined || !isKnown(one))]
  return all.length <= maxAttempts ? all : [...all.slice(0, 1), ...all.slice(1 - maxAttempts)]
}

export interface RetryChange extends Wait, Tries {}

/** An event that isn't tried again until an operator replays it. */
export interface DeadLetter extends Tries {
  readonly sequence: number
  /** Epoch milliseconds. */
  readonly at: number
}

/** An event that was delivered after failed attempts. */
export interface LateDelivery extends Delivery, Tries {
  readonly sequence: number
  /** Number of attempts, including the last. */
  readonly attempts: number
}

/** Returns an event's number of attempts, from the attempts that are kept. */
export const attemptsOf = (kept: ReadonlyArray<Attempt>): number => kept.at(-1)?.number ?? kept.length

/** An event that ended without being sent, because an operator had muted the sink. */
export interface DroppedEvent {
  readonly sequence: number
  /** Epoch milliseconds. */
  readonly at: number
  /** The operator. */
  readonly by: string
}

/** An event that ended without a message of its own, because an alert counts it. */
export interface CountedEvent {
  readonly sequence: number
  /** Epoch milliseconds. */
  readonly at: number
  /** The alert's id: the sequence of the failure that it began with. */
  readonly alert: number
}

/** The new state of an alert, or the end of it. */
export interface AlertChange {
  readonly key: string
  /** The state as a text that only the lane reads. `undefined` deletes the alert. */
  readonly state: string | undefined
}

/** A lane's changes. They are applied atomically, in one transaction with other lanes' changes. */
export interface Settlement {
  readonly lane: string
  readonly cursor: Cursor
  /**
   * Dead letters to turn back into retries. The journal applies this first, and ignores a dead letter that no
   * longer exists.
   */
  readonly takeBack: ReadonlyArray<Wait>
  /** The journal finds their bytes by sequence, in the log or among its retries. */
  readonly retry: ReadonlyArray<RetryChange>
  /** Retries that ended without becoming dead letters. */
  readonly endRetry: ReadonlyArray<number>
  /** Events delivered by their first attempt. */
  readonly delivered: ReadonlyArray<DeliveredRange>
  readonly late: ReadonlyArray<LateDelivery>
  readonly dropped: ReadonlyArray<DroppedEvent>
  readonly counted: ReadonlyArray<CountedEvent>
  readonly alerts: ReadonlyArray<AlertChange>
  /** New dead letters. They no longer wait for a retry. */
  readonly deadLetter: ReadonlyArray<DeadLetter>
  /** Total milliseconds of the lane's pauses. */
  readonly pausedFor: number
}

/** Returns a settlement that only moves a lane's cursor. */
export const cursorSettlement = (lane: string, cursor: Cursor, pausedFor: number): Settlement => ({
  ...{ lane, cursor, pausedFor },
  ...{ takeBack: [], retry: [], endRetry: [], deadLetter: [], delivered: [], late: [], dropped: [] },
  ...{ counted: [], alerts: [] },
})

/** A settlement that wasn't stored because of its own data, while other lanes' settlements were. */
export interface RefusedSettlement {
  readonly lane: string
  readonly error: JournalError
}
