/**
 * The lanes' cursors on disk: one row per lane with a checksum, and a list of all names.
 *
 * **Guarantee.** A damaged cursor is never used, and a lane with a missing row is noticed: either would skip
 * events silently. Such a lane is reported as lost, and starts again at the oldest stored event. It sends some
 * events twice and skips none.
 */
import type { DatabaseSync } from "node:sqlite"
import { crc32 } from "node:zlib"
import { orUndefined } from "../../../event/Tolerance.ts"
import type { Mute, Paused } from "../../LaneInfo.ts"
import type { Cursor } from "../../Settlement.ts"
import { int, meta, setMeta } from "./Rows.ts"

interface LaneRow {
  readonly name: string
  readonly cursor: Cursor
  readonly paused: Paused
  /** Milliseconds. */
  readonly pausedFor: number
  readonly mute?: Mute
}

/** The lanes in the rows. */
export interface FoundLanes {
  readonly rows: ReadonlyArray<LaneRow>
  /** Lanes whose rows are damaged or missing. */
  readonly lost: ReadonlyArray<string>
  /** True if a row is damaged or missing: see `repair`. */
  readonly damaged: boolean
  /** True if there is a list of names that isn't damaged. */
  readonly isListed: boolean
}

const checksum = (name: string, sequence: number, settled: string): number =>
  crc32(JSON.stringify([name, sequence, settled]))

const listed = (names: ReadonlyArray<string>): string => {
  const text = JSON.stringify(names)
  return `${crc32(text)} ${text}`
}

/** A pause as the table has it: 0 is none, 1 has no end, and any other number is its end. */
const pausedOf = (stored: number): Paused => (stored > 1 ? stored : stored === 1)

const stored = (mute: Mute | undefined): string => (mute === undefined ? "" : JSON.stringify(mute))

const muteOf = (stored: string) => orUndefined(() => JSON.parse(stored) as Mute)

const rangesOf = (settled: string) => orUndefined(() => JSON.parse(settled) as Cursor["settled"])

/** Returns the names of a list, or `undefined` if there is none or it is damaged. */
const namesOf = (list: string | undefined): ReadonlyArray<string> | undefined => {
  const [, crc, text] = /^(\d+) (.*)$/s.exec(list ?? "") ?? []
  return text !== undefined && Number(crc) === crc32(text) ? (JSON.parse(text) as ReadonlyArray<string>) : undefined
}

/** The table `lane`, and the list of names in `meta`. */
export class CursorRows {
  readonly #db: DatabaseSync
  readonly #sql

  constructor(db: DatabaseSync) {
    this.#db = db
    this.#sql = {
      all: db.prepare("SELECT name, cursor, settled, paused, paused_for, mute, crc FROM lane ORDER BY name"),
      names: db.prepare("SELECT name FROM lane ORDER BY name"),
      insert: db.prepare(
        "INSERT OR IGNORE INTO lane (name, cursor, settled, paused, paused_for, mute, crc) VALUES (?, ?, ?, ?, ?, ?, ?)",
      ),
      move: db.prepare("UPDATE lane SET cursor = ?, settled = ?, crc = ?, paused_for = ? WHERE name = ?"),
      pause: db.prepare("UPDATE lane SET paused = ?, mute = ? WHERE name = ?"),
      delete: db.prepare("DELETE FROM lane WHERE name = ?"),
      deleteAll: db.prepare("DELETE FROM lane"),
    }
  }

  find(): FoundLanes {
    const rows: Array<LaneRow> = []
    let damaged = false
    for (const { name, cursor, settled, paused, paused_for, mute, crc } of this.#sql.all.all()) {
      const row = { name: String(name), sequence: Number(cursor), settled: String(settled) }
      const ranges = rangesOf(row.settled)
      if (ranges === undefined || crc !== checksum(row.name, row.sequence, row.settled)) {
        damaged = true
        continue
      }
      const at = { sequence: row.sequence, settled: ranges }
      const rule = muteOf(String(mute))
      const pause = { paused: pausedOf(int(paused)), ...(rule !== undefined && { mute: rule }) }
      rows.push({ name: row.name, cursor: at, ...pause, pausedFor: Number(paused_for) })
    }
    const known = new Set(rows.map(({ name }) => name))
    const names = namesOf(meta(this.#db, "lanes"))
    const lost = (names ?? []).filter((name) => !known.has(name))
    return { rows, lost, damaged: damaged || lost.length > 0, isListed: names !== undefined }
  }

  /**
   * Keeps the rows that were found, and starts the lost lanes after `sequence`. It runs within the caller's
   * transaction.
   */
  repair({ rows, lost }: FoundLanes, sequence: number): void {
    this.#sql.deleteAll.run()
    for (const row of rows) this.#put(row)
    for (const name of lost) this.#put({ name, cursor: { sequence, settled: [] }, paused: false, pausedFor: 0 })
    this.list()
  }

  insert(names: ReadonlyArray<string>, sequence: number): void {
    for (const name of names) this.#put({ name, cursor: { sequence, settled: [] }, paused: false, pausedFor: 0 })
    this.list()
  }

  move(name: string, { sequence, settled }: Cursor, pausedFor: number): void {
    const ranges = JSON.stringify(settled)
    this.#sql.move.run(sequence, ranges, checksum(name, sequence, ranges), pausedFor, name)
  }

  setPaused(name: string, paused: Paused, mute?: Mute): void {
    this.#sql.pause.run(Number(paused), stored(mute), name)
  }

  delete(name: string): void {
    this.#sql.delete.run(name)
    this.list()
  }

  #put({ name, cursor: { sequence, settled }, paused, pausedFor, mute }: LaneRow): void {
    const ranges = JSON.stringify(settled)
    const pause = [Number(paused), pausedFor, stored(mute)]
    this.#sql.insert.run(name, sequence, ranges, ...pause, checksum(name, sequence, ranges))
  }

  /** Writes the list of names. It is called after each change, and at the start if the list is missing. */
  list(): void {
    setMeta(this.#db, "lanes", listed(this.#sql.names.all().map(({ name }) => String(name))))
  }
}
