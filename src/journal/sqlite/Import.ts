/**
 * Brings back what another journal still owed: one that was set aside, or what
 * was salvaged of it.
 *
 * **Promise.** Each event comes back once for each lane that it was owed to. The
 * commit that appends it also notes its place in its journal, so neither a
 * second import nor one after a crash repeats it; and what the sender has sent
 * again meanwhile is known by its bytes, and not appended.
 */

import type { Imported, OwedEvent } from "../Journal.ts"
import type { Engine } from "./Engine.ts"
import { meta } from "./file/Meta.ts"
import { unavailable } from "./file/SqliteErrors.ts"
import type { Committed } from "./LaneStore.ts"
import { bodyChecksum, Origin } from "./Record.ts"

/** A commit takes at most so many events, or so many bytes of bodies. */
const most = { events: 256, bytes: 1024 * 1024 }

const parts = function* (owed: ReadonlyArray<OwedEvent>): Generator<ReadonlyArray<OwedEvent>> {
  let part: Array<OwedEvent> = []
  let bytes = 0
  for (const one of owed) {
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

export const importOwed = (engine: Engine, journal: string, owed: ReadonlyArray<OwedEvent>): Imported => {
  if (engine.guard(() => meta(engine.store.db, "identity")) === journal) {
    throw unavailable(
      `That is the journal that the relay runs on, or a copy of it: what it owes is on its way. Only what another journal owed can be imported.`,
    )
  }
  const counts = { pending: 0, deadLetters: 0, known: 0 }
  for (const part of parts(owed)) {
    engine.requireRoom("What was imported stays; import the file again to go on.")
    const { pending, deadLetters, known } = importPart(engine, journal, part)
    counts.pending += pending
    counts.deadLetters += deadLetters
    counts.known += known
  }
  return counts
}

/** The sender, or a person, sent it again since. */
const isReceived = (engine: Engine, { event, replayed }: OwedEvent): boolean => {
  if (replayed || event.problem !== undefined) return false
  return engine.duplicates.find(event, bodyChecksum(event)) !== "new"
}

const importPart = (engine: Engine, journal: string, part: ReadonlyArray<OwedEvent>): Imported => {
  const { db } = engine.store
  engine.flush()
  const notes = db.prepare("SELECT lanes FROM imported WHERE journal = ? AND sequence = ?")
  const note = db.prepare("INSERT OR REPLACE INTO imported (journal, sequence, lanes) VALUES (?, ?, ?)")
  const lanesOf = new Map<number, Set<string>>()
  const before = (sequence: number): Set<string> => {
    const known = lanesOf.get(sequence)
    if (known !== undefined) return known
    const lanes = engine.guard(() => notes.get(journal, sequence)?.lanes)
    const found = new Set(lanes === undefined ? [] : (JSON.parse(String(lanes)) as ReadonlyArray<string>))
    lanesOf.set(sequence, found)
    return found
  }
  let known = 0
  const chosen: Array<OwedEvent> = []
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
  // A dead letter has its place in the log for its sequence's sake, and nobody sends it from there.
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
    return () => {
      for (const apply of committed) apply()
    }
  })
  const count = (isDead: boolean): number =>
    chosen.reduce((sum, { pending, dead }) => sum + ((dead !== undefined) === isDead ? pending.length : 0), 0)
  return { pending: count(false), deadLetters: count(true), known }
}
