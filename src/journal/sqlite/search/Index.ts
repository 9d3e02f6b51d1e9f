/**
 * An index beside the journal: which of its events have an id, a type, an
 * account. `journal.db-index` is made of the log alone, in the background; it
 * may be deleted while no relay runs, and is then made again.
 *
 * A span of the log is indexed once the log has passed it, newest first. To look
 * through all of it takes some 25 milliseconds a million events, and the log's
 * writer pays nothing for it.
 *
 * **Promise.** It leads to events, it never stands for one: who is led by it
 * reads the log. **Trap.** So damage to it can hide an event; SQLite finds most
 * of it, and the index is then begun again.
 */
import { chmodSync, rmSync } from "node:fs"
import { DatabaseSync, type SQLOutputValue } from "node:sqlite"
import type { Match } from "../../EventMatch.ts"
import type { EventQuery } from "../../Journal.ts"
import { isFull } from "../file/SqliteErrors.ts"
import type { Columns, LogRow } from "./IndexBlock.ts"
import * as Span from "./IndexBlock.ts"

/** Another one when what lies in the file changes: the columns, or how their hashes are made. */
const format = 1

const schema = [
  "CREATE TABLE journal (identity TEXT NOT NULL) STRICT",
  `CREATE TABLE span (
    number INTEGER PRIMARY KEY, received_from INTEGER NOT NULL, received_to INTEGER NOT NULL,
    kinds TEXT NOT NULL, kind BLOB NOT NULL, account BLOB NOT NULL, id BLOB NOT NULL) STRICT`,
  `PRAGMA user_version = ${format}`,
]

type Row = Record<string, SQLOutputValue>

const bytes = (value: unknown): Uint8Array => (value instanceof Uint8Array ? value : new Uint8Array())

/** As an array of their own, wherever in memory the bytes lie. */
const copied = (value: unknown): ArrayBuffer => new Uint8Array(bytes(value)).buffer

const logRowOf = (row: Row): LogRow => ({
  first: Number(row.first),
  count: Number(row.count),
  receivedFrom: Number(row.received_from),
  receivedTo: Number(row.received_to),
  routes: String(row.routes),
  keys: bytes(row.keys),
  bytes: bytes(row.bytes),
})

const openFile = (file: string, identity: string): DatabaseSync => {
  const db = new DatabaseSync(file)
  try {
    chmodSync(file, 0o600)
    db.prepare("PRAGMA page_size = 32768").run()
    // Synced only when it is checkpointed: what a power cut takes is indexed again.
    db.prepare("PRAGMA journal_mode = WAL").get()
    db.prepare("PRAGMA synchronous = NORMAL").run()
    db.prepare("PRAGMA wal_autocheckpoint = 64").get()
    const version = () => Number(db.prepare("PRAGMA user_version").get()?.user_version)
    if (version() === 0) {
      for (const statement of schema) db.prepare(statement).run()
      db.prepare("INSERT INTO journal (identity) VALUES (?)").run(identity)
    }
    const found = db.prepare("SELECT identity FROM journal").get()?.identity
    if (version() !== format || found !== identity) throw new Error("this is the index of another journal")
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

/** Opens the index of the journal at `path`; begun anew where it is not that journal's, or damaged. */
const openOrBegin = (path: string, identity: string): DatabaseSync => {
  const file = `${path}-index`
  try {
    return openFile(file, identity)
  } catch {
    for (const suffix of ["", "-wal", "-shm"]) rmSync(file + suffix, { force: true })
    return openFile(file, identity)
  }
}

export interface Candidates {
  readonly sequences: ReadonlyArray<number>
  /** When the first event of the span was received, in epoch milliseconds. */
  readonly receivedFrom: number
}

export class Index {
  private readonly log
  private readonly db: DatabaseSync
  private readonly sql
  private readonly indexed: Set<number>
  /** Once it is not, searches read the log itself. */
  private isUsable = true

  /** `log` is a connection to the journal at `path`. Throws when there can be no index. */
  constructor(log: DatabaseSync, path: string) {
    const identity = String(log.prepare("SELECT value FROM meta WHERE key = 'identity'").get()?.value)
    this.log = {
      tail: log.prepare("SELECT first FROM log ORDER BY first LIMIT 1"),
      head: log.prepare("SELECT first + count - 1 AS head FROM log ORDER BY first DESC LIMIT 1"),
      rows: log.prepare(
        `SELECT first, count, received_from, received_to, routes, keys, bytes FROM log
         WHERE first >= (SELECT coalesce(max(first), 0) FROM log WHERE first <= ?1) AND first <= ?2 ORDER BY first`,
      ),
    }
    this.db = openOrBegin(path, identity)
    this.sql = {
      insert: this.db.prepare("INSERT OR REPLACE INTO span VALUES (?, ?, ?, ?, ?, ?, ?)"),
      span: this.db.prepare("SELECT received_from, received_to, kinds FROM span WHERE number = ?"),
      kind: this.db.prepare("SELECT kind AS bytes FROM span WHERE number = ?"),
      account: this.db.prepare("SELECT account AS bytes FROM span WHERE number = ?"),
      id: this.db.prepare("SELECT id AS bytes FROM span WHERE number = ?"),
      prune: this.db.prepare("DELETE FROM span WHERE number < ?"),
    }
    this.indexed = new Set(
      this.db
        .prepare("SELECT number FROM span")
        .all()
        .map(({ number }) => Number(number)),
    )
  }

  /** Indexes the newest span that is not yet, and forgets those that the log has pruned; whether there was one to index. */
  grow(): boolean {
    if (!this.isUsable) return false
    try {
      const tail = Span.numberOf(Number(this.log.tail.get()?.first ?? 1))
      this.prune(tail)
      let number = Span.numberOf(Number(this.log.head.get()?.head ?? 0) + 1) - 1
      while (number >= tail && this.indexed.has(number)) number--
      if (number < tail) return false
      this.index(number)
      return true
    } catch (error) {
      // A disk may be full for a while.
      this.isUsable = isFull(error)
      return false
    }
  }

  private prune(tail: number): void {
    const pruned = [...this.indexed].filter((number) => number < tail)
    if (pruned.length === 0) return
    this.sql.prune.run(tail)
    for (const number of pruned) this.indexed.delete(number)
  }

  private index(number: number): void {
    const first = Span.firstOf(number)
    const rows = this.log.rows.all(first, first + Span.size - 1).map(logRowOf)
    const { receivedFrom, receivedTo, kinds, kind, account, id } = Span.make(number, rows)
    const columns = [kind(), account(), id()].map(({ buffer }) => new Uint8Array(buffer))
    this.sql.insert.run(number, receivedFrom, receivedTo, JSON.stringify(kinds), ...columns)
    this.indexed.add(number)
  }

  /** Sequences of a span that may match, from `highest` down, and since when it has events; `undefined` where it is not indexed. */
  candidates(number: number, query: EventQuery, match: Match, highest: number): Candidates | undefined {
    if (!this.isUsable || !this.indexed.has(number)) return undefined
    try {
      const row = this.sql.span.get(number)
      if (row === undefined) return undefined
      const column = (statement: Index["sql"]["id"]) => copied(statement.get(number)?.bytes)
      const columns: Columns = {
        receivedFrom: Number(row.received_from),
        receivedTo: Number(row.received_to),
        kinds: JSON.parse(String(row.kinds)) as Columns["kinds"],
        kind: () => new Uint16Array(column(this.sql.kind)),
        account: () => new Uint32Array(column(this.sql.account)),
        id: () => new Uint32Array(column(this.sql.id)),
      }
      return {
        sequences: Span.candidates(number, columns, query, match, highest),
        receivedFrom: columns.receivedFrom,
      }
    } catch {
      this.isUsable = false
      return undefined
    }
  }

  close(): void {
    this.db.close()
  }
}
