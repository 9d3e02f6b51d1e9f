/**
 * Events that wait for a retry, on disk. An event's due time changes often, and its record never does, so each
 * has a table of its own.
 *
 * Every change is made inside the caller's transaction.
 */
import type { DatabaseSync } from "node:sqlite"
import { type Retry, type Returned, returnedDelay, type StoredAlert } from "../../LaneInfo.ts"
import { type AlertChange, attemptsOf, type Wait } from "../../Settlement.ts"
import type { KeptRetry, RetryToPut } from "../../stream/Cursors.ts"
import { type DuplicateKey, decodeKey, encodeKey } from "../../stream/DuplicateKey.ts"
import { decode, encode } from "../../stream/Record.ts"
import { bytes, int, list, type Row, text } from "./Rows.ts"

/** Decodes when a row's event is tried again. */
export const waitOf = (row: Row): Wait => ({
  sequence: int(row.sequence),
  key: text(row.key),
  due: int(row.due),
  delay: int(row.delay),
  firstAttemptAt: int(row.first_attempt_at),
  tried: int(row.tried),
})

/** The table `alert`: the states of a lane's alerts. */
export class AlertRows {
  readonly #sql

  constructor(db: DatabaseSync) {
    this.#sql = {
      ofLane: db.prepare("SELECT key, state FROM alert WHERE lane = ? ORDER BY key"),
      all: db.prepare("SELECT lane, key, state FROM alert ORDER BY lane, key"),
      put: db.prepare("INSERT OR REPLACE INTO alert (lane, key, state) VALUES (?, ?, ?)"),
      delete: db.prepare("DELETE FROM alert WHERE lane = ? AND key = ?"),
      clear: db.prepare("DELETE FROM alert WHERE lane = ?"),
    }
  }

  ofLane(lane: string): ReadonlyArray<StoredAlert> {
    return this.#sql.ofLane.all(lane).map(({ key, state }) => ({ key: text(key), state: text(state) }))
  }

  all(): ReadonlyArray<StoredAlert & { readonly lane: string }> {
    return this.#sql.all.all().map(({ lane, key, state }) => ({ lane: text(lane), key: text(key), state: text(state) }))
  }

  change(lane: string, changes: ReadonlyArray<AlertChange>): void {
    for (const { key, state } of changes) {
      if (state === undefined) this.#sql.delete.run(lane, key)
      else this.#sql.put.run(lane, key, state)
    }
  }

  clear(lane: string): void {
    this.#sql.clear.run(lane)
  }
}

/** The tables `retry` and `retry_record`. */
export class Retries {
  readonly #sql

  constructor(db: DatabaseSync) {
    this.#sql = {
      keys: db.prepare("SELECT lane, sequence, delay FROM retry_record LEFT JOIN retry USING (lane, sequence)"),
      ofLane: db.prepare(
        `SELECT sequence, ifnull(key, '') AS key, ifnull(due, 0) AS due, ifnull(delay, 0) AS delay,
           ifnull(first_attempt_at, 0) AS first_attempt_at, ifnull(tried, 0) AS tried,
           CASE WHEN json_valid(attempts) THEN ifnull(attempts ->> '$[#-1].reason', '') ELSE '' END AS last_failure,
           CASE WHEN json_valid(attempts) THEN ifnull(attempts ->> '$[#-1].number', json_array_length(attempts)) ELSE 0
             END AS attempts
         FROM retry_record LEFT JOIN retry USING (lane, sequence)
         WHERE lane = ? AND ifnull(delay, 0) <> ${returnedDelay} ORDER BY sequence`,
      ),
      returned: db.prepare(
        `SELECT sequence, attempts FROM retry WHERE lane = ? AND delay = ${returnedDelay} ORDER BY sequence LIMIT 500`,
      ),
      returnedCount: db.prepare(`SELECT count(*) AS count FROM retry WHERE lane = ? AND delay = ${returnedDelay}`),
      isReturned: db.prepare(`SELECT 1 FROM retry WHERE lane = ? AND sequence = ? AND delay = ${returnedDelay}`),
      record: db.prepare("SELECT record FROM retry_record WHERE lane = ? AND sequence = ?"),
      kept: db.prepare(
        "SELECT attempts FROM retry_record LEFT JOIN retry USING (lane, sequence) WHERE lane = ? AND sequence = ?",
      ),
      duplicateKey: db.prepare("SELECT duplicate_key FROM retry_record WHERE lane = ? AND sequence = ?"),
      putRecord: db.prepare(
        "INSERT OR IGNORE INTO retry_record (lane, sequence, duplicate_key, record) VALUES (?, ?, ?, ?)",
      ),
      put: db.prepare(
        `INSERT OR REPLACE INTO retry (lane, sequence, key, due, delay, first_attempt_at, tried, attempts)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ),
      deleteRecord: db.prepare("DELETE FROM retry_record WHERE lane = ? AND sequence = ?"),
      delete: db.prepare("DELETE FROM retry WHERE lane = ? AND sequence = ?"),
      next: db.prepare("SELECT sequence FROM retry_record WHERE lane = ? ORDER BY sequence LIMIT 1"),
      moveRecord: db.prepare("UPDATE OR IGNORE retry_record SET lane = ? WHERE lane = ? AND sequence = ?"),
      move: db.prepare(
        `UPDATE OR REPLACE retry SET lane = ?,
           first_attempt_at = CASE first_attempt_at WHEN 0 THEN 0 ELSE max(first_attempt_at + ?, 1) END
         WHERE lane = ? AND sequence = ?`,
      ),
    }
  }

  keys(): ReadonlyArray<{ readonly lane: string; readonly sequence: number; readonly isReturned: boolean }> {
    return this.#sql.keys.all().map(({ lane, sequence, delay }) => ({
      ...{ lane: text(lane), sequence: int(sequence), isReturned: delay === returnedDelay },
    }))
  }

  /** Returns the oldest replayed dead letters that the lane has not taken up yet. */
  returned(lane: string): ReadonlyArray<Returned> {
    return this.#sql.returned
      .all(lane)
      .map((row) => ({ sequence: int(row.sequence), attempts: attemptsOf(list(row.attempts)) }))
  }

  returnedCount(lane: string): number {
    return int(this.#sql.returnedCount.get(lane)?.count)
  }

  isReturned(lane: string, sequence: number): boolean {
    return this.#sql.isReturned.get(lane, sequence) !== undefined
  }

  /** Returns the retries of a lane by sequence, without those that it has not taken up yet. */
  ofLane(lane: string): ReadonlyArray<Retry> {
    return this.#sql.ofLane
      .all(lane)
      .map((row) => ({ ...waitOf(row), lastFailure: text(row.last_failure), attempts: int(row.attempts) }))
  }

  /** Returns the bytes of an event, or `undefined` if it waits for no retry. */
  record(lane: string, sequence: number): Uint8Array | undefined {
    const row = this.#sql.record.get(lane, sequence)
    return row === undefined ? undefined : bytes(row.record)
  }

  /** Returns the key of an unreadable event, so that it doesn't count as a duplicate when it is sent again. */
  duplicateKey(lane: string, sequence: number): DuplicateKey | undefined {
    return decodeKey(this.#sql.duplicateKey.get(lane, sequence)?.duplicate_key)
  }

  /** Returns a retry with its stored attempts, or `undefined` if the event waits for none. */
  kept(lane: string, sequence: number): KeptRetry | undefined {
    const row = this.#sql.kept.get(lane, sequence)
    if (row === undefined) return undefined
    const entry = () => decode(this.record(lane, sequence) ?? new Uint8Array(), sequence)
    return { attempts: list(row.attempts), entry }
  }

  put({ lane, change, attempts, entry }: RetryToPut): void {
    if (entry !== undefined) this.#sql.putRecord.run(lane, entry.sequence, encodeKey(entry), encode(entry))
    const { sequence, key, due, delay, firstAttemptAt, tried } = change
    this.#sql.put.run(lane, sequence, key, due, delay, firstAttemptAt, tried, JSON.stringify(attempts))
  }

  delete(lane: string, sequence: number): void {
    this.#sql.deleteRecord.run(lane, sequence)
    this.#sql.delete.run(lane, sequence)
  }

  /** Returns the lowest sequence of a lane's retries, or `undefined` if there is none. */
  next(lane: string): number | undefined {
    const row = this.#sql.next.get(lane)
    return row === undefined ? undefined : int(row.sequence)
  }

  /**
   * Moves a retry to another lane, with its first attempt later by `paused` milliseconds. Returns false if `to`
   * has the same event already.
   */
  move(from: string, to: string, sequence: number, paused: number): boolean {
    if (int(this.#sql.moveRecord.run(to, from, sequence).changes) === 0) return false
    this.#sql.move.run(to, paused, from, sequence)
    return true
  }
}
