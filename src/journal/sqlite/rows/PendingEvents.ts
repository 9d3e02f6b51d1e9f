/**
 * Pending events that are no longer in the log. Each has a row in the table `owed` until the last of its lanes has
 * settled it.
 *
 * So a lane that lags keeps only its own events on disk, not all events after them. They are all older than the
 * log's oldest row: a lane reads them first, then the log, with the same cursor.
 */
import type { DatabaseSync } from "node:sqlite"
import type { Entry } from "../../../event/Event.ts"
import { sendable } from "../../archive/Erasure.ts"
import type { Cursor } from "../../Settlement.ts"
import type { Backlog } from "../../stream/Backlog.ts"
import { type DuplicateKey, decodeKey, encodeKey } from "../../stream/DuplicateKey.ts"
import { RecentEntries } from "../../stream/RecentEntries.ts"
import { decodeStored, encode, type Stored } from "../../stream/Record.ts"
import type { LogRows } from "./LogRows.ts"
import { bytes, int, list } from "./Rows.ts"
import { rising } from "./SqliteConnection.ts"

/** Called for a record that differs from the written record, with its sinks and its duplicate key if they can be read. */
type OnLost = (sequence: number, sinks: ReadonlyArray<string> | undefined, key: DuplicateKey | undefined) => void

/** Rows read at a time. */
const slice = 256

/** The table `owed`. */
export class PendingEvents {
  /** The highest sequence in the table now or since the start; 0 if there was none. */
  last: number

  readonly #sql
  readonly #onLost: OnLost
  /** Rows that no lane waits for any more can only be above `from`, up to `to`. */
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

  /** The lowest sequence in the table, or `undefined` if it is empty. */
  get first(): number | undefined {
    const first = this.#sql.first.get()?.first
    return first === null || first === undefined ? undefined : int(first)
  }

  /** Adds an event within the caller's transaction. */
  add({ entry, origin }: Stored): void {
    this.#sql.add.run(entry.sequence, JSON.stringify(entry.sinks), encodeKey(entry), encode(entry, origin))
  }

  /** Returns at most `limit` entries above `after`, and stops once they have `maxBytes`. */
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

  /** Returns the sinks of a slice of the events above `after`. */
  sinks(after: number): ReadonlyArray<readonly [sequence: number, sinks: ReadonlyArray<string>]> {
    const rows = this.#sql.sinks.all(after).map((row) => [int(row.sequence), list<string>(row.sinks)] as const)
    return rising("owed", rows, after, ([sequence]) => sequence)
  }

  /** Records that a lane's cursor moved, so that no lane may wait for the events between any more. */
  moved(from: Cursor, to: Cursor): void {
    if (from.sequence >= this.last) return
    const highest = Math.max(to.sequence, to.settled.at(-1)?.[1] ?? 0)
    this.#settled.from = Math.min(this.#settled.from, from.sequence)
    this.#settled.to = Math.max(this.#settled.to, Math.min(highest, this.last))
  }

  /** Records that a lane was dropped, so that no lane may wait for any of the events any more. */
  dropped(): void {
    this.#settled = { from: 0, to: this.last }
  }

  get mayRemove(): boolean {
    return this.#settled.from < Math.min(this.#settled.to, this.last)
  }

  /**
   * Removes events that no lane waits for, for `millis` milliseconds. It runs within the caller's transaction.
   * The caller must call `swept` after the commit.
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

  /** Records that everything up to `sequence` was checked. */
  swept(sequence: number): void {
    this.#settled.from = sequence
    if (!this.mayRemove) this.#settled = { from: Number.POSITIVE_INFINITY, to: 0 }
  }
}

/** Approximate bytes of bodies that one read returns from the disk. */
const readBytes = 8 * 1024 * 1024

/** Finds and reads entries by their sequences. */
export class LogReader {
  readonly recent = new RecentEntries()
  readonly #log: LogRows
  readonly #pending: PendingEvents

  constructor(log: LogRows, pending: PendingEvents) {
    this.#log = log
    this.#pending = pending
  }

  find(sequence: number): Entry | undefined {
    return this.recent.get(sequence) ?? this.#pending.find(sequence) ?? this.#log.find(sequence)
  }

  /** Replaces an entry in memory. Its row is read again. */
  erase(sequence: number, by: (entry: Entry) => Entry): void {
    this.recent.replace(sequence, by)
    this.#log.forget(sequence)
  }

  /** Returns entries above `after` from memory, or `undefined` if they are older. */
  readRecent(after: number, limit: number, reader?: string): ReadonlyArray<Entry> | undefined {
    return after + 1 >= this.recent.first ? this.recent.read(after, limit, reader).map(sendable) : undefined
  }

  /** Returns entries above `after` from the disk, some megabytes at a time. */
  read(after: number, limit: number, reader?: string): ReadonlyArray<Entry> {
    return this.recent.taken(this.#readOld(after, limit).map(sendable), reader)
  }

  #readOld(after: number, limit: number): ReadonlyArray<Entry> {
    if (after >= this.#pending.last) return this.#log.read(after, limit, readBytes)
    const older = this.#pending.read(after, limit, readBytes)
    const room = readBytes - older.reduce((bytes, { event }) => bytes + event.body.length, 0)
    return older.concat(this.#log.read(this.#pending.last, limit - older.length, room))
  }
}
