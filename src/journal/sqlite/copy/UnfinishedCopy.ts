/**
 * The file of a copy that is not complete: a journal, and how far the copy has come.
 *
 * **Guarantee.** The position is stored in the transaction of the events that it
 * counts, so a copy that was interrupted goes on behind them. One of a source
 * that has changed since begins again.
 */
import { createHash, randomBytes } from "node:crypto"
import { chmodSync, existsSync, rmSync } from "node:fs"
import type { DatabaseSync } from "node:sqlite"
import type { CopySource } from "../../JournalCopy.ts"
import { CommitBatch } from "../../stream/CommitBatch.ts"
import { keyOf } from "../../stream/DuplicateKey.ts"
import type { Stored } from "../../stream/Record.ts"
import { CursorRows } from "../rows/CursorRows.ts"
import { LogRows } from "../rows/LogRows.ts"
import { meta, setMeta } from "../rows/Meta.ts"
import { migrate } from "../rows/Migrations.ts"
import { OutcomeRows } from "../rows/OutcomeRows.ts"
import { tolerant } from "../rows/Rows.ts"
import { connect } from "../rows/SqliteConnection.ts"
import { transactions } from "../rows/SqliteErrors.ts"

interface Position {
  readonly source: string
  /** The number of the pass over the source: 0 takes what every lane has settled, 1 what one still waits for. */
  pass: number
  /** The stream that is read, by its index in the source, and the last of its events that was seen. */
  stream: number
  after: number
  /** The next sequence in the new log. */
  next: number
  /** Below it every lane has settled all. */
  owedFrom: number
  events: number
  /** The settled ranges of each lane above, in the new log. */
  readonly settled: Array<readonly [lane: string, ranges: Array<[from: number, to: number]>]>
}

/** The mark that tells a source from another, and from itself after a relay has used it or events were erased. */
const fingerprint = ({ streams, erasures }: CopySource): string =>
  createHash("sha256")
    .update(JSON.stringify([erasures, streams.map(({ name, last, lanes }) => [name, last, lanes])]))
    .digest("hex")

const startOf = (source: CopySource): Position => {
  const lanes = new Set(source.streams.flatMap(({ lanes }) => lanes.map(({ name }) => name)))
  return {
    source: fingerprint(source),
    pass: 0,
    stream: 0,
    after: 0,
    next: 1,
    owedFrom: 1,
    events: 0,
    settled: Array.from(lanes, (name) => [name, []]),
  }
}

const key = "copy"

/** A copy that is being written. Throws SQLite's errors. */
export class UnfinishedCopy {
  readonly position: Position
  /** Events that an earlier try has copied. */
  readonly known: number
  readonly db: DatabaseSync
  readonly outcomes: OutcomeRows
  readonly transaction
  readonly #path: string
  readonly #batch = new CommitBatch()
  readonly #lanes: ReadonlyMap<string, Array<[number, number]>>
  readonly #log: LogRows
  readonly #note
  readonly #setPlace
  readonly #place

  /** Goes on with the copy at this path, or begins one. */
  constructor(path: string, source: CopySource) {
    this.#path = path
    const unfinished = this.#opened(source)
    this.db = unfinished?.db ?? this.#begun()
    this.position = unfinished?.position ?? startOf(source)
    this.known = this.position.events
    this.#lanes = new Map(this.position.settled)
    this.outcomes = new OutcomeRows(this.db)
    this.transaction = transactions(this.db)
    this.#log = new LogRows(this.db, () => {})
    this.#note = this.db.prepare("INSERT OR IGNORE INTO copied (stream, sequence) VALUES (?, ?)")
    this.#setPlace = this.db.prepare("UPDATE copied SET place = ? WHERE stream = ? AND sequence = ?")
    this.#place = this.db.prepare("SELECT place FROM copied WHERE stream = ? AND sequence = ?")
  }

  /** The place in the new log of this event of a stream will be asked for: something of a lane stands beside the log. */
  note(stream: number, sequence: number): void {
    this.#note.run(stream, sequence)
  }

  /** The place of an event that was noted; `undefined` where the log did not have it. */
  placeOf(stream: number, sequence: number): number | undefined {
    const place = this.#place.get(stream, sequence)?.place
    return typeof place === "number" ? place : undefined
  }

  /** Appends an event of a stream, and gives its place. */
  add(stream: number, { entry, origin }: Stored): number {
    const { event, sinks, sequence } = entry
    const { position } = this
    if (this.#batch.isEmpty) this.#batch.clear(position.next)
    this.#batch.add(event, sinks, origin, keyOf(event))
    this.#setPlace.run(position.next, stream, sequence)
    if (this.#batch.isFull) this.#flush()
    return position.next++
  }

  /** This lane has settled the event at a place above what all have settled. */
  settled(lane: string, place: number): void {
    const ranges = this.#lanes.get(lane)
    const last = ranges?.at(-1)
    if (last?.[1] === place - 1) last[1] = place
    else ranges?.push([place, place])
  }

  /** Writes what was added, and the position. It belongs at the end of a transaction. */
  save(): void {
    this.#flush()
    setMeta(this.db, key, JSON.stringify(this.position))
  }

  /** Writes the lanes, and takes out what only a copy needs. */
  complete(source: CopySource): void {
    this.#flush()
    const rows = new CursorRows(this.db)
    const { owedFrom } = this.position
    for (const [name, settled] of this.#lanes) {
      const waits = source.streams.flatMap(({ lanes }) => lanes.filter((lane) => lane.name === name))
      rows.insert([name], owedFrom - 1)
      rows.move(name, { sequence: owedFrom - 1, settled }, Math.max(...waits.map(({ pausedFor }) => pausedFor)))
      const { paused = false, mute } = source.paused.get(name) ?? {}
      rows.setPaused(name, paused, mute)
    }
    this.db.prepare("DROP TABLE copied").run()
    this.db.prepare("DELETE FROM meta WHERE key = ?").run(key)
  }

  close(): void {
    if (this.db.isOpen) this.db.close()
  }

  #flush(): void {
    const batch = this.#batch
    if (batch.isEmpty) return
    this.#log.insert(batch)
    batch.clear(0)
  }

  #opened(source: CopySource): { readonly db: DatabaseSync; readonly position: Position } | undefined {
    if (!existsSync(this.#path)) return undefined
    const db = connect(this.#path)
    const position = tolerant(() => {
      migrate(db, this.#path)
      return JSON.parse(meta(db, key) ?? "") as Position
    })
    if (position?.source === fingerprint(source)) return { db, position }
    db.close()
    return undefined
  }

  #begun(): DatabaseSync {
    // A journal of SQLite's that outlives its file would be played back into the next one.
    for (const suffix of ["", "-journal"]) rmSync(`${this.#path}${suffix}`, { force: true })
    const db = connect(this.#path)
    chmodSync(this.#path, 0o600)
    db.prepare("PRAGMA page_size = 32768").run()
    migrate(db, this.#path)
    setMeta(db, "identity", randomBytes(16).toString("hex"))
    db.prepare(
      `CREATE TABLE copied (
        stream INTEGER NOT NULL, sequence INTEGER NOT NULL, place INTEGER, PRIMARY KEY (stream, sequence)
      ) STRICT, WITHOUT ROWID`,
    ).run()
    return db
  }
}
