/**
 * Imports the undelivered events of another journal: a renamed file, or the events
 * that were salvaged from it.
 *
 * **Guarantee.** An event is imported once for each lane, however often it is
 * imported: the commit that appends it also records the import. A delivery that the
 * journal has received again meanwhile counts as known.
 */
import { Effect } from "effect"
import type { ImportCounts, UndeliveredEvent } from "../Archive.ts"
import type { JournalError } from "../JournalError.ts"
import { firstOf, type Reappended, slice } from "../stream/BulkSlices.ts"
import type { LetterToPut } from "../stream/Cursors.ts"
import { Origin } from "../stream/Record.ts"
import type { ImportNote, JournalTables } from "./JournalTables.ts"
import { byLog, requireRoom } from "./Reappending.ts"

/**
 * An event to append, with the lanes that it was not imported for before. A dead
 * letter has no sinks: no lane sends it from the log.
 */
export interface ChosenImport extends UndeliveredEvent, Reappended {}

/**
 * Whether the sender may have delivered it again. A replay, a dead letter or a
 * quarantined delivery is imported in any case.
 */
export const mayBeReceived = ({ dead, replayed, event }: UndeliveredEvent): boolean =>
  dead === undefined && !replayed && event.problem === undefined

/** Chooses from events; `importedFor` gives the lanes that an event was imported for before. */
export const chooseImports = (
  events: ReadonlyArray<UndeliveredEvent>,
  importedFor: (sequence: number) => Iterable<string>,
  isReceived: (one: UndeliveredEvent) => boolean,
): {
  readonly chosen: ReadonlyArray<ChosenImport>
  /** By sequence, the lanes that now count an event as imported. */
  readonly lanesOf: ReadonlyMap<number, ReadonlySet<string>>
  /** The number of events that the journal has already, counted once per lane. */
  readonly known: number
} => {
  const lanesOf = new Map<number, Set<string>>()
  const chosen: Array<ChosenImport> = []
  let known = 0
  for (const event of events) {
    const lanes = lanesOf.get(event.sequence) ?? new Set(importedFor(event.sequence))
    lanesOf.set(event.sequence, lanes)
    const pending = event.pending.filter((lane) => !lanes.has(lane))
    const isKnown = pending.length === 0 || (mayBeReceived(event) && isReceived(event))
    known += isKnown ? event.pending.length : event.pending.length - pending.length
    if (isKnown) continue
    for (const lane of pending) lanes.add(lane)
    // It is appended as well, to get a sequence.
    chosen.push({ ...event, pending, sinks: event.dead === undefined ? pending : [] })
  }
  return { chosen, lanesOf, known }
}

/** The dead letters among the appended events; the first event has the sequence `first`. */
export const importedLetters = (chosen: ReadonlyArray<ChosenImport>, first: number): ReadonlyArray<LetterToPut> =>
  chosen.flatMap(({ event, pending, dead }, index) =>
    dead === undefined
      ? []
      : pending.map((lane) => ({
          lane,
          ...dead,
          entry: { sequence: first + index, event, sinks: [lane], replayed: false },
        })),
  )

/** The number of lanes that events are for. */
const owed = (some: ReadonlyArray<UndeliveredEvent>): number =>
  some.reduce((sum, { pending }) => sum + pending.length, 0)

/** Imports events of the journal with this id, in slices. */
export const importEvents = Effect.fnUntraced(function* (
  tables: JournalTables,
  journal: string,
  events: ReadonlyArray<UndeliveredEvent>,
): Effect.fn.Return<ImportCounts, JournalError> {
  const missing = yield* tables.importable(journal, events)
  const counts = { pending: 0, deadLetters: 0, known: owed(events) - owed(missing) }
  for (let left = missing; left.length > 0; ) {
    const part = left.slice(
      0,
      firstOf(left, slice.entries, ({ event }) => event.body.length),
    )
    left = left.slice(part.length)
    yield* requireRoom(tables, "What was imported stays; import the file again to go on.")
    const { chosen, known } = yield* importPart(tables, journal, part)
    counts.known += known
    for (const { dead, pending } of chosen) counts[dead === undefined ? "pending" : "deadLetters"] += pending.length
  }
  return counts
})

const importPart = (tables: JournalTables, journal: string, part: ReadonlyArray<UndeliveredEvent>) =>
  tables.slice((rows) =>
    Effect.gen(function* () {
      const before = yield* rows.importedFor(
        journal,
        part.map(({ sequence }) => sequence),
      )
      const received = yield* rows.received(part.filter(mayBeReceived))
      const all = chooseImports(
        part,
        (sequence) => before.get(sequence) ?? [],
        (one) => received.has(one),
      )
      for (const group of byLog(tables, all.chosen)) {
        const sequences = new Set(group.map(({ sequence }) => sequence))
        const imported = [...sequences].map(
          (sequence): ImportNote => ({ journal, sequence, lanes: [...(all.lanesOf.get(sequence) ?? [])] }),
        )
        yield* rows.append(group, Origin.moved, ([first = 0]) => ({ imported, letters: importedLetters(group, first) }))
      }
      return all
    }),
  )
