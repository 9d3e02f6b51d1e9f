/**
 * The log on disk: one row per group commit, pruned by whole rows.
 *
 * **Guarantee.** A damaged event is never returned. It is reported once, through `onLost`.
 */
import type { DatabaseSync } from "node:sqlite"
import type { Entry } from "../../../event/Event.ts"
import type { CommitBatch } from "../../stream/CommitBatch.ts"
import { ranges } from "../../stream/DuplicateKey.ts"
import { type Decoded, decodeOne, decodeRow, type Stored } from "../../stream/Record.ts"
import { bytes, int, list } from "./Rows.ts"
import { rising } from "./SqliteConnection.ts"

/** A row without its events' bytes. */
export interface RowKeys {
  readonly first: number
  readonly count: number
  readonly receivedFrom: number
  readonly receivedTo: number
  readonly routes: ReadonlyArray<ReadonlyArray<string>>
  readonly keys: Buffer
}

interface LogRow extends Decoded {
  readonly first: number
  readonly last: number
}

/**
 * Number of decoded rows that are cached. A cached row serves several short reads of
 * a lane that lags. The cache isn't a map, because JavaScriptCore's maps keep the
 * contents of a rehash until a full collection, and a long backlog would pile up
 * there.
 */
const cachedRows = 8

/** The table `log`. */
export class LogRows {
  #cache: ReadonlyArray<LogRow> = []
  readonly #reported = new Set<number>()
  readonly #sql

  readonly #onLost: (from: number, to: number, why: string) => void

  constructor(db: DatabaseSync, onLost: (from: number, to: number, why: string) => void) {
    this.#onLost = onLost
    this.#sql = {
      insert: db.prepare(
        "INSERT INTO log (first, count, received_from, received_to, routes, keys, bytes) VALUES (?, ?, ?, ?, ?, ?, ?)",
      ),
      rowAt: db.prepare("SELECT first, count, bytes FROM log WHERE first <= ? ORDER BY first DESC LIMIT 1"),
      rowAfter: db.prepare("SELECT first, count, bytes FROM log WHERE first > ? ORDER BY first LIMIT 1"),
      keysAfter: db.prepare(
        "SELECT first, count, received_from, received_to, routes, keys FROM log WHERE first > ? ORDER BY first LIMIT ?",
      ),
      oldest: db.prepare("SELECT first, count, received_to FROM log ORDER BY first LIMIT 1"),
      delete: db.prepare("DELETE FROM log WHERE first = ?"),
      insertLoss: db.prepare("INSERT OR REPLACE INTO hole (first, last) VALUES (?, ?)"),
      lossAt: db.prepare("SELECT last FROM hole WHERE first <= ? AND last >= ? LIMIT 1"),
    }
  }

  insert(batch: CommitBatch): void {
    this.#sql.insert.run(
      batch.first,
      batch.entries.length,
      batch.receivedFrom,
      batch.receivedTo,
      batch.routes(),
      batch.keys(),
      batch.bytes(),
    )
  }

  /** Returns at most `limit` entries above `after`, and stops once they have `maxBytes`. */
  read(after: number, limit: number, maxBytes: number): ReadonlyArray<Entry> {
    const found: Array<Entry> = []
    let next = after + 1
    let size = 0
    while (found.length < limit && size < maxBytes) {
      const row = this.rowFrom(next)
      if (row === undefined) break
      for (const { entry } of row.stored) {
        if (entry.sequence < next || found.length >= limit) continue
        found.push(entry)
        size += entry.event.body.length
      }
      next = row.last + 1
    }
    return found
  }

  find(sequence: number): Entry | undefined {
    return this.read(sequence - 1, 1, 1).find((entry) => entry.sequence === sequence)
  }

  /**
   * Returns a function that finds single entries. It keeps the last row that it read, and decodes only the
   * requested entries.
   */
  finder(): (sequence: number) => Entry | undefined {
    let row: { readonly first: number; readonly last: number; readonly bytes: Uint8Array } | undefined
    return (sequence) => {
      if (row === undefined || sequence < row.first || row.last < sequence) {
        const at = this.#sql.rowAt.get(sequence)
        row = at && { first: int(at.first), last: int(at.first) + int(at.count) - 1, bytes: bytes(at.bytes) }
      }
      if (row === undefined || row.last < sequence) return undefined
      const found = decodeOne(row.bytes, row.first, sequence)
      if (found === undefined) this.damaged(sequence)
      return found?.entry
    }
  }

  /** Returns the row that holds `sequence`, or the first row above it, or `undefined` at the end. */
  rowFrom(sequence: number): LogRow | undefined {
    const cached = this.#cache.find((row) => row.first <= sequence && sequence <= row.last)
    if (cached !== undefined) return cached
    const at = this.#sql.rowAt.get(sequence)
    const found = at !== undefined && int(at.first) + int(at.count) > sequence ? at : this.#sql.rowAfter.get(sequence)
    if (found === undefined) return undefined
    const first = int(found.first)
    const count = int(found.count)
    if (found !== at) rising("log", [first], sequence, Number)
    const row = { first, last: first + count - 1, ...decodeRow(bytes(found.bytes), first, count) }
    for (const [from, to] of ranges(row.damaged)) this.damaged(from, to)
    this.#cache = [...this.#cache.slice(1 - cachedRows), row]
    return row
  }

  /** Returns at most `limit` rows that begin above `first`, without their events' bytes. */
  keysOf(first: number, limit: number): ReadonlyArray<RowKeys> {
    const rows = this.#sql.keysAfter.all(first, limit).map((row) => ({
      first: int(row.first),
      count: int(row.count),
      receivedFrom: int(row.received_from),
      receivedTo: int(row.received_to),
      routes: list<ReadonlyArray<string>>(row.routes),
      keys: Buffer.from(bytes(row.keys)),
    }))
    return rising("log", rows, first, (row) => row.first)
  }

  /** Returns the first sequence of the row that holds `sequence`, or 0 if there is none. */
  rowStart(sequence: number): number {
    return int(this.#sql.rowAt.get(sequence)?.first ?? 0)
  }

  /** Returns the oldest row, and when its newest event was received. */
  oldestRow(): { readonly first: number; readonly last: number; readonly receivedTo: number } | undefined {
    const row = this.#sql.oldest.get()
    if (row === undefined) return undefined
    return { first: int(row.first), last: int(row.first) + int(row.count) - 1, receivedTo: int(row.received_to) }
  }

  /** Returns some events of a row as they are stored. Damaged ones are reported. */
  stored(first: number, sequences: ReadonlyArray<number>): ReadonlyArray<Stored> {
    const row = sequences.length === 0 ? undefined : this.#sql.rowAt.get(first)
    if (row === undefined) return []
    return sequences.flatMap((sequence) => {
      const found = decodeOne(bytes(row.bytes), first, sequence)
      if (found === undefined) this.damaged(sequence)
      return found ?? []
    })
  }

  /** Reports that an event's bytes on disk differ from the written ones. */
  damaged(from: number, to = from): void {
    this.#lost(from, to, "their bytes on disk are not what was written")
  }

  delete(first: number): void {
    this.#sql.delete.run(first)
    this.#cache = this.#cache.filter((row) => row.first !== first)
  }

  /** Drops a changed row from the cache. */
  forget(sequence: number): void {
    this.#cache = this.#cache.filter(({ first, last }) => sequence < first || last < sequence)
  }

  /** Reports missing rows. A known loss isn't reported again. */
  missing(from: number, to: number): void {
    if (this.#sql.lossAt.get(from, to) !== undefined) return
    this.#sql.insertLoss.run(from, to)
    this.#lost(from, to, "their rows are missing")
  }

  #lost(from: number, to: number, why: string): void {
    if (this.#reported.has(from)) return
    this.#reported.add(from)
    this.#onLost(from, to, why)
  }
}
