/**
 * Where lanes stand, on disk: a row each with a checksum, and once more the
 * list of their names.
 *
 * **Promise.** A cursor that is not what was written is never believed, and a
 * lane whose row is gone is missed: either would skip events without a word.
 * Such a lane is reported as lost. Begun again at the oldest event that is kept,
 * it sends some twice and skips none.
 *
 * A row without a checksum is an older relay's, and is believed.
 */
import type { DatabaseSync } from "node:sqlite"
import { crc32 } from "node:zlib"
import type { Cursor } from "../Journal.ts"
import { meta, setMeta } from "./file/Meta.ts"

export interface LaneRow {
  readonly name: string
  readonly cursor: Cursor
  readonly paused: boolean
  /** Milliseconds. */
  readonly pausedFor: number
}

export interface Found {
  readonly rows: ReadonlyArray<LaneRow>
  /** Lanes whose rows are damaged or gone. */
  readonly lost: ReadonlyArray<string>
  /** Something is not as it was written: `repair` makes it whole. */
  readonly damaged: boolean
  /** The list of names is there, and sound. */
  readonly isListed: boolean
}

const checksum = (name: string, sequence: number, settled: string): number =>
  crc32(JSON.stringify([name, sequence, settled]))

const listed = (names: ReadonlyArray<string>): string => {
  const text = JSON.stringify(names)
  return `${crc32(text)} ${text}`
}

const rangesOf = (settled: string): Cursor["settled"] | undefined => {
  try {
    return JSON.parse(settled) as Cursor["settled"]
  } catch {
    return undefined
  }
}

/** The names of a list; `undefined` when there is none, or it is damaged. */
const namesOf = (list: string | undefined): ReadonlyArray<string> | undefined => {
  const [, crc, text] = /^(\d+) (.*)$/s.exec(list ?? "") ?? []
  return text !== undefined && Number(crc) === crc32(text) ? (JSON.parse(text) as ReadonlyArray<string>) : undefined
}

export class CursorRows {
  private readonly db: DatabaseSync
  private readonly sql

  constructor(db: DatabaseSync) {
    this.db = db
    this.sql = {
      all: db.prepare("SELECT name, cursor, settled, paused, paused_for, crc FROM lane ORDER BY name"),
      names: db.prepare("SELECT name FROM lane ORDER BY name"),
      insert: db.prepare(
        "INSERT OR IGNORE INTO lane (name, cursor, settled, paused, paused_for, crc) VALUES (?, ?, ?, ?, ?, ?)",
      ),
      move: db.prepare("UPDATE lane SET cursor = ?, settled = ?, crc = ?, paused_for = ? WHERE name = ?"),
      pause: db.prepare("UPDATE lane SET paused = ? WHERE name = ?"),
      delete: db.prepare("DELETE FROM lane WHERE name = ?"),
      deleteAll: db.prepare("DELETE FROM lane"),
    }
  }

  find(): Found {
    const rows: Array<LaneRow> = []
    let damaged = false
    for (const { name, cursor, settled, paused, paused_for, crc } of this.sql.all.all()) {
      const row = { name: String(name), sequence: Number(cursor), settled: String(settled) }
      const ranges = rangesOf(row.settled)
      if (ranges === undefined || (crc !== null && crc !== checksum(row.name, row.sequence, row.settled))) {
        damaged = true
        continue
      }
      const at = { sequence: row.sequence, settled: ranges }
      rows.push({ name: row.name, cursor: at, paused: paused === 1, pausedFor: Number(paused_for) })
    }
    const known = new Set(rows.map(({ name }) => name))
    const names = namesOf(meta(this.db, "lanes"))
    const lost = (names ?? []).filter((name) => !known.has(name))
    return { rows, lost, damaged: damaged || lost.length > 0, isListed: names !== undefined }
  }

  /** Keeps what was found sound, and begins the lost lanes after `sequence`. Within a transaction of the caller's. */
  repair({ rows, lost }: Found, sequence: number): void {
    this.sql.deleteAll.run()
    for (const row of rows) this.put(row)
    for (const name of lost) this.put({ name, cursor: { sequence, settled: [] }, paused: false, pausedFor: 0 })
    this.list()
  }

  /** A lane that is there already stays as it is. */
  insert(name: string, sequence: number): void {
    this.put({ name, cursor: { sequence, settled: [] }, paused: false, pausedFor: 0 })
    this.list()
  }

  move(name: string, { sequence, settled }: Cursor, pausedFor: number): void {
    const ranges = JSON.stringify(settled)
    this.sql.move.run(sequence, ranges, checksum(name, sequence, ranges), pausedFor, name)
  }

  setPaused(name: string, paused: boolean): void {
    this.sql.pause.run(paused ? 1 : 0, name)
  }

  delete(name: string): void {
    this.sql.delete.run(name)
    this.list()
  }

  private put({ name, cursor: { sequence, settled }, paused, pausedFor }: LaneRow): void {
    const ranges = JSON.stringify(settled)
    this.sql.insert.run(name, sequence, ranges, paused ? 1 : 0, pausedFor, checksum(name, sequence, ranges))
  }

  /** Writes the names down: with each change, and where an older relay has not. */
  list(): void {
    setMeta(this.db, "lanes", listed(this.sql.names.all().map(({ name }) => String(name))))
  }
}
