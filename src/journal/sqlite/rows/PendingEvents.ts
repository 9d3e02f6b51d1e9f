/**
 * Pending events that the log was pruned of: one row per event (table `owed`),
 * until the last of its lanes has settled it.
 *
 * A lane that lags so keeps only its own events on disk, not everything that
 * came after them. All of them are older than the log's oldest row: a lane reads
 * them first, then the log, with the same cursor.
 */
import type { DatabaseSync } from "node:sqlite"
import type { Entry } from "../../../event/Entry.ts"
import type { Cursor } from "../../Settlement.ts"
import type { Backlog } from "../../stream/Backlog.ts"
import { type DuplicateKey, decodeKey, encodeKey } from "../../stream/DuplicateKey.ts"
import { decodeStored, encode, type Stored } from "../../stream/Record.ts"
import { bytes, int, list } from "./Rows.ts"

/** A record is not what was written; its sinks and its duplicate key, where they can be read. */
type OnLost = (sequence: number, sinks: ReadonlyArray<string> | undefined, key: DuplicateKey | undefined) => void

/** Rows that are read at a time. */
const slice = 256

/** The table `owed`. */
export class PendingEvents {
  /** The highest sequence that it holds, or held since the start; 0 when it never held any. */
  last: number

  readonly #sql
  readonly #onLost: OnLost
  /** Rows that nobody waits for any more can only be above `from`, up to `to`. */
  #settled = { from: 0, to: Number.POSITIVE_INFINITY }

  constructor(db: DatabaseSync, onLost: OnLost) {
    this.#onLost = onLost
    this.#sql = {
      last: db.prepare("SELECT max(sequence) AS last FROM owed"),
      first: db.prepare("SELECT min(sequence) AS first FROM owed"),
      read: db.prepare("SELECT sequence, record FROM owed WHERE sequence > ? ORDER BY sequence"),
      find: db.prepare("SELECT record FROM owed WHERE sequence = ?"),
      sinks: db.prepare(`SELECT sequence, sinks FROM owed WHERE sequence > ? ORDER BY sequence LIMIT ${slice}`),
      lost: db.prepare("SELECT sinks, duplicate_key FROM owed WHERE sequence = ?"),
      add: db.prepare("INSERT OR REPLACE INTO owed (sequence, sinks, duplicate_key, record) VALUES (?, ?, ?, ?)"),
      remove: db.prepare("DELETE FROM owed WHERE sequence = ?"),
    }
    this.last = int(this.#sql.last.get()?.last ?? 0)
  }

  /** The lowest sequence that it holds; `undefined` when it is empty. */
  get first(): number | undefined {
    const first = this.#sql.first.get()?.first
    return first === null || first === undefined ? undefined : int(first)
  }

  /** Within a transaction of the caller's. */
  add({ entry, origin }: Stored): void {
    this.#sql.add.run(entry.sequence, JSON.stringify(entry.sinks), encodeKey(entry), encode(entry, origin))
  }

  /** Entries above `after`, at most `limit`, and no more once they have `maxBytes`. */
  read(after: number, limit: number, maxBytes: number): Array<Entry> {
    const found: Array<Entry> = []
    let size = 0
    for (const row of this.#sql.read.iterate(after)) {
      const stored = this.#decode(int(row.sequence), row.record)
      if (stored === undefined) continue
      found.push(stored.entry)
      size += stored.entry.event.body.length
      if (found.length >= limit || size >= maxBytes) break
    }
    return found
  }

  find(sequence: number): Entry | undefined {
    if (sequence > this.last) return undefined
    const row = this.#sql.find.get(sequence)
    return row === undefined ? undefined : this.#decode(sequence, row.record)?.entry
  }

  #decode(sequence: number, record: unknown): Stored | undefined {
    const stored = decodeStored(bytes(record), sequence)
    if (stored === undefined) {
      const row = this.#sql.lost.get(sequence)
      const sinks = list<string>(row?.sinks)
      this.#onLost(sequence, sinks.length === 0 ? undefined : sinks, decodeKey(row?.duplicate_key))
    }
    return stored
  }

  /** The sinks of what it holds above `after`, a slice of it. */
  sinks(after: number): ReadonlyArray<readonly [sequence: number, sinks: ReadonlyArray<string>]> {
    return this.#sql.sinks.all(after).map((row) => [int(row.sequence), list<string>(row.sinks)] as const)
  }

  /** A lane's cursor moved: nobody may wait for what is between. */
  moved(from: Cursor, to: Cursor): void {
    if (from.sequence >= this.last) return
    const highest = Math.max(to.sequence, to.settled.at(-1)?.[1] ?? 0)
    this.#settled.from = Math.min(this.#settled.from, from.sequence)
    this.#settled.to = Math.max(this.#settled.to, Math.min(highest, this.last))
  }

  /** A lane was dropped: nobody may wait for any of it. */
  dropped(): void {
    this.#settled = { from: 0, to: this.last }
  }

  get mayRemove(): boolean {
    return this.#settled.from < Math.min(this.#settled.to, this.last)
  }

  /**
   * Removes events that no lane waits for, for so many milliseconds; within a
   * transaction of the caller's, who calls `swept` after its commit.
   */
  sweep(lanes: ReadonlyMap<string, Backlog>, millis: number): number {
    const started = performance.now()
    const rows = this.sinks(this.#settled.from)
    for (const [sequence, sinks] of rows) {
      if (sequence > this.#settled.to) break
      if (!sinks.some((sink) => lanes.get(sink)?.isPending(sequence))) this.#sql.remove.run(sequence)
      if (performance.now() - started > millis) return sequence
    }
    return rows.length < slice ? this.#settled.to : (rows.at(-1)?.[0] ?? this.#settled.to)
  }

  /** Everything up to `sequence` was checked. */
  swept(sequence: number): void {
    this.#settled.from = sequence
    if (!this.mayRemove) this.#settled = { from: Number.POSITIVE_INFINITY, to: 0 }
  }
}
