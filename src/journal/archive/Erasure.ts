/**
 * Erases events. An event's record is replaced by a record of the same facts without body, signature and trace.
 *
 * **Guarantee.** The new record keeps the fields that duplicates, order and outcomes need. Its checksums are
 * valid, so every reader can read it. No lane sends an erased event.
 */
import { Array as Arr, Effect } from "effect"
import type { Entry, Event } from "../../event/Event.ts"
import type { EpochMillis } from "../../event/Quantities.ts"
import { unquoted } from "../../event/Quoted.ts"
import type { ErasedEvents } from "../Archive.ts"
import type { Attempt } from "../DeliveryStatus.ts"
import type { JournalError } from "../JournalError.ts"
import type { DeadLetterKey } from "../LaneInfo.ts"
import { streamOf } from "../Sequences.ts"
import { type Removal, removal } from "../stream/BulkSlices.ts"
import { letterColumns } from "../stream/Cursors.ts"
import { keyOf } from "../stream/DuplicateKey.ts"
import type { EndedNote } from "../stream/OutcomeRecord.ts"
import { decodeStored, encode, splitRow } from "../stream/Record.ts"

/** Maximum events that one transaction erases, because each may rewrite a row of a megabyte. */
export const erasedAtOnce = 64

const nothing = new Uint8Array()
const nowhere: ReadonlyArray<string> = []

/** The decision about each event of an erasure. */
export interface ErasureChoice {
  /** The events to erase. */
  readonly wanted: ReadonlyArray<number>
  /** Pending events that end at their lanes first. */
  readonly givenUp: ReadonlyArray<DeadLetterKey>
  /** Events to leave unchanged, because lanes have not delivered them yet. */
  readonly left: ErasedEvents["undelivered"]
}

/** Decides which events are erased. `waitingFor` returns the lanes that have not delivered an event yet. */
export const chooseErased = (
  sequences: ReadonlyArray<number>,
  waitingFor: (sequence: number) => ReadonlyArray<string>,
  isGivingUp: boolean,
): ErasureChoice => {
  const waiting = sequences
    .map((sequence) => ({ sequence, lanes: waitingFor(sequence) }))
    .filter(({ lanes }) => lanes.length > 0)
  if (isGivingUp) {
    const givenUp = waiting.flatMap(({ sequence, lanes }) => lanes.map((lane) => ({ lane, sequence })))
    return { wanted: sequences, givenUp, left: [] }
  }
  const isLeft = new Set(waiting.map(({ sequence }) => sequence))
  return { wanted: sequences.filter((sequence) => !isLeft.has(sequence)), givenUp: [], left: waiting }
}

/**
 * Returns the result of an erasure. If the log was pruned of an event and only a retry held it, ending the
 * retry has erased it.
 */
export const resultOf = ({ wanted, givenUp, left }: ErasureChoice, found: ReadonlySet<number>): ErasedEvents => {
  const isGone = new Set(givenUp.map(({ sequence }) => sequence))
  return { erased: wanted.filter((sequence) => found.has(sequence) || isGone.has(sequence)), undelivered: left }
}

/** Erases events in parts, each in a transaction of its own. After a crash the erasure can be started again. */
export const eraseEvents = Effect.fnUntraced(function* (
  sequences: ReadonlyArray<number>,
  erase: (part: ReadonlyArray<number>, why: Removal) => Effect.Effect<ErasedEvents, JournalError>,
) {
  const why = yield* removal
  const parts = [...Map.groupBy(sequences, streamOf).values()].flatMap(Arr.chunksOf(erasedAtOnce))
  const done = yield* Effect.forEach(parts, (part) => erase(part, why))
  return { erased: done.flatMap(({ erased }) => erased), undelivered: done.flatMap(({ undelivered }) => undelivered) }
})

/** Copies that no journal can reach. */
export const elsewhere: ReadonlyArray<string> = [
  "backups, salvaged events, copies that were not finished (`….copying`), and journals that were moved aside or copied: delete them",
  "what sinks have received, and the logs of other systems",
]

/** Returns the event without fields that may hold personal data. An erased event is returned unchanged. */
export const erasedEvent = (event: Event, at: EpochMillis): Event => {
  if (event.erased !== undefined) return event
  const { hi, lo, bodyCrc } = keyOf(event)
  const { trace: _, problem, foreign, ...facts } = event
  return {
    ...facts,
    // The reason for the quarantine may quote the body.
    ...(problem !== undefined && { problem: "it was erased" }),
    // The time and the empty headers keep the event's idempotency key.
    ...(foreign !== undefined && { foreign: { ...foreign, headers: {} } }),
    signature: "",
    body: nothing,
    erased: { at, key: [hi, lo, bodyCrc] },
  }
}

/** Returns the entry for lanes: an erased one goes to no sink. */
export const sendable = (entry: Entry): Entry =>
  entry.event.erased === undefined ? entry : { ...entry, sinks: nowhere }

/** Returns the record of the erased event, or `undefined` if it can't be read or was erased before. */
export const erasedRecord = (record: Uint8Array, sequence: number, at: EpochMillis): Uint8Array | undefined => {
  const stored = decodeStored(record, sequence)
  if (stored === undefined || stored.entry.event.erased !== undefined) return undefined
  const { entry, origin } = stored
  return encode({ ...entry, event: erasedEvent(entry.event, at) }, origin).slice()
}

/**
 * Returns a row of the log in which some events are erased. All other records are unchanged byte for byte,
 * including unreadable ones.
 */
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

/** Returns the attempts without the receivers' answers, which may repeat the body. */
export const withoutAnswers = (attempts: ReadonlyArray<Attempt>): ReadonlyArray<Attempt> =>
  attempts.map(({ answer: _, message, ...attempt }) => ({ ...attempt, message: unquoted(message) }))

/** Returns the columns of the erased dead letter, or `undefined` if it can't be read or was erased before. */
export const erasedLetter = (
  record: Uint8Array,
  attempts: ReadonlyArray<Attempt>,
  sequence: number,
  at: EpochMillis,
) => {
  const erased = erasedRecord(record, sequence, at)
  return erased && letterColumns(erased, withoutAnswers(attempts))
}

/** Returns the note without the receivers' answers, or `undefined` if it has no attempts. */
export const erasedNote = ({ attempts, ...note }: EndedNote): EndedNote | undefined =>
  attempts && { ...note, attempts: withoutAnswers(attempts) }
