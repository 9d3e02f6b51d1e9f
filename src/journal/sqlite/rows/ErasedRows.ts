/**
 * Erases events in every table that holds their bytes: see `archive/Erasure.ts`.
 *
 * Every change is made inside the caller's transaction, with `secure_delete` on, so that SQLite overwrites the
 * rows' former contents.
 */
import type { DatabaseSync } from "node:sqlite"
import type { EpochMillis } from "../../../event/Quantities.ts"
import { erasedLetter, erasedNote, erasedRecord, erasedRow } from "../../archive/Erasure.ts"
import type { Attempt } from "../../Settlement.ts"
import type { DeadLetterChange } from "./DeadLetters.ts"
import { bytes, int, list, meta, setMeta, text, tolerant } from "./Rows.ts"

/** A dead letter that became smaller. */
export interface ErasedLetter extends DeadLetterChange {
  readonly lane: string
}

const countKey = "erasures"

/** Returns the number of transactions that have erased events. */
export const erasuresOf = (db: DatabaseSync): string => meta(db, countKey) ?? "0"

/** The tables that hold an event's record or the answers to it. */
export class ErasedRows {
  readonly #db: DatabaseSync
  readonly #sql

  constructor(db: DatabaseSync) {
    this.#db = db
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

  /** Counts a transaction that erases. A copy that began before it must begin again. */
  count(): void {
    setMeta(this.#db, countKey, String(Number(erasuresOf(this.#db)) + 1))
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

  /** Erases answers in the ends of the event, and of an event whose copy it is. */
  #answers(sequence: number): void {
    for (const { id, note } of this.#sql.ended.all(sequence)) {
      const erased = tolerant(() => erasedNote(JSON.parse(text(note))))
      if (erased !== undefined) this.#sql.setEnded.run(JSON.stringify(erased), int(id))
    }
  }
}
