/** Dead letters on disk. Every change is made inside the caller's transaction. */
import type { DatabaseSync, SQLOutputValue } from "node:sqlite"
import type { Entry } from "../../../event/Event.ts"
import * as Pattern from "../../../routing/Pattern.ts"
import type { Attempt } from "../../DeliveryStatus.ts"
import {
  type DeadLetterKey,
  type DeadLetterQuery,
  letterId,
  parseLetterId,
  type StoredDeadLetter,
} from "../../LaneInfo.ts"
import { type LetterToPut, letterColumns } from "../../stream/Cursors.ts"
import { type DuplicateKey, decodeKey, encodeKey } from "../../stream/DuplicateKey.ts"
import { decode, encode } from "../../stream/Record.ts"
import { bytes, int, list, type Row, text } from "./Rows.ts"

/** The change of a webhook's number of dead letters, and of their bytes. */
export interface DeadLetterChange {
  readonly webhook: string
  readonly letters: number
  readonly bytes: number
}

/** A dead letter that was deleted. */
export interface DeletedLetter extends DeadLetterChange {
  readonly at: number
  readonly attempts: ReadonlyArray<Attempt>
}

/** Called for a record that differs from the written record, with its duplicate key if it has one. */
export type OnUnreadable = (lane: string, sequence: number, key?: DuplicateKey) => void

const deletedOf = (row: Row): DeletedLetter => ({
  webhook: text(row.webhook),
  letters: 1,
  bytes: int(row.size),
  at: int(row.at),
  attempts: list(row.attempts),
})

/** A function for SQL. It caches its pattern, because a query calls it for each row with the same one. */
const typeMatches = () => {
  let pattern = Pattern.make("**")
  return (source: SQLOutputValue, type: SQLOutputValue): number => {
    if (pattern.source !== source) pattern = Pattern.make(text(source))
    return pattern.matches(text(type)) ? 1 : 0
  }
}

/** Dead letters before a position, newest first. Each condition has an index, so a page reads no other rows. */
const query = (isBefore: string): string =>
  `SELECT lane, sequence, at, attempts, record FROM dead
   WHERE ${isBefore} AND (?3 IS NULL OR type_matches(?3, type)) ORDER BY sequence DESC, lane DESC LIMIT ?4`

/** The table `dead`. */
export class DeadLetters {
  readonly #sql
  readonly #onUnreadable: OnUnreadable

  constructor(db: DatabaseSync, onUnreadable: OnUnreadable) {
    this.#onUnreadable = onUnreadable
    db.function("type_matches", typeMatches())
    this.#sql = {
      counts: db.prepare("SELECT lane, webhook, count(*) AS count, sum(size) AS size FROM dead GROUP BY lane, webhook"),
      put: db.prepare(
        `INSERT INTO dead (lane, sequence, at, type, size, attempts, duplicate_key, record, webhook)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ),
      duplicateKey: db.prepare("SELECT duplicate_key FROM dead WHERE lane = ? AND sequence = ?"),
      delete: db.prepare("DELETE FROM dead WHERE lane = ? AND sequence = ? RETURNING size, webhook, at, attempts"),
      next: db.prepare(
        "SELECT sequence, size, webhook, at, attempts FROM dead WHERE lane = ? ORDER BY sequence LIMIT 1",
      ),
      find: db.prepare("SELECT record FROM dead WHERE sequence = ?"),
      get: db.prepare("SELECT lane, sequence, at, attempts, record FROM dead WHERE lane = ? AND sequence = ?"),
      ofAll: db.prepare(query("(sequence, lane) < (?1, ?2)")),
      ofLane: db.prepare(query("sequence < ?1 AND lane = ?2")),
      move: db.prepare("UPDATE OR IGNORE dead SET lane = ? WHERE lane = ? AND sequence = ?"),
    }
  }

  counts(): ReadonlyArray<DeadLetterChange & { readonly lane: string }> {
    return this.#sql.counts.all().map((row) => ({
      lane: text(row.lane),
      webhook: text(row.webhook),
      letters: int(row.count),
      bytes: int(row.size),
    }))
  }

  /** Stores a dead letter, and replaces an earlier letter of the same event. */
  put({ lane, at, attempts, entry }: LetterToPut): DeadLetterChange {
    const { record, attempts: tried, size } = letterColumns(encode(entry), attempts)
    const before = this.delete(lane, entry.sequence)
    const { sequence, event } = entry
    this.#sql.put.run(lane, sequence, at, event.type, size, tried, encodeKey(entry), record, event.webhook)
    return { webhook: event.webhook, letters: 1 - (before?.letters ?? 0), bytes: size - (before?.bytes ?? 0) }
  }

  /** Returns the deleted letter, or `undefined` if there was none. */
  delete(lane: string, sequence: number): DeletedLetter | undefined {
    const row = this.#sql.delete.all(lane, sequence)[0]
    return row && deletedOf(row)
  }

  /** Returns a lane's dead letter with the lowest sequence, or `undefined` if there is none. */
  next(lane: string): (DeletedLetter & { readonly sequence: number }) | undefined {
    const row = this.#sql.next.get(lane)
    return row && { sequence: int(row.sequence), ...deletedOf(row) }
  }

  /** Returns false if `to` has the same event already. */
  move(from: string, to: string, sequence: number): boolean {
    return int(this.#sql.move.run(to, from, sequence).changes) > 0
  }

  /** Returns dead letters, newest first, until their bodies reach `maxBytes`. */
  query({ lane, limit, ...query }: DeadLetterQuery, maxBytes: number): ReadonlyArray<StoredDeadLetter> {
    const type = query.type ?? null
    const place = parseLetterId(query.before) ?? { sequence: Number.MAX_SAFE_INTEGER, lane: "" }
    const letters: Array<StoredDeadLetter> = []
    let size = 0
    const rows =
      lane === undefined
        ? this.#sql.ofAll.iterate(place.sequence, place.lane, type, limit)
        : this.#sql.ofLane.iterate(place.sequence + (lane < place.lane ? 1 : 0), lane, type, limit)
    for (const row of rows) {
      const letter = this.#read(row)
      if (letter === undefined) continue
      letters.push(letter)
      size += letter.entry.event.body.length
      if (size >= maxBytes) break
    }
    return letters
  }

  /** Returns a dead letter, or `undefined` if it doesn't exist or can't be read. */
  get({ lane, sequence }: DeadLetterKey): StoredDeadLetter | undefined {
    const row = this.#sql.get.get(lane, sequence)
    return row && this.#read(row)
  }

  /** Returns the entry of any lane's dead letter. */
  find(sequence: number): Entry | undefined {
    for (const row of this.#sql.find.all(sequence)) {
      const entry = decode(bytes(row.record), sequence)
      if (entry !== undefined) return entry
    }
    return undefined
  }

  #read(row: Row): StoredDeadLetter | undefined {
    const lane = text(row.lane)
    const sequence = int(row.sequence)
    const entry = decode(bytes(row.record), sequence)
    if (entry === undefined) {
      this.#onUnreadable(lane, sequence, decodeKey(this.#sql.duplicateKey.get(lane, sequence)?.duplicate_key))
      return undefined
    }
    return { id: letterId(lane, sequence), lane, sequence, at: int(row.at), attempts: list(row.attempts), entry }
  }
}
