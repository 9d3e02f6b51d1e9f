/**
 * Opens a damaged journal for reading. A file that SQLite refuses is copied, and the copy is repaired from a
 * new journal, whose tables begin on the same pages. The repair replaces the header, which also holds the
 * file's length, or the whole first page.
 */
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { DatabaseSync } from "node:sqlite"
import { codeOf } from "../../../runtime/Errors.ts"
import { withFile } from "../../../runtime/Files.ts"
import { current, migrate, version } from "../rows/Migrations.ts"
import { connect } from "../rows/SqliteConnection.ts"

export interface Readable {
  /** The open journal, or `undefined` if not even a repaired copy can be opened. */
  readonly db: DatabaseSync | undefined
  /** True if it is the file itself, not a copy. */
  readonly isOriginal: boolean
  readonly close: () => void
}

const headerBytes = 100
const usualPage = 32_768

/** A version that is higher than this relay's by this much or more is damage, not a newer relay's version. */
const damagedFrom = 1_000

/** Reports whether a newer relay wrote the file. This relay doesn't know its tables. */
export const isNewer = (db: DatabaseSync): boolean => version(db) > current && version(db) < current + damagedFrom

/** Reports whether the tables can be queried. */
const isReadable = (db: DatabaseSync): boolean => {
  const found = version(db)
  if (isNewer(db)) return true
  if (found < 1 || found > current) return false
  for (const table of ["meta", "lane", "log"]) db.prepare(`SELECT * FROM ${table}`)
  return true
}

const tryOpen = (path: string, readOnly: boolean): DatabaseSync | undefined => {
  let db: DatabaseSync | undefined
  try {
    db = connect(path, { readOnly })
    db.prepare("PRAGMA busy_timeout = 5000").get()
    if (isReadable(db)) return db
  } catch {
    // A repaired copy may still open.
  }
  db?.close()
  return undefined
}

/** Returns the first page of a newly created journal. */
const newPage = (directory: string): Buffer => {
  const path = join(directory, "new.db")
  const db = connect(path)
  db.prepare(`PRAGMA page_size = ${usualPage}`).run()
  migrate(db, path)
  db.close()
  const bytes = readFileSync(path)
  rmSync(path)
  return bytes.subarray(0, usualPage)
}

const headerOf = (file: string): Buffer => {
  const header = Buffer.alloc(headerBytes)
  if (!existsSync(file)) return header
  withFile(file, "r", (fd) => readSync(fd, header, 0, headerBytes, 0))
  return header
}

const isHeader = (bytes: Buffer): boolean => bytes.subarray(0, 16).toString("latin1") === "SQLite format 3\0"

/** The repairs of a copy, the smallest change first. */
const repairs: ReadonlyArray<(file: string, directory: string) => void> = [
  (file, directory) => replaceStart(file, directory, headerBytes),
  (file, directory) => replaceStart(file, directory, usualPage),
]

const replaceStart = (file: string, directory: string, length: number): void => {
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0
  const pages = Math.max(1, Math.ceil(size / usualPage))
  const first = newPage(directory)
  // In WAL mode, with this many pages and no free ones. The change counter makes the number valid.
  first.writeUInt16BE(0x0202, 18)
  first.writeUInt32BE(pages, 28)
  first.fill(0, 32, 40)
  first.copy(first, 92, 24, 28)
  withFile(file, size === 0 ? "w" : "r+", (fd) => writeSync(fd, first, 0, length, 0))
  truncateSync(file, pages * usualPage)
}

/** Reports whether anything of a journal exists: its file, or only the write-ahead log of a deleted file. */
export const isThere = (path: string): boolean => existsSync(path) || existsSync(`${path}-wal`)

/** Creates a directory for copies, readable by this user only. */
const scratch = (directory: string): string => {
  try {
    return mkdtempSync(join(directory, ".relay-salvage-"))
  } catch (error) {
    if (!["EACCES", "EPERM", "EROFS"].includes(codeOf(error))) throw error
    return mkdtempSync(join(tmpdir(), "relay-salvage-"))
  }
}

/**
 * Opens the journal at `path`. Copies are created in `directory`, or in the system's temporary directory if
 * that can't be written. They are deleted when the result is closed.
 */
export const openReadable = (path: string, directory: string): Readable => {
  // For an empty file, SQLite would delete the write-ahead log next to it.
  const original = isHeader(headerOf(path)) ? tryOpen(path, true) : undefined
  if (original !== undefined) return { db: original, isOriginal: true, close: () => original.close() }
  const work = scratch(directory)
  const remove = () => rmSync(work, { recursive: true, force: true })
  try {
    for (const [index, repair] of repairs.entries()) {
      // It also tries without the write-ahead log, because a damaged log can spoil a sound file.
      for (const suffixes of [["", "-wal"], [""]]) {
        const copy = join(work, `${index}-${suffixes.length}.db`)
        for (const suffix of suffixes) if (existsSync(path + suffix)) copyFileSync(path + suffix, copy + suffix)
        repair(copy, work)
        const db = tryOpen(copy, false)
        if (db === undefined) {
          for (const suffix of ["", "-wal", "-shm"]) rmSync(copy + suffix, { force: true })
          continue
        }
        const close = () => {
          db.close()
          remove()
        }
        return { db, isOriginal: false, close }
      }
    }
    return { db: undefined, isOriginal: false, close: remove }
  } catch (error) {
    remove()
    throw error
  }
}
