/**
 * Rebuilds damaged indexes of retries and dead letters. A damaged index hides rows without an error, so the
 * indexes are checked at the start.
 */
import type { DatabaseSync } from "node:sqlite"
import { malformed } from "../rows/SqliteConnection.ts"

const tables = ["retry_record", "dead"] as const

/** Maximum rows to check, which takes about a second. More are left to `relay journal check`. */
const mostRows = 100_000

/**
 * Returns the result of SQLite's own check: `ok` if it finds nothing. `what` is a table, or the maximum number
 * of problems for a check of all tables.
 */
export const integrity = (db: DatabaseSync, what: string): ReadonlyArray<string> =>
  db
    .prepare(`PRAGMA integrity_check(${what})`)
    .all()
    .flatMap((row) => Object.values(row).map(String))

const isSound = (db: DatabaseSync, table: string): boolean => integrity(db, table).every((text) => text === "ok")

/** Returns the tables whose indexes were rebuilt. Throws SQLite's error if more than an index is damaged. */
export const reindexDamaged = (db: DatabaseSync): ReadonlyArray<string> =>
  tables.filter((table) => {
    const rows = Number(db.prepare(`SELECT count(*) AS rows FROM ${table}`).get()?.rows)
    if (rows > mostRows || isSound(db, table)) return false
    db.prepare(`REINDEX ${table}`).run()
    if (!isSound(db, table)) throw malformed(`the table ${table} is malformed`)
    return true
  })
