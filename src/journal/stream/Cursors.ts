/**
 * The rules for when a cursor may pass an event, and how the event is stored then.
 *
 * **Guarantee.** If a cursor passes an event that wasn't delivered, the same transaction stores the event as a
 * retry or a dead letter. An event that can't be read is reported as lost. A cursor never moves back.
 */
import type { Entry } from "../../event/Event.ts"
import type { Attempt } from "../DeliveryStatus.ts"
import { type JournalError, unavailable } from "../JournalError.ts"
import { type Cursor, keptAttempts, type RetryChange, type Settlement } from "../Settlement.ts"
import type { Ended } from "./OutcomeRecord.ts"

/** Reports whether a lane with this cursor has settled a sequence, if it is routed to the lane. */
export const isPassed = ({ sequence, settled }: Cursor, at: number): boolean =>
  at <= sequence || settled.some(([from, to]) => from <= at && at <= to)

/** Returns the cursor after one more sequence above it is settled. */
export const settledAt = (cursor: Cursor, at: number): Cursor => {
  if (isPassed(cursor, at)) return cursor
  const isBeside = ([from, to]: readonly [number, number]) => to === at - 1 || from === at + 1
  const beside = cursor.settled.filter(isBeside)
  const range = [Math.min(at, ...beside.map(([from]) => from)), Math.max(at, ...beside.map(([, to]) => to))] as const
  const settled = [...cursor.settled.filter((one) => !isBeside(one)), range].sort(([a], [b]) => a - b)
  const [first] = settled
  if (first === undefined || first[0] !== cursor.sequence + 1) return { ...cursor, settled }
  return { ...cursor, sequence: first[1], settled: settled.slice(1) }
}

/** Returns the later of two cursors of a lane: a settled event stays settled. */
export const later = (before: Cursor | undefined, cursor: Cursor): Cursor =>
  before !== undefined && cursor.sequence < before.sequence ? before : cursor

/** The stored retry of an event before a settlement. */
export interface KeptRetry {
  readonly attempts: ReadonlyArray<Attempt>
  /** Decodes the event's record. Returns `undefined` if it is damaged. */
  readonly entry: () => Entry | undefined
}

/** Returns why a settlement can't be stored, or `undefined` if it can. */
export const whyUnstorable = ({
  lane,
  takeBack,
  retry,
  deadLetter,
  counted,
  pausedFor,
}: Settlement): JournalError | undefined => {
  const changes = [...takeBack, ...retry, ...deadLetter, ...counted].flatMap((change) =>
    Object.values<unknown>({ ...change }),
  )
  const isWhole = (value: unknown) => typeof value !== "number" || Number.isSafeInteger(value)
  if ([pausedFor, ...changes].every(isWhole)) return undefined
  return unavailable(`The lane ${lane} settled a number that is not an integer.`)
}

export interface RetryToPut {
  readonly lane: string
  readonly change: RetryChange
  readonly attempts: ReadonlyArray<Attempt>
  /** Present if the journal has no record of the event yet. */
  readonly entry?: Entry | undefined
}

export interface LetterToPut {
  readonly lane: string
  /** Epoch milliseconds. */
  readonly at: number
  readonly attempts: ReadonlyArray<Attempt>
  readonly entry: Entry
}

/** The columns of a stored dead letter. `size` is the room that it takes, in bytes. */
interface LetterColumns {
  readonly record: Uint8Array
  /** As JSON. */
  readonly attempts: string
  readonly size: number
}

export const letterColumns = (record: Uint8Array, attempts: ReadonlyArray<Attempt>): LetterColumns => {
  const text = JSON.stringify(attempts)
  return { record, attempts: text, size: record.length + Buffer.byteLength(text) }
}

/** The rows that a settlement writes and deletes, in addition to the cursor and the delivered ranges. */
export interface SettlementRows {
  readonly retries: ReadonlyArray<RetryToPut>
  readonly letters: ReadonlyArray<LetterToPut>
  /** Sequences whose retries end, whether they are stored or not. */
  readonly ends: ReadonlyArray<number>
  /** Sequences of events that can't be read. */
  readonly lost: ReadonlyArray<number>
  /** Events that ended, unless their first attempt delivered them. */
  readonly ended: ReadonlyArray<Ended>
}

/** Returns a settlement's rows. `keptOf` returns the lane's retry of a sequence, and `find` an entry of the log. */
export const rowsOf = (
  { lane, retry, endRetry, deadLetter, late, dropped, counted }: Settlement,
  keptOf: (sequence: number) => KeptRetry | undefined,
  find: (sequence: number) => Entry | undefined,
): SettlementRows => {
  const lost: Array<number> = []
  const retries = retry.flatMap((change) => {
    const kept = keptOf(change.sequence)
    const entry = kept === undefined ? find(change.sequence) : undefined
    if (kept === undefined && entry === undefined) {
      lost.push(change.sequence)
      return []
    }
    return { lane, change, attempts: keptAttempts(kept?.attempts ?? [], change), entry }
  })
  const letters = deadLetter.flatMap(({ sequence, at, ...tries }) => {
    const kept = keptOf(sequence)
    const entry = kept === undefined ? find(sequence) : kept.entry()
    if (entry === undefined) lost.push(sequence)
    return entry === undefined ? [] : { lane, at, entry, attempts: keptAttempts(kept?.attempts ?? [], tries) }
  })
  return {
    retries,
    letters,
    ends: [...endRetry, ...deadLetter.map(({ sequence }) => sequence)],
    lost,
    ended: [
      ...late.map(({ sequence, at, took, code, attempts: tries, ...since }): Ended => {
        const attempts = keptAttempts(keptOf(sequence)?.attempts ?? [], since)
        const note = { tries, took, ...(code !== undefined && { code }), attempts }
        return { sequence, lane, at, outcome: "delivered", note }
      }),
      ...dropped.map(({ sequence, at, by }): Ended => ({ sequence, lane, at, outcome: "dropped", note: { by } })),
      ...counted.map(({ sequence, at, alert }): Ended => ({ sequence, lane, at, outcome: "counted", note: { alert } })),
    ],
  }
}
