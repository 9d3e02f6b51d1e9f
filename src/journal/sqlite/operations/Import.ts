/**
 * Imports the undelivered events of another journal: one that was set aside, or
 * what was salvaged of it.
 *
 * **Guarantee.** Each event is imported once per lane. The commit that appends
 * it also records it as imported, so neither a second import nor one after a
 * crash repeats it. An event that was received again meanwhile is found as a
 * duplicate and not appended.
 */
import type { ImportCounts, UndeliveredEvent } from "../../Archive.ts"
import { unavailable } from "../../JournalError.ts"
import { bodyChecksum, Origin } from "../../stream/Record.ts"
import type { Engine } from "../commit/Engine.ts"
import { allOf, type Committed } from "../commit/LaneStore.ts"
import { meta } from "../rows/Meta.ts"
import { list } from "../rows/Rows.ts"

/** A commit takes at most so many events, or so many bytes of bodies. */
const most = { events: 256, bytes: 1024 * 1024 }

const parts = function* (events: ReadonlyArray<UndeliveredEvent>): Generator<ReadonlyArray<UndeliveredEvent>> {
  let part: Array<UndeliveredEvent> = []
  let bytes = 0
  for (const one of events) {
    if (part.length > 0 && (part.length >= most.events || bytes + one.event.body.length > most.bytes)) {
      yield part
      part = []
      bytes = 0
    }
    part.push(one)
    bytes += one.event.body.length
  }
  if (part.length > 0) yield part
}

export const importEvents = (
  engine: Engine,
  journal: string,
  events: ReadonlyArray<UndeliveredEvent>,
): ImportCounts => {
  if (engine.guard(() => meta(engine.store.db, "identity")) === journal) {
    throw unavailable(
      `That is the journal that the relay runs on, or a copy of it: what it owes is on its way. Only what another journal owed can be imported.`,
    )
  }
  const counts = { pending: 0, deadLetters: 0, known: 0 }
  for (const part of parts(events)) {
    engine.space.requireRoom("What was imported stays; import the file again to go on.")
    const { pending, deadLetters, known } = importPart(engine, journal, part)
    counts.pending += pending
    counts.deadLetters += deadLetters
    counts.known += known
  }
  return counts
}

/** It was received again since. */
const isReceived = (engine: Engine, { event, replayed }: UndeliveredEvent): boolean => {
  if (replayed || event.problem !== undefined) return false
  return engine.duplicates.find(event, bodyChecksum(event)) !== "new"
}

const importPart = (engine: Engine, journal: string, part: ReadonlyArray<UndeliveredEvent>): ImportCounts => {
  const { db } = engine.store
  engine.flush(true)
  const notes = db.prepare("SELECT lanes FROM imported WHERE journal = ? AND sequence = ?")
  const note = db.prepare("INSERT OR REPLACE INTO imported (journal, sequence, lanes) VALUES (?, ?, ?)")
  const lanesOf = new Map<number, Set<string>>()
  const before = (sequence: number): Set<string> => {
    const known = lanesOf.get(sequence)
    if (known !== undefined) return known
    const found = new Set(list<string>(engine.guard(() => notes.get(journal, sequence)?.lanes)))
    lanesOf.set(sequence, found)
    return found
  }
  let known = 0
  const chosen: Array<UndeliveredEvent> = []
  for (const one of part) {
    const lanes = before(one.sequence)
    const pending = one.pending.filter((lane) => !lanes.has(lane))
    const isKnown = pending.length === 0 || (one.dead === undefined && isReceived(engine, one))
    known += isKnown ? one.pending.length : one.pending.length - pending.length
    if (isKnown) continue
    for (const lane of pending) lanes.add(lane)
    chosen.push({ ...one, pending })
  }
  if (chosen.length === 0) return { pending: 0, deadLetters: 0, known }
  const first = engine.head + 1
  // A dead letter is appended too, to get a sequence; no lane sends it from there.
  const entries = chosen.map(({ event, pending, dead }) => ({ event, sinks: dead === undefined ? pending : [] }))
  engine.appendWith(entries, Origin.moved, () => {
    const committed: Array<Committed> = []
    for (const [index, { sequence, event, pending, dead }] of chosen.entries()) {
      note.run(journal, sequence, JSON.stringify([...before(sequence)]))
      if (dead === undefined) continue
      for (const lane of pending) {
        const entry = { sequence: first + index, event, sinks: [lane], replayed: false }
        committed.push(engine.lanes.addDeadLetter(lane, entry, dead.at, dead.attempts))
      }
    }
    return allOf(committed)
  })
  const count = (isDead: boolean): number =>
    chosen.reduce((sum, { pending, dead }) => sum + ((dead !== undefined) === isDead ? pending.length : 0), 0)
  return { pending: count(false), deadLetters: count(true), known }
}
