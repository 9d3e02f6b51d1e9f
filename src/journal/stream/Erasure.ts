/**
 * How an event is erased: its record is replaced by one with the same facts and
 * without its body, its signature and its trace.
 *
 * **Guarantee.** The new record keeps what duplicates, order and outcomes need,
 * and its checksums hold, so every reader takes it as any other. No lane sends
 * an erased event.
 */
import type { Entry } from "../../event/Entry.ts"
import type { Event } from "../../event/Event.ts"
import type { EpochMillis } from "../../event/Quantities.ts"
import { unquoted } from "../../event/Quoted.ts"
import type { ErasedEvents } from "../Archive.ts"
import type { Attempt } from "../Settlement.ts"
import { keyOf } from "./DuplicateKey.ts"
import { decodeStored, encode, splitRow } from "./Record.ts"

/** Events that one transaction erases at most: each may rewrite a row of a megabyte. */
export const erasedAtOnce = 64

const nothing = new Uint8Array()
const nowhere: ReadonlyArray<string> = []

type Undelivered = ErasedEvents["undelivered"]

/** An erasure's decision on some events. */
export interface ErasureChoice {
  /** The events to erase. */
  readonly wanted: ReadonlyArray<number>
  /** Events among them that lanes have yet to deliver, which end there first. */
  readonly givenUp: Undelivered
  /** Events that stay, because lanes have yet to deliver them. */
  readonly left: Undelivered
}

/** Decides which events are erased, given the lanes that have yet to deliver each. */
export const chooseErased = (
  sequences: ReadonlyArray<number>,
  waitingFor: (sequence: number) => ReadonlyArray<string>,
  isGivingUp: boolean,
): ErasureChoice => {
  const waiting = sequences
    .map((sequence) => ({ sequence, lanes: waitingFor(sequence) }))
    .filter(({ lanes }) => lanes.length > 0)
  if (isGivingUp) return { wanted: sequences, givenUp: waiting, left: [] }
  const isLeft = new Set(waiting.map(({ sequence }) => sequence))
  return { wanted: sequences.filter((sequence) => !isLeft.has(sequence)), givenUp: [], left: waiting }
}

/** The result of an erasure. An event that was a retry alone, because the log was pruned of it, is gone with that. */
export const resultOf = ({ wanted, givenUp, left }: ErasureChoice, found: ReadonlySet<number>): ErasedEvents => {
  const isGone = new Set(givenUp.map(({ sequence }) => sequence))
  return { erased: wanted.filter((sequence) => found.has(sequence) || isGone.has(sequence)), undelivered: left }
}

/** Places of copies that no journal reaches. */
export const elsewhere: ReadonlyArray<string> = [
  "backups, salvaged events, copies that were not finished (`….copying`), and journals that were moved aside or copied: delete them",
  "what sinks have received, and the logs of other systems",
]

/** The event without what may hold personal data; one that was erased before stays as it is. */
export const erasedEvent = (event: Event, at: EpochMillis): Event => {
  if (event.erased !== undefined) return event
  const { hi, lo, bodyCrc } = keyOf(event)
  const { trace: _, problem, ...facts } = event
  return {
    ...facts,
    // Why it is in quarantine may quote the body.
    ...(problem !== undefined && { problem: "it was erased" }),
    signature: "",
    body: nothing,
    erased: { at, key: [hi, lo, bodyCrc] },
  }
}

/** An entry as lanes read it: one that was erased goes to no sink. */
export const sendable = (entry: Entry): Entry =>
  entry.event.erased === undefined ? entry : { ...entry, sinks: nowhere }

/** The record of an erased event; `undefined` when it can't be read, or was erased before. */
export const erasedRecord = (record: Uint8Array, sequence: number, at: EpochMillis): Uint8Array | undefined => {
  const stored = decodeStored(record, sequence)
  if (stored === undefined || stored.entry.event.erased !== undefined) return undefined
  const { entry, origin } = stored
  return encode({ ...entry, event: erasedEvent(entry.event, at) }, origin).slice()
}

/** A row of the log in which some events are erased; all other records stay byte for byte, also those that can't be read. */
export const erasedRow = (
  row: Uint8Array,
  first: number,
  count: number,
  erased: ReadonlySet<number>,
  at: EpochMillis,
): Uint8Array =>
  Buffer.concat(
    splitRow(row, count).map((record, index) => {
      const sequence = first + index
      return (erased.has(sequence) ? erasedRecord(record, sequence, at) : undefined) ?? record
    }),
  )

/** Attempts without what receivers answered, which may repeat the body. */
export const withoutAnswers = (attempts: ReadonlyArray<Attempt>): ReadonlyArray<Attempt> =>
  attempts.map(({ answer: _, message, ...attempt }) => ({ ...attempt, message: unquoted(message) }))
