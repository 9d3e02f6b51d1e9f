/**
 * Imports the undelivered events of another journal: one that was set aside, or
 * what was salvaged of it.
 *
 * **Guarantee.** That of `ImportChoice.ts`: the commit that appends an event
 * also records it as imported, so neither a second import nor one after a crash
 * repeats it. Of this journal's own file, or a copy of it, only what is lost
 * here is imported: after a backup was restored that is what came since.
 */
import type { ImportCounts, UndeliveredEvent } from "../../Archive.ts"
import { slice } from "../../stream/BulkSlices.ts"
import { addCounts, chooseImports, importedLetters } from "../../stream/ImportChoice.ts"
import { bodyChecksum, Origin } from "../../stream/Record.ts"
import type { Engine } from "../commit/Engine.ts"
import { allOf } from "../commit/LaneStore.ts"
import { meta } from "../rows/Meta.ts"
import { list } from "../rows/Rows.ts"

/** Events in parts of one commit each. */
const parts = function* (events: ReadonlyArray<UndeliveredEvent>): Generator<ReadonlyArray<UndeliveredEvent>> {
  let part: Array<UndeliveredEvent> = []
  let bytes = 0
  for (const one of events) {
    if (part.length > 0 && (part.length >= slice.entries || bytes + one.event.body.length > slice.bytes)) {
      yield part
      part = []
      bytes = 0
    }
    part.push(one)
    bytes += one.event.body.length
  }
  if (part.length > 0) yield part
}

/** Imports events of the journal with this id; throws a `JournalError`. */
export const importEvents = (
  engine: Engine,
  journal: string,
  events: ReadonlyArray<UndeliveredEvent>,
): ImportCounts => {
  const { db } = engine.store
  const isOwn = engine.guard(() => meta(db, "identity")) === journal
  const missing = isOwn ? events.filter(({ sequence }) => engine.losses.has(sequence)) : events
  const notes = db.prepare("SELECT lanes FROM imported WHERE journal = ? AND sequence = ?")
  const note = db.prepare("INSERT OR REPLACE INTO imported (journal, sequence, lanes) VALUES (?, ?, ?)")
  const importedFor = (sequence: number) => list<string>(engine.guard(() => notes.get(journal, sequence)?.lanes))
  const isReceived = ({ event }: UndeliveredEvent) => engine.duplicates.find(event, bodyChecksum(event)) !== "new"
  const owed = (some: ReadonlyArray<UndeliveredEvent>) => some.reduce((sum, { pending }) => sum + pending.length, 0)
  const counts = { pending: 0, deadLetters: 0, known: owed(events) - owed(missing) }
  for (const part of parts(missing)) {
    engine.space.requireRoom("What was imported stays; import the file again to go on.")
    engine.flush(true)
    const { chosen, lanesOf, known } = chooseImports(part, importedFor, isReceived)
    counts.known += known
    if (chosen.length === 0) continue
    engine.appendWith(chosen, Origin.moved, ([first = 0]) => {
      for (const { sequence } of chosen) note.run(journal, sequence, JSON.stringify([...(lanesOf.get(sequence) ?? [])]))
      return allOf(importedLetters(chosen, first).map((letter) => engine.lanes.addDeadLetter(letter)))
    })
    addCounts(counts, chosen)
  }
  return counts
}
