/**
 * Erases events in every table that has bytes of them: see `stream/Erasure.ts`.
 *
 * Every change is made inside a transaction of the caller's, with
 * `secure_delete` on, so that SQLite overwrites what the rows held.
 */
import type { DatabaseSync, SQLOutputValue } from "node:sqlite"
import type { EpochMillis } from "../../../event/Quantities.ts"
import type { Attempt } from "../../Settlement.ts"
import { erasedRecord, erasedRow, withoutAnswers } from "../../stream/Erasure.ts"
import type { EndedNote } from "../../stream/OutcomeRecord.ts"
import type { DeadLetterChange } from "./DeadLetters.ts"
import { meta, setMeta } from "./Meta.ts"
import { bytes, int, list, text, tolerant } from "./Rows.ts"

/** A dead letter that has become smaller. */
export interface ErasedLetter extends DeadLetterChange {
  readonly lane: string
}

const countKey = "erasures"

/** How many transactions have erased events. */
export const erasuresOf = (db: DatabaseSync): string => meta(db, countKey) ?? "0"

/** The tables that have an event's record or what was answered to it. */
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

  /** Counts a transaction that erases: a copy that was begun before it begins again. */
  count(): void {
    setMeta(this.#db, countKey, String(Number(erasuresOf(this.#db)) + 1))
  }

  /** Erases one event; the dead letters that it is, and whether anything of it was found that can be read. */
  erase(
    sequence: number,
    at: EpochMillis,
  ): { readonly isFound: boolean; readonly letters: ReadonlyArray<ErasedLetter> } {
    const isInLog = this.#log(sequence, at)
    const owed = this.#record(this.#sql.owed.get(sequence)?.record, sequence, at)
    if (owed !== undefined) this.#sql.setOwed.run(owed, sequence)
    const letters = this.#letters(sequence, at)
    this.#answers(sequence)
    return { isFound: isInLog || owed !== undefined || letters.length > 0, letters }
  }

  #record(record: SQLOutputValue | undefined, sequence: number, at: EpochMillis): Uint8Array | undefined {
    return record === undefined ? undefined : erasedRecord(bytes(record), sequence, at)
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
      const record = this.#record(row.record, sequence, at)
      if (record === undefined) return []
      const attempts = JSON.stringify(withoutAnswers(list<Attempt>(row.attempts)))
      const size = record.length + Buffer.byteLength(attempts)
      this.#sql.setDead.run(record, attempts, size, text(row.lane), sequence)
      return { lane: text(row.lane), webhook: text(row.webhook), letters: 0, bytes: size - int(row.size) }
    })
  }

  /** How it ended, and how an event did whose copy it is: both may tell what was answered. */
  #answers(sequence: number): void {
    for (const { id, note } of this.#sql.ended.all(sequence)) {
      const told = tolerant((): EndedNote => JSON.parse(text(note)))
      if (told?.attempts === undefined) continue
      this.#sql.setEnded.run(JSON.stringify({ ...told, attempts: withoutAnswers(told.attempts) }), int(id))
    }
  }
}
