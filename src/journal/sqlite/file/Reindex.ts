/**
 * Rebuilds damaged indexes of retries and dead letters. A damaged index hides
 * rows without an error, so the indexes are checked at the start.
 */
import type { DatabaseSync } from "node:sqlite"

const tables = ["retry_record", "dead"] as const

/** Checking takes about a second for so many rows; more are left to `relay journal check`. */
const mostRows = 100_000

/** The answer of SQLite's own check of a table, or of all of them up to so many problems: `ok` when it finds none. */
export const integrity = (db: DatabaseSync, what: string): ReadonlyArray<string> =>
  db
    .prepare(`PRAGMA integrity_check(${what})`)
    .all()
    .flatMap((row) => Object.values(row).map(String))

const isSound = (db: DatabaseSync, table: string): boolean => integrity(db, table).every((text) => text === "ok")

/** SQLite's own code for a damaged file. */
export const malformed = (what: string): Error => Object.assign(new Error(what), { errcode: 11 })

/** The tables whose indexes were rebuilt. Throws SQLite's error when more than an index is damaged. */
export const reindexDamaged = (db: DatabaseSync): ReadonlyArray<string> =>
  tables.filter((table) => {
    const rows = Number(db.prepare(`SELECT count(*) AS rows FROM ${table}`).get()?.rows)
    if (rows > mostRows || isSound(db, table)) return false
    db.prepare(`REINDEX ${table}`).run()
    if (!isSound(db, table)) throw malformed(`the table ${table} is malformed`)
    return true
  })
