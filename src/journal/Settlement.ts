/** The changes that a lane makes durable: its cursor, events that wait for a retry, and dead letters. */
import type { JournalError } from "./JournalError.ts"

/** Everything up to `sequence` is settled, waits for a retry, or is not routed to the lane. */
export interface Cursor {
  readonly sequence: number
  /** Ranges above `sequence` that are settled too, both ends included, ascending. */
  readonly settled: ReadonlyArray<readonly [from: number, to: number]>
}

/** A failed attempt, as it is kept with a retry or a dead letter. */
export interface Attempt {
  /** Epoch milliseconds. */
  readonly at: number
  /** The reason's tag, e.g. `DeliveryFailed`. */
  readonly reason: string
  /** The sink's observation; it holds no secret and no payload. */
  readonly message: string
  /** The beginning of what the receiver answered; it may hold a payload, but no secret. */
  readonly answer?: string
  /** How many attempts of the event this makes, so that what is not kept is counted. Absent where nothing was sent. */
  readonly number?: number
  /** Milliseconds that it took. */
  readonly took?: number
  /** The answer's code, where the sink has one. */
  readonly code?: number
}

/** The attempt that delivered events. */
export interface Delivery {
  /** When it ended, in epoch milliseconds. */
  readonly at: number
  /** Milliseconds that it took. */
  readonly took: number
  /** The answer's code, where the sink has one. */
  readonly code?: number
}

/** All events from `from` to `to` that the lane has were delivered by one attempt, unless something else is said of one. */
export interface DeliveredRange extends Delivery {
  readonly from: number
  readonly to: number
}

/** When an event that waits for a retry is tried again. */
export interface Wait {
  readonly sequence: number
  /** The lane's order key of the event; empty where the lane keeps no order. */
  readonly key: string
  /** Wall-clock due time in epoch milliseconds; a load waits clamp(due − now, 0, delay). */
  readonly due: number
  /** The delay in milliseconds that led to `due`. */
  readonly delay: number
  /**
   * When the first attempt was, in epoch milliseconds less the time that the
   * lane had been paused until then; 0 when there was none.
   */
  readonly firstAttemptAt: number
  /** Attempts that count; those during a sink's outage don't. */
  readonly tried: number
}

/** Attempts since the last settlement: see {@link keptAttempts}. */
export interface Tries {
  /** The number of the newest attempts in the journal that don't count any more: the sink was down. */
  readonly refunded: number
  /** The attempts that failed since. */
  readonly failed: ReadonlyArray<Attempt>
}

/** How many attempts of an event are kept: the first and the newest. */
const maxAttempts = 10

/** The attempts to keep, of those before and those since. One that is told again is there already: the answer to the first time was lost. */
export const keptAttempts = (before: ReadonlyArray<Attempt>, { refunded, failed }: Tries): ReadonlyArray<Attempt> => {
  const left = before.slice(0, Math.max(0, before.length - refunded))
  const isKnown = (one: Attempt) => left.some(({ at, number }) => at === one.at && number === one.number)
  const all = [...left, ...failed.filter((one) => one.number === undefined || !isKnown(one))]
  return all.length <= maxAttempts ? all : [...all.slice(0, 1), ...all.slice(1 - maxAttempts)]
}

/** A retry that is new or changed. */
export interface RetryChange extends Wait, Tries {}

/** An event that won't be tried again until a person replays it. */
export interface DeadLetter extends Tries {
  readonly sequence: number
  /** Epoch milliseconds. */
  readonly at: number
}

/** An event that was delivered after attempts that failed. */
export interface LateDelivery extends Delivery, Tries {
  readonly sequence: number
  /** How many attempts it took. */
  readonly attempts: number
}

/** How many attempts an event had, by those that are kept. */
export const attemptsOf = (kept: ReadonlyArray<Attempt>): number => kept.at(-1)?.number ?? kept.length

/** Applied in one transaction with those of other lanes: all of it, or nothing. */
export interface Settlement {
  readonly lane: string
  readonly cursor: Cursor
  /** Dead letters that wait for a retry again. The journal applies this first, and ignores a dead letter that is gone. */
  readonly takeBack: ReadonlyArray<Wait>
  /** The journal finds the bytes by sequence: in the log, or among the retries that it has. */
  readonly retry: ReadonlyArray<RetryChange>
  /** Retries that ended, and became no dead letters. */
  readonly endRetry: ReadonlyArray<number>
  /** The events that were delivered by their first attempt. */
  readonly delivered: ReadonlyArray<DeliveredRange>
  readonly late: ReadonlyArray<LateDelivery>
  /** New dead letters; they wait for no retry any more. */
  readonly deadLetter: ReadonlyArray<DeadLetter>
  /** How long the lane was paused in all, in milliseconds. */
  readonly pausedFor: number
}

/** A settlement of which nothing was stored, because of what it holds: those of other lanes were. */
export interface RefusedSettlement {
  readonly lane: string
  readonly error: JournalError
}
