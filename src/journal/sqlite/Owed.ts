/**
 * What the log was pruned of while lanes still waited for it: an event each,
 * until the last of its lanes has settled it.
 *
 * So room is taken by what is owed, and not by everything that came after it.
 * All of it lies below the log's oldest row: a lane reads it first, and then
 * the log, with the same cursor.
 */
import type { DatabaseSync } from "node:sqlite"
import type { Entry } from "../../event/Entry.ts"
import type { Cursor } from "../Journal.ts"
import type { Backlog } from "./Backlog.ts"
import { decodeStored, encode, type Stored } from "./Record.ts"

/** Rows that are looked at together. */
const slice = 256

const int = (value: unknown): number => Number(value)
const bytes = (value: unknown): Uint8Array => (value instanceof Uint8Array ? value : new Uint8Array())

const namesOf = (text: unknown): ReadonlyArray<string> => {
  try {
    return JSON.parse(String(text)) as ReadonlyArray<string>
  } catch {
    return []
  }
}

export class Owed {
  /** The highest sequence that it holds, or held since the start; 0 when it never held any. */
  last: number

  readonly #sql
  readonly #onLost: (sequence: number) => void
  /** Where rows may lie that nobody waits for any more: above `from`, up to `to`. */
  #settled = { from: 0, to: Number.POSITIVE_INFINITY }

  constructor(db: DatabaseSync, onLost: (sequence: number) => void) {
    this.#onLost = onLost
    this.#sql = {
      last: db.prepare("SELECT max(sequence) AS last FROM owed"),
      first: db.prepare("SELECT min(sequence) AS first FROM owed"),
      read: db.prepare("SELECT sequence, record FROM owed WHERE sequence > ? ORDER BY sequence"),
      find: db.prepare("SELECT record FROM owed WHERE sequence = ?"),
      sinks: db.prepare(`SELECT sequence, sinks FROM owed WHERE sequence > ? ORDER BY sequence LIMIT ${slice}`),
      keep: db.prepare("INSERT OR REPLACE INTO owed (sequence, sinks, record) VALUES (?, ?, ?)"),
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
  keep({ entry, origin }: Stored): void {
    this.#sql.keep.run(entry.sequence, JSON.stringify(entry.sinks), encode(entry, origin))
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
    if (stored === undefined) this.#onLost(sequence)
    return stored
  }

  /** The sinks of what it holds above `after`, a slice of it. */
  sinks(after: number): ReadonlyArray<readonly [sequence: number, sinks: ReadonlyArray<string>]> {
    return this.#sql.sinks.all(after).map((row) => [int(row.sequence), namesOf(row.sinks)] as const)
  }

  /** A lane went from one cursor to the next: what lies between may be owed to nobody. */
  moved(from: Cursor, to: Cursor): void {
    if (from.sequence >= this.last) return
    const highest = Math.max(to.sequence, to.settled.at(-1)?.[1] ?? 0)
    this.#settled.from = Math.min(this.#settled.from, from.sequence)
    this.#settled.to = Math.max(this.#settled.to, Math.min(highest, this.last))
  }

  /** All of it may be owed to nobody: a lane is gone. */
  dropped(): void {
    this.#settled = { from: 0, to: this.last }
  }

  get mayRemove(): boolean {
    return this.#settled.from < Math.min(this.#settled.to, this.last)
  }

  /**
   * Removes some of what no lane waits for, for so many milliseconds; within a
   * transaction of the caller's, who says `swept` after its commit.
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

  /** Everything up to `sequence` was looked at. */
  swept(sequence: number): void {
    this.#settled.from = sequence
    if (!this.mayRemove) this.#settled = { from: Number.POSITIVE_INFINITY, to: 0 }
  }
}
