/**
 * Opens files in SQLite.
 *
 * **Guarantee.** SQLite writes no temporary files. By default it puts them into `/var/tmp`, `/tmp` or the
 * working directory, and a full or read-only disk there would stop the journal. In memory they take a few pages
 * at a time: the pages that one settlement or one slice of an operation changes, because no statement sorts a
 * table. Only `VACUUM` needs as much space as the journal has: see `Maintenance.ts`.
 */
import { lstatSync } from "node:fs"
import { resolve } from "node:path"
import { DatabaseSync } from "node:sqlite"

/** Opens the file at a path, or creates it. Throws SQLite's errors. */
export const connect = (path: string, options: { readonly readOnly?: boolean } = {}): DatabaseSync => {
  // The path is absolute, because SQLite treats `:memory:` and `file:` at the start of a path specially.
  const db = new DatabaseSync(resolve(path), options)
  db.prepare("PRAGMA temp_store = MEMORY").run()
  // On macOS a sync leaves data in the disk's own cache without these; other systems ignore them.
  db.prepare("PRAGMA fullfsync = ON").run()
  db.prepare("PRAGMA checkpoint_fullfsync = ON").run()
  return db
}

/** Opens a file of the relay next to the journal, but not through a link. */
export const connectBeside = (file: string): DatabaseSync => {
  if (lstatSync(file, { throwIfNoEntry: false })?.isFile() === false) throw new Error(`${file} is not a file`)
  return connect(file)
}

/** Returns the primary code of an extended result code. */
export const primary = (code: number): number => code & 0xff

/** Returns SQLite's extended result code, or 0 if the error isn't SQLite's. */
export const errorCode = (error: unknown): number =>
  typeof error === "object" && error !== null && "errcode" in error && typeof error.errcode === "number"
    ? error.errcode
    : 0

/** The message of an error. */
export const words = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** The file is damaged, or isn't a database. */
export const isCorrupt = (error: unknown): boolean => [11, 26].includes(primary(errorCode(error)))

/** An error with SQLite's code for a damaged file. */
export const malformed = (what: string): Error => Object.assign(new Error(what), { errcode: 11 })

/**
 * Returns the rows of a table. Throws if their sequences don't rise from `after`: SQLite returns rows of a
 * damaged page in any order, and a reader that continues after the last one would never end.
 */
export const rising = <A>(table: string, rows: ReadonlyArray<A>, after: number, sequenceOf: (row: A) => number) => {
  let last = after
  for (const row of rows) {
    const sequence = sequenceOf(row)
    if (!(sequence > last)) throw malformed(`the rows of the table ${table} are not in their order`)
    last = sequence
  }
  return rows
}

/** Another connection or process holds a lock. */
export const isBusy = (error: unknown): boolean => [5, 6].includes(primary(errorCode(error)))

/** 13 is a full disk. 778 (a failed write) is the result of a file size limit or a quota. */
export const isFull = (error: unknown): boolean => primary(errorCode(error)) === 13 || errorCode(error) === 778

/** Reports a lasting error: data written before it can't be trusted any more. */
export const isFinal = (error: unknown): boolean =>
  !isFull(error) && [0, 10, 11, 26].includes(primary(errorCode(error)))

/** Runs `work` between BEGIN IMMEDIATE and COMMIT. When this returns, either all of it is on disk, or none. */
export const transactions = (db: DatabaseSync): (<A>(work: () => A) => A) => {
  const begin = db.prepare("BEGIN IMMEDIATE")
  const commit = db.prepare("COMMIT")
  const rollback = db.prepare("ROLLBACK")
  return (work) => {
    begin.run()
    try {
      const result = work()
      commit.run()
      return result
    } catch (error) {
      if (db.isTransaction) {
        try {
          rollback.run()
        } catch {
          // The first error decides.
        }
      }
      throw error
    }
  }
}
