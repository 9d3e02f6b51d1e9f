/**
 * Opens the journal's file, and knows whether it is the one that was left.
 *
 * Beside `journal.db` and SQLite's own `-wal` and `-shm` lie `-lock` (held as
 * long as a relay runs on it), and `-mark` (see Mark.ts). A file that is
 * damaged, deleted or emptied is set aside as `journal.db.<time>.damaged`, and a
 * new one begun after the last sequence that is known: loudly, and `red` until
 * a person acknowledges it. What looks damaged is read again first: to SQLite a
 * disk that fails a read for a moment looks the same.
 *
 * **Trap.** POSIX drops a process's locks on a file when any descriptor of it
 * is closed: nothing here opens and closes the database's file by itself.
 */
import { randomBytes } from "node:crypto"
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, statSync } from "node:fs"
import { basename, dirname } from "node:path"
import { DatabaseSync } from "node:sqlite"
import type { JournalError } from "../../Journal.ts"
import { CursorRows } from "../CursorRows.ts"
import { type HighWaterMark, HighWaterMarkFile, read as readMark } from "./HighWaterMark.ts"
import { meta, setMeta } from "./Meta.ts"
import { migrate } from "./Migrations.ts"
import { mend } from "./Reindex.ts"
import { broken, classify, isBusy, isCorrupt, isFull, unavailable } from "./SqliteErrors.ts"

export interface Store {
  readonly path: string
  readonly db: DatabaseSync
  readonly mark: HighWaterMarkFile
  /** The highest sequence that was ever on disk. */
  readonly head: number
  /** What was found wrong when opening, in words. */
  readonly findings: ReadonlyArray<string>
  /** Says what is wrong when the file at `path` is no longer the one that is open, or was cut off. */
  readonly replaced: () => string | undefined
  /** Throws when a file was cut off since it was last looked at: what is written next would hide that. */
  readonly requireUncut: () => void
  /** A commit has come to `head`. */
  readonly reached: (head: number) => void
  readonly close: () => void
}

/** The write-ahead log is handed back to the disk above this, once it starts over. */
const walSizeLimit = 32 * 1024 * 1024

/** Holds the lock until closed. The caller keeps the reference: a collected one would drop it. */
const acquireLock = (path: string): DatabaseSync => {
  const file = `${path}-lock`
  let lock: DatabaseSync
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    lock = new DatabaseSync(file)
    // Whoever can read it can hold it against us.
    chmodSync(file, 0o600)
  } catch (error) {
    throw unavailable(`The journal ${path} can't be opened: ${reason(error)}. Its directory must be writable.`)
  }
  try {
    lock.prepare("BEGIN EXCLUSIVE").run()
    return lock
  } catch (error) {
    lock.close()
    if (!isBusy(error)) throw classify(path, error)
    throw unavailable(
      `Another relay is running on the journal ${path}: it holds the lock ${file}. Stop that one, or give this one its own "journal.path".`,
    )
  }
}

const reason = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Renames the files of a journal out of the way; the name of the first. */
const setAside = (path: string): string => {
  const stamp = new Date().toISOString().replaceAll(/[:.]/g, "-")
  const aside = `${path}.${stamp}.damaged`
  for (const suffix of ["", "-wal", "-shm"]) {
    if (existsSync(path + suffix)) renameSync(path + suffix, aside + suffix)
  }
  return aside
}

const openDatabase = (path: string): DatabaseSync => {
  const db = new DatabaseSync(path)
  try {
    chmodSync(path, 0o600)
    // A commit is one large row: large pages make an eighth of the system calls, in the log and at each checkpoint.
    db.prepare("PRAGMA page_size = 32768").run()
    db.prepare("PRAGMA journal_mode = WAL").get()
    db.prepare("PRAGMA synchronous = FULL").run()
    db.prepare("PRAGMA wal_autocheckpoint = 0").get()
    db.prepare("PRAGMA busy_timeout = 5000").get()
    db.prepare(`PRAGMA journal_size_limit = ${walSizeLimit}`).get()
    migrate(db, path)
    // The new file's pages must not lie in the WAL alone, or a lost WAL would look like an emptied journal.
    db.prepare("PRAGMA wal_checkpoint(PASSIVE)").get()
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

interface Sound {
  readonly db: DatabaseSync
  /** Tables whose indexes were built anew. */
  readonly mended: ReadonlyArray<string>
}

/** What SQLite itself calls a damaged file. */
const malformed = (what: string): Error => Object.assign(new Error(what), { errcode: 11 })

/** Reads every page. */
const requireIntegrity = (db: DatabaseSync): void => {
  const [found] = db
    .prepare("PRAGMA integrity_check(1)")
    .all()
    .flatMap((row) => Object.values(row).map(String))
  if (found !== "ok") throw malformed(found ?? "it can't be checked")
}

/**
 * Opens the file, and reads what no checksum of ours covers, and all of it where
 * it is in doubt; throws SQLite's error where that is damaged.
 */
const openSound = (path: string, isDoubted: boolean): Sound => {
  const db = openDatabase(path)
  try {
    lastSequence(db)
    meta(db, "identity")
    new CursorRows(db).find()
    const mended = mend(db)
    if (isDoubted) requireIntegrity(db)
    return { db, mended }
  } catch (error) {
    db.close()
    throw error
  }
}

/** What looks damaged is looked at again after so many milliseconds each: SQLite takes a read that failed for damage. */
const looksAfter = [50, 250, 700]

const pause = (millis: number): void => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, millis)
}

/** Opens the file once it is sound, in a second at most; `passed` is what was wrong meanwhile. */
const openPatiently = (path: string, isDoubted: boolean): { readonly sound: Sound; readonly passed?: string } => {
  let passed: string | undefined
  for (const wait of looksAfter) {
    try {
      const sound = openSound(path, isDoubted || passed !== undefined)
      return { sound, ...(passed !== undefined && { passed }) }
    } catch (error) {
      if (!isCorrupt(error)) throw error
      passed = reason(error)
      pause(wait)
    }
  }
  return { sound: openSound(path, true), ...(passed !== undefined && { passed }) }
}

/** Files that only an earlier life of this journal can have left beside it, copies of it included. */
const tracesOf = (path: string): ReadonlyArray<string> => {
  const name = basename(path)
  const trace = /^(-lock|-mark|-ballast|-wal|-shm|-index.*|\..*(damaged|backup|bak|old|copy)(-wal|-shm)?)$/
  try {
    return readdirSync(dirname(path)).filter((file) => file.startsWith(name) && trace.test(file.slice(name.length)))
  } catch {
    return []
  }
}

const number = (value: unknown): number => (typeof value === "number" ? value : 0)

/** The end of the last row, or where a new file was told to begin. */
const lastSequence = (db: DatabaseSync): number => {
  const row = db.prepare("SELECT first + count - 1 AS last FROM log ORDER BY first DESC LIMIT 1").get()
  const base = Number(meta(db, "base") ?? 0)
  return Math.max(number(row?.last), Number.isSafeInteger(base) ? base : 0)
}

/** Opens the journal at `path`; throws a `JournalError`. */
export const open = (path: string): Store => {
  const traces = tracesOf(path)
  const lock = acquireLock(path)
  try {
    return openLocked(path, lock, traces)
  } catch (error) {
    lock.close()
    throw isFull(error) || !isCorrupt(error) ? openError(path, error) : classify(path, error)
  }
}

const openError = (path: string, error: unknown): JournalError => {
  const classified = classify(path, error)
  return classified.reason._tag === "JournalUnavailable" && !(error === classified)
    ? unavailable(`The journal ${path} can't be opened: ${reason(error)}.`)
    : classified
}

const openLocked = (path: string, lock: DatabaseSync, traces: ReadonlyArray<string>): Store => {
  const findings: Array<string> = []
  const before = readMark(`${path}-mark`)
  let expected: HighWaterMark | undefined = before
  const begin = (problem: string): void => {
    const aside = setAside(path)
    const kept = existsSync(aside) || existsSync(`${aside}-wal`)
    const from =
      expected === undefined ? "at event 1: how far the old one had come is not known" : `after event ${expected.head}`
    findings.push(
      `${problem} A new journal was begun ${from}; what was pending in the old one was not delivered.${
        kept ? ` The old file is ${aside}: \`relay journal import\` delivers what it still owes.` : ""
      }`,
    )
    expected = expected === undefined ? undefined : { ...expected, identity: "" }
  }

  const there = statSync(path, { throwIfNoEntry: false })
  const gone = there === undefined || there.size === 0
  if (gone && before !== undefined) begin(`The journal ${path} was deleted or emptied.`)
  else if (gone && (there !== undefined || traces.length > 0)) {
    begin(
      `The journal ${path} is gone, or empty, and so is the mark beside it, but it was there before: ${traces.length === 0 ? path : traces.join(", ")} is left of it. Bring the journal back from a backup or from where it was moved to, or \`relay journal import\` what is left of it.`,
    )
  }

  const doubted = !gone && before?.damaged === true
  let opened: ReturnType<typeof openPatiently>
  try {
    opened = openPatiently(path, doubted)
  } catch (error) {
    if (!isCorrupt(error)) throw error
    begin(`The journal ${path} is damaged (${reason(error)}).`)
    opened = openPatiently(path, false)
  }
  const { db, mended } = opened.sound
  if (findings.length === 0 && (doubted || opened.passed !== undefined)) {
    findings.push(
      `The journal ${path} could not be read ${doubted ? "while it was in use" : `at first (${opened.passed})`}, and is sound: all of it was read again, and nothing is lost. The disk failed for a moment: look at the kernel's log.`,
    )
  }

  try {
    let identity = meta(db, "identity")
    if (identity === undefined) {
      identity = randomBytes(16).toString("hex")
      setMeta(db, "identity", identity)
    } else if (expected !== undefined && expected.identity !== identity) {
      findings.push(
        `The journal ${path} is not the file that was there before. It is used as it is; if it was put there by mistake, stop the relay and bring the old one back.`,
      )
      expected = undefined
    }
    const found = lastSequence(db)
    const cursors = new CursorRows(db).find().rows.map(({ cursor }) => cursor.sequence)
    const head = Math.max(found, expected?.head ?? 0, ...cursors)
    if (head > found) {
      // Sequences that may have been answered for are never given out again: a lane's cursor may stand above them.
      setMeta(db, "base", String(head))
      if (findings.length === 0 && expected?.identity !== "") {
        db.prepare("INSERT OR REPLACE INTO hole (first, last) VALUES (?, ?)").run(found + 1, head)
        findings.push(
          `The journal ${path} ends at event ${found}, but ${head} was on disk before: events ${found + 1} to ${head} are lost. An older copy of the file, or damage to its write-ahead log, does this.`,
        )
      }
    }
    for (const table of mended) {
      findings.push(
        `An index of the journal ${path} was damaged (table ${table}). It was built anew from what the table holds; check the disk.`,
      )
    }
    const mark = new HighWaterMarkFile(`${path}-mark`, { identity, head, damaged: false })
    const inodes = [path, `${path}-wal`].map((file) => [file, statSync(file).ino] as const)
    const sizes = new Map<string, number>()
    /** Neither file ever shrinks in use, but for the log's handing back what is above its limit. */
    const cut = (): string | undefined => {
      for (const [file] of inodes) {
        const size = statSync(file, { throwIfNoEntry: false })?.size
        if (size === undefined) continue
        if (size < Math.min(sizes.get(file) ?? 0, file === path ? Number.POSITIVE_INFINITY : walSizeLimit)) {
          mark.damaged()
          return `The file ${file} was cut off while the relay was running on it.`
        }
        sizes.set(file, size)
      }
      return undefined
    }
    const replaced = (): string | undefined => {
      for (const [file, inode] of inodes) {
        const found = statSync(file, { throwIfNoEntry: false })
        if (found === undefined) return `The file ${file} was deleted while the relay was running on it.`
        if (found.ino !== inode) return `The file ${file} was replaced while the relay was running on it.`
      }
      return cut()
    }
    const requireUncut = (): void => {
      const found = cut()
      if (found !== undefined) throw broken(`${found} What came last may be lost, so the relay stops.`)
    }
    const reached = (sequence: number): void => {
      try {
        mark.reached(sequence)
      } catch {
        // A full disk may not even take this line; a mark that lags says less, and nothing wrong.
      }
    }
    const close = (): void => {
      mark.close()
      db.close()
      lock.close()
    }
    return { path, db, mark, head, findings, replaced, requireUncut, reached, close }
  } catch (error) {
    db.close()
    throw error instanceof Error && isCorrupt(error) ? broken(classify(path, error).message) : error
  }
}
