/**
 * Erases events in the tables, and in the free space of the file.
 *
 * SQLite itself overwrites the old bytes of the rows, because `secure_delete` is on
 * meanwhile. It is off otherwise, because it makes each deletion write more. Earlier
 * copies are in the file's free space, which is overwritten afterwards.
 */

import { readSync, statSync } from "node:fs"
import type { DatabaseSync } from "node:sqlite"
import type { EpochMillis } from "../../../event/Quantities.ts"
import { orUndefined } from "../../../event/Tolerance.ts"
import { withFile } from "../../../runtime/Files.ts"
import type { ErasedEvents } from "../../Archive.ts"
import {
  chooseErased,
  elsewhere,
  erasedEvent,
  erasedLetter,
  erasedNote,
  erasedRecord,
  erasedRow,
  resultOf,
} from "../../archive/Erasure.ts"
import type { Attempt } from "../../DeliveryStatus.ts"
import { unavailable } from "../../JournalError.ts"
import type { Removal } from "../../stream/BulkSlices.ts"
import type { Engine } from "../commit/Engine.ts"
import { allOf, type Committed } from "../commit/LaneStore.ts"
import { FreeSpace } from "../file/FreeSpace.ts"
import type { DeadLetterChange } from "../rows/DeadLetters.ts"
import { bytes, countErasure, int, list, text } from "../rows/Rows.ts"
import { connect, words } from "../rows/SqliteConnection.ts"
import { forgetOutcomes } from "./Retention.ts"

/** A dead letter that became smaller. */
interface ErasedLetter extends DeadLetterChange {
  readonly lane: string
}

/** The tables that hold an event's record or the answers to it. */
class ErasedRows {
  readonly #sql

  constructor(db: DatabaseSync) {
    this.#sql = {
      rowAt: db.prepare("SELECT first, count, bytes FROM log WHERE first <= ? ORDER BY first DESC LIMIT 1"),
      setRow: db.prepare("UPDATE log SET bytes = ? WHERE first = ?"),
      owed: db.prepare("SELECT record FROM owed WHERE sequence = ?"),
      setOwed: db.prepare("UPDATE owed SET record = ? WHERE sequence = ?"),
      dead: db.prepare("SELECT lane, webhook, size, attempts, record FROM dead WHERE sequence = ?"),
      setDead: db.prepare("UPDATE dead SET record = ?, attempts = ?, size = ? WHERE lane = ? AND sequence = ?"),
      ended: db.prepare(
        "SELECT id, note FROM ended WHERE sequence = ?1 UNION SELECT id, note FROM ended WHERE copy = ?1",
      ),
      setEnded: db.prepare("UPDATE ended SET note = ? WHERE id = ?"),
    }
  }

  /** Erases one event. Returns its dead letters, and whether any readable part of it was found. */
  erase(
    sequence: number,
    at: EpochMillis,
  ): { readonly isFound: boolean; readonly letters: ReadonlyArray<ErasedLetter> } {
    const isInLog = this.#log(sequence, at)
    const pending = this.#sql.owed.get(sequence)
    const owed = pending && erasedRecord(bytes(pending.record), sequence, at)
    if (owed !== undefined) this.#sql.setOwed.run(owed, sequence)
    const letters = this.#letters(sequence, at)
    this.#answers(sequence)
    return { isFound: isInLog || owed !== undefined || letters.length > 0, letters }
  }

  #log(sequence: number, at: EpochMillis): boolean {
    const row = this.#sql.rowAt.get(sequence)
    if (row === undefined) return false
    const before = bytes(row.bytes)
    const after = erasedRow(before, int(row.first), int(row.count), new Set([sequence]), at)
    if (Buffer.compare(before, after) === 0) return false
    this.#sql.setRow.run(after, int(row.first))
    return true
  }

  #letters(sequence: number, at: EpochMillis): ReadonlyArray<ErasedLetter> {
    return this.#sql.dead.all(sequence).flatMap((row) => {
      const letter = erasedLetter(bytes(row.record), list<Attempt>(row.attempts), sequence, at)
      if (letter === undefined) return []
      const lane = text(row.lane)
      this.#sql.setDead.run(letter.record, letter.attempts, letter.size, lane, sequence)
      return { lane, webhook: text(row.webhook), letters: 0, bytes: letter.size - int(row.size) }
    })
  }

  /** Removes the answers from the outcomes of the event, and of the event that it is a copy of. */
  #answers(sequence: number): void {
    for (const { id, note } of this.#sql.ended.all(sequence)) {
      const erased = orUndefined(() => erasedNote(JSON.parse(text(note))))
      if (erased !== undefined) this.#sql.setEnded.run(JSON.stringify(erased), int(id))
    }
  }
}

/** Runs work with `secure_delete` on. */
const securely = <A>({ store: { db } }: Engine, work: () => A): A => {
  const before = db.prepare("PRAGMA secure_delete").get()?.secure_delete
  db.prepare("PRAGMA secure_delete = ON").get()
  try {
    return work()
  } finally {
    db.prepare(`PRAGMA secure_delete = ${Number(before)}`).get()
  }
}

/**
 * Erases events that no lane waits for, in one transaction. With `isGivingUp` it ends the others at their lanes and
 * erases them too.
 */
export const erase = (
  engine: Engine,
  sequences: ReadonlyArray<number>,
  isGivingUp: boolean,
  why: Removal,
): ErasedEvents => {
  const { lanes } = engine
  const rows = engine.guard(() => new ErasedRows(engine.store.db))
  const work = () => {
    const choice = chooseErased(sequences, (sequence) => lanes.waitingFor(sequence), isGivingUp)
    const committed: Array<Committed> = []
    for (const [lane, some] of Map.groupBy(choice.givenUp, ({ lane }) => lane)) {
      const sequences = some.map(({ sequence }) => sequence)
      committed.push(lanes.giveUp(lane, sequences, why))
    }
    countErasure(engine.store.db)
    const found = new Set<number>()
    // Afterwards, because giving up stores outcomes, which may quote answers.
    for (const sequence of choice.wanted) {
      const { isFound, letters } = rows.erase(sequence, why.at)
      if (isFound) found.add(sequence)
      committed.push(...letters.map((letter) => lanes.resized(letter)))
    }
    const result = resultOf(choice, found)
    const inMemory = () => {
      for (const sequence of result.erased) {
        engine.reader.erase(sequence, (entry) => ({ ...entry, event: erasedEvent(entry.event, why.at) }))
      }
    }
    return { result, committed: allOf([...committed, inMemory]) }
  }
  return securely(engine, () => engine.exclusively(work))
}

/**
 * Names the places of copies that the relay can't overwrite. `damaged` is the number
 * of unreadable pages of the file.
 */
export const notReached = (damaged: number): ReadonlyArray<string> => [
  ...(damaged === 0
    ? []
    : [`damaged pages of the journal's file, ${damaged} of them: \`relay journal check\` names their events`]),
  "blocks of the disk that the file system has freed, and its snapshots",
  ...elsewhere,
]

/** Milliseconds of the event loop that a step takes. */
const usualBudget = 5

const walHeader = 32

/** The pages in a write-ahead log. */
const pagesIn = (log: string, frameSize: number): ReadonlySet<number> => {
  const pages = new Set<number>()
  withFile(log, "r", (fd) => {
    const number = Buffer.alloc(4)
    for (let at = walHeader; readSync(fd, number, 0, 4, at) === 4; at += frameSize) pages.add(number.readUInt32BE(0))
  })
  return pages
}

/** Runs work on the file itself. Its errors don't mean that the journal is damaged. */
const onFile = <A>({ store: { path } }: Engine, work: () => A): A => {
  try {
    return work()
  } catch (error) {
    throw unavailable(
      `The events are erased, but the free space of ${path} still has copies: it can't be overwritten (${words(error)}). Repeat the command.`,
    )
  }
}

/**
 * Overwrites the free space of the journal's file while the relay runs: see `FreeSpace.ts`.
 *
 * A connection that reads from the file alone, because the write-ahead log was empty when it began, keeps SQLite
 * from writing to the file: commits go to the log until it ends. Pages that were committed meanwhile may have the
 * old bytes, from the page cache: they are cleaned again in one step, before the next commit.
 *
 * Overwrites it, and empties the write-ahead log. Returns the number of pages that are damaged and stay as they
 * are, or `undefined` if another process or a search read from the log: then it must be repeated.
 */
export const scrub = function* (engine: Engine, budget = usualBudget): Generator<void, number | undefined> {
  const { db, path, descriptor } = engine.store
  const log = `${path}-wal`
  const isEmptied = (): boolean => engine.guard(() => engine.checkpoints.empty())
  // Outcomes of events that no search finds any more contain receivers' answers.
  forgetOutcomes(engine)
  const reader = connect(path)
  let space: FreeSpace
  try {
    reader.prepare("PRAGMA query_only = ON").run()
    if (!isEmptied()) return undefined
    reader.prepare("BEGIN").run()
    const roots = reader.prepare("SELECT rootpage FROM sqlite_schema WHERE rootpage > 0").all()
    // Another process may have written in between.
    if (statSync(log).size > 0) return undefined
    space = new FreeSpace(descriptor())
    const steps = space.overwrite(roots.map(({ rootpage }) => int(rootpage)))
    for (let isDone = false; !isDone; ) {
      const until = performance.now() + budget
      isDone = onFile(engine, () => {
        do if (steps.next().done === true) return true
        while (performance.now() < until)
        return false
      })
      if (!isDone) yield
    }
  } finally {
    reader.close()
  }
  const again = pagesIn(log, engine.space.frameSize)
  if (!isEmptied()) return undefined
  db.prepare("PRAGMA shrink_memory").run()
  onFile(engine, () => space.overwriteAgain(again))
  return space.damaged
}
