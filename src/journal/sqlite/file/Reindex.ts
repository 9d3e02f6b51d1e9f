/**
 * Rebuilds damaged indexes of retries and dead letters. A damaged index hides
 * rows without an error, so the indexes are checked at the start.
 */
import type { DatabaseSync } from "node:sqlite"

const tables = ["retry_record", "dead"] as const

/** Checking takes about a second for so many rows; more are left to `relay journal check`. */
const mostRows = 100_000

const isSound = (db: DatabaseSync, table: string): boolean =>
  db
    .prepare(`PRAGMA integrity_check(${table})`)
    .all()
    .every((row) => Object.values(row).every((text) => text === "ok"))

/** What SQLite itself calls a damaged file. */
const corrupt = (table: string): Error => Object.assign(new Error(`the table ${table} is malformed`), { errcode: 11 })

/** The tables whose indexes were rebuilt. Throws SQLite's error when more than an index is damaged. */
export const reindexDamaged = (db: DatabaseSync): ReadonlyArray<string> =>
  tables.filter((table) => {
    const rows = Number(db.prepare(`SELECT count(*) AS rows FROM ${table}`).get()?.rows)
    if (rows > mostRows || isSound(db, table)) return false
    db.prepare(`REINDEX ${table}`).run()
    if (!isSound(db, table)) throw corrupt(table)
    return true
  })
