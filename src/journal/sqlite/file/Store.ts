/**
 * Opens the journal's file, and checks that it is the file that was last closed.
 *
 * Next to `journal.db` and SQLite's own `-wal` and `-shm` are `-lock` (locked while a relay runs on the
 * journal) and `-mark` (see HighWaterMark.ts). A damaged, deleted or emptied file is moved aside as
 * `journal.db.<time>.damaged`, and a new one starts after the last known sequence. The journal is `red` until
 * an operator acknowledges that. A file that looks damaged is first read again, because SQLite reports even a
 * temporary read failure as damage.
 *
 * **Gotcha.** POSIX drops a process's locks on a file when any descriptor of the file is closed. So once SQLite
 * has opened the database's file, nothing else here opens it.
 */

import { randomBytes } from "node:crypto"
import { chmodSync, closeSync, existsSync, openSync, readdirSync, readSync, renameSync, statSync } from "node:fs"
import { basename, dirname } from "node:path"
import type { DatabaseSync } from "node:sqlite"
import { orUndefined } from "../../../event/Tolerance.ts"
import { broken, type JournalError, unavailable } from "../../JournalError.ts"
import { CursorRows } from "../rows/CursorRows.ts"
import { migrate } from "../rows/Migrations.ts"
import { meta, setMeta } from "../rows/Rows.ts"
import { connect, isCorrupt, isFull, malformed, words } from "../rows/SqliteConnection.ts"
import { followed } from "../SqliteConfig.ts"
import { type HighWaterMark, HighWaterMarkFile, read as readMark } from "./HighWaterMark.ts"
import { JournalLock } from "./JournalLock.ts"
import { mountedAlone } from "./OwnFiles.ts"
import { integrity, reindexDamaged } from "./Reindex.ts"
import { classify } from "./SqliteFailure.ts"

/** The index begins with two equal copies of its header. They differ while a process writes it (SQLite, walformat). */
const headerBytes = 48
const pageSizeAt = 14
const framesAt = 16
const logHeaderBytes = 32
const frameHeaderBytes = 24

/**
 * Determines how long SQLite's write-ahead log must be, from the index of the log that SQLite keeps in `-shm` for
 * all processes.
 *
 * The length alone doesn't distinguish damage from normal use: a backup tool, or `sqlite3` with a checkpoint,
 * empties the log once the journal's file has all of it. It marks that in the index first.
 *
 * **Gotcha.** Closing a descriptor of `-shm` drops the process's locks on it, so `close` must be called after
 * SQLite has closed the database.
 *
 * Reads the index of the journal at a path, which must be open in SQLite. Throws the system's errors.
 */
class WalIndex {
  readonly #fd: number
  readonly #bytes = Buffer.alloc(2 * headerBytes)
  readonly #halves = new Uint16Array(this.#bytes.buffer, this.#bytes.byteOffset, headerBytes)
  readonly #words = new Uint32Array(this.#bytes.buffer, this.#bytes.byteOffset, headerBytes / 2)

  constructor(path: string) {
    this.#fd = openSync(`${path}-shm`, "r")
  }

  /**
   * Returns the bytes that the log must have for everything that is committed. It is 0 if the log is empty, or
   * the index is being written.
   */
  requiredBytes(): number {
    const read = readSync(this.#fd, this.#bytes, 0, this.#bytes.length, 0)
    const isWhole = this.#bytes.compare(this.#bytes, headerBytes, 2 * headerBytes, 0, headerBytes) === 0
    if (read < this.#bytes.length || !isWhole) return 0
    const frames = this.#words[framesAt / 4] ?? 0
    const size = this.#halves[pageSizeAt / 2] ?? 0
    // SQLite stores 65,536 as 1.
    const pageSize = size === 1 ? 65_536 : size
    return frames === 0 ? 0 : logHeaderBytes + frames * (pageSize + frameHeaderBytes)
  }

  close(): void {
    closeSync(this.#fd)
  }
}

/** An open journal. It reports a file that has changed unexpectedly with `JournalBroken`. */
export interface Store {
  readonly path: string
  readonly db: DatabaseSync
  /** The file itself, open for reading and writing. */
  readonly descriptor: () => number
  readonly mark: HighWaterMarkFile
  /** The highest sequence that was ever on disk. */
  readonly head: number
  /** Problems found when it was opened, in words. */
  readonly problems: ReadonlyArray<string>
  /** Findings for the log that aren't losses. */
  readonly notes: ReadonlyArray<string>
  /**
   * Throws if a file was deleted or replaced while it was open, the journal is smaller than before, or the
   * write-ahead log is shorter than its committed contents. It runs before each commit, because the next write
   * would hide this, and after it.
   */
  readonly requireUnchanged: () => void
  /** Throws if another program has written to the journal, so that it no longer ends at `head`. */
  readonly requireEnd: (head: number) => void
  /** Records that a commit has reached `head`. */
  readonly reached: (head: number) => void
  readonly close: () => void
}

/** The write-ahead log is truncated to this size when it starts over. */
const walSizeLimit = 32 * 1024 * 1024

/** Renames the files of a journal out of the way. Returns the name of the first. */
const setAside = (path: string): string => {
  const stamp = new Date().toISOString().replaceAll(/[:.]/g, "-")
  const aside = `${path}.${stamp}.damaged`
  for (const suffix of ["", "-wal", "-shm"]) {
    if (existsSync(path + suffix)) renameSync(path + suffix, aside + suffix)
  }
  return aside
}

const openDatabase = (path: string): DatabaseSync => {
  const db = connect(path)
  try {
    chmodSync(path, 0o600)
    // A commit is one large row, so large pages take an eighth of the system calls, in the log and at each
    // checkpoint.
    db.prepare("PRAGMA page_size = 32768").run()
    db.prepare("PRAGMA journal_mode = WAL").get()
    db.prepare("PRAGMA synchronous = FULL").run()
    db.prepare("PRAGMA wal_autocheckpoint = 0").get()
    db.prepare("PRAGMA busy_timeout = 5000").get()
    db.prepare(`PRAGMA journal_size_limit = ${walSizeLimit}`).get()
    migrate(db, path)
    // The new file's pages must not be in the write-ahead log alone. Otherwise a lost log would look like an
    // emptied journal.
    db.prepare("PRAGMA wal_checkpoint(PASSIVE)").get()
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

interface Sound {
  readonly db: DatabaseSync
  /** Tables whose indexes were rebuilt. */
  readonly reindexed: ReadonlyArray<string>
}

/** Reads and checks every page. */
const requireIntegrity = (db: DatabaseSync): void => {
  const [found] = integrity(db, "1")
  if (found !== "ok") throw malformed(found ?? "it can't be checked")
}

/**
 * Opens the file, and checks the parts that no checksum covers, or all of it. Throws SQLite's error if that is
 * damaged.
 */
const openSound = (path: string, checkAll: boolean): Sound => {
  const db = openDatabase(path)
  try {
    lastSequence(db)
    meta(db, "identity")
    new CursorRows(db).find()
    const reindexed = reindexDamaged(db)
    if (checkAll) requireIntegrity(db)
    return { db, reindexed }
  } catch (error) {
    db.close()
    throw error
  }
}

/** Milliseconds after which a file that looks damaged is read again: a temporary read failure looks like damage. */
const looksAfter = [50, 250, 700]

const pause = (millis: number): void => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, millis)
}

/** Opens the file, and retries for a second while it looks damaged. `passed` is the problem that went away. */
const openWithRetries = (path: string, checkAll: boolean): { readonly sound: Sound; readonly passed?: string } => {
  let passed: string | undefined
  for (const wait of looksAfter) {
    try {
      const sound = openSound(path, checkAll || passed !== undefined)
      return { sound, ...(passed !== undefined && { passed }) }
    } catch (error) {
      if (!isCorrupt(error)) throw error
      passed = words(error)
      pause(wait)
    }
  }
  return { sound: openSound(path, true), ...(passed !== undefined && { passed }) }
}

/** Files left by an earlier journal of this name, including copies of it. */
const tracesOf = (path: string): ReadonlyArray<string> => {
  const name = basename(path)
  const trace = /^(-lock|-mark|-hour|-ballast|-wal|-shm|-index.*|\..*(damaged|backup|bak|old|copy)(-wal|-shm)?)$/
  const files = orUndefined(() => readdirSync(dirname(path))) ?? []
  return files.filter((file) => file.startsWith(name) && trace.test(file.slice(name.length)))
}

const number = (value: unknown): number => (typeof value === "number" ? value : 0)

/** The end of the last row, or the sequence after which a new file starts. */
const lastSequence = (db: DatabaseSync): number => {
  const row = db.prepare("SELECT first + count - 1 AS last FROM log ORDER BY first DESC LIMIT 1").get()
  const base = Number(meta(db, "base") ?? 0)
  return Math.max(number(row?.last), Number.isSafeInteger(base) ? base : 0)
}

const requireDirectory = (path: string): void => {
  const problem = mountedAlone(path)
  if (problem !== undefined) throw unavailable(`The journal can't be opened: ${problem}.`)
}

/** Opens the journal at a path. Throws a `JournalError`. */
export const open = (link: string): Store => {
  const path = followed(link)
  const traces = tracesOf(path)
  const lock = new JournalLock(path)
  try {
    lock.holdFile()
    requireDirectory(path)
    return openLocked(path, lock, traces)
  } catch (error) {
    lock.close()
    throw isFull(error) || !isCorrupt(error) ? openError(path, error) : classify(path, error)
  }
}

const openError = (path: string, error: unknown): JournalError => {
  const classified = classify(path, error)
  return classified.reason._tag === "JournalUnavailable" && !(error === classified)
    ? unavailable(`The journal ${path} can't be opened: ${words(error)}.`)
    : classified
}

/** A journal that is being opened. */
interface Opening {
  readonly path: string
  readonly problems: Array<string>
  /** The former file's mark. Its identity is empty after a new file was started. */
  expected: HighWaterMark | undefined
}

/** Moves the file aside, so that a new one starts after the last known sequence. */
const startNew = (opening: Opening, problem: string): void => {
  const { path, problems, expected } = opening
  const aside = setAside(path)
  const kept = existsSync(aside) || existsSync(`${aside}-wal`)
  const from =
    expected === undefined ? "at event 1: the end of the old one is not known" : `after event ${expected.head}`
  problems.push(
    `${problem} A new journal was started ${from}; pending events of the old one were not delivered.${
      kept ? ` The old file is ${aside}: \`relay journal import\` delivers its undelivered events.` : ""
    }`,
  )
  if (expected !== undefined) opening.expected = { ...expected, identity: "" }
}

/** Opens the file, or starts a new one if it is missing or damaged. */
const openOrStartNew = (opening: Opening, traces: ReadonlyArray<string>): Sound => {
  const { path, problems, expected: before } = opening
  const there = statSync(path, { throwIfNoEntry: false })
  const isMissing = there === undefined || there.size === 0
  if (isMissing && before !== undefined) startNew(opening, `The journal ${path} was deleted or emptied.`)
  else if (isMissing && traces.length > 0) {
    startNew(
      opening,
      `The journal ${path} is gone, or empty, and so is the mark beside it, but it was there before: ${traces.join(", ")} is left of it. Bring the journal back from a backup or from where it was moved to, or \`relay journal import\` what is left of it.`,
    )
  }
  const checkAll = !isMissing && before?.damaged === true
  try {
    const { sound, passed } = openWithRetries(path, checkAll)
    if (problems.length === 0 && (checkAll || passed !== undefined)) {
      problems.push(
        `The journal ${path} could not be read ${checkAll ? "while it was in use" : `at first (${passed})`}, and is sound: all of it was read again, and nothing is lost. The disk failed for a moment: look at the kernel's log.`,
      )
    }
    return sound
  } catch (error) {
    if (!isCorrupt(error)) throw error
    startNew(opening, `The journal ${path} is damaged (${words(error)}).`)
    return openWithRetries(path, false).sound
  }
}

/** Returns the file's identity. A new file gets one. */
const identityOf = (db: DatabaseSync, opening: Opening): string => {
  const { path, problems, expected } = opening
  const known = meta(db, "identity")
  if (known === undefined) {
    const identity = randomBytes(16).toString("hex")
    setMeta(db, "identity", identity)
    return identity
  }
  if (expected !== undefined && expected.identity !== known) {
    problems.push(
      `The journal ${path} is not the file that was there before. It is used as it is; if it was put there by mistake, stop the relay and bring the old one back.`,
    )
    opening.expected = undefined
  }
  return known
}

/** Returns the highest sequence that was ever on disk. Sequences missing below it are reported as lost. */
const headOf = (db: DatabaseSync, { path, problems, expected }: Opening): number => {
  const found = lastSequence(db)
  const cursors = new CursorRows(db).find().rows.map(({ cursor }) => cursor.sequence)
  const head = Math.max(found, expected?.head ?? 0, ...cursors)
  if (head === found) return head
  // Sequences that may have been acknowledged are never assigned again: a lane's cursor may be above them.
  setMeta(db, "base", String(head))
  if (problems.length === 0 && expected?.identity !== "") {
    db.prepare("INSERT OR REPLACE INTO hole (first, last) VALUES (?, ?)").run(found + 1, head)
    problems.push(
      `The journal ${path} ends at event ${found}, but ${head} was on disk before: events ${found + 1} to ${head} are lost. An older copy of the file, or damage to its write-ahead log, does this.`,
    )
  }
  return head
}

/** Detects that a file was deleted, replaced or cut off since it was opened. */
const watching = (path: string, mark: HighWaterMarkFile, index: WalIndex): (() => void) => {
  let size = 0
  const files = [
    { file: path, inode: statSync(path).ino, leastBytes: () => size },
    { file: `${path}-wal`, inode: statSync(`${path}-wal`).ino, leastBytes: () => index.requiredBytes() },
  ]
  const changed = (): string | undefined => {
    for (const known of files) {
      const found = statSync(known.file, { throwIfNoEntry: false })
      if (found === undefined) {
        const gone = existsSync(dirname(path)) ? `file ${known.file}` : `directory ${dirname(path)} of the journal`
        return `The ${gone} was deleted while the relay was running on it.`
      }
      if (found.ino !== known.inode) return `The file ${known.file} was replaced while the relay was running on it.`
      // Read after the file's size, because a process that empties the log first marks it in the index.
      if (found.size < known.leastBytes()) {
        mark.damaged()
        return `The file ${known.file} was cut off while the relay was running on it.`
      }
      if (known.file === path) size = found.size
    }
    return undefined
  }
  return () => {
    const what = changed()
    if (what !== undefined) throw broken(`${what} The newest events may be lost, so the relay stops.`)
  }
}

/** Detects that another program has written to the journal, as sqlite3's `.restore` does. */
const watchingEnd = (db: DatabaseSync, path: string, identity: string): ((head: number) => void) => {
  // `data_version` changes when another connection commits, and rarely otherwise.
  const version = db.prepare("PRAGMA data_version")
  let known = version.get()?.data_version
  const isSame = (head: number) => meta(db, "identity") === identity && lastSequence(db) === head
  return (head) => {
    const found = version.get()?.data_version
    if (found === known) return
    if (!orUndefined(() => isSame(head))) {
      throw broken(
        `Another program has written to the journal ${path} while the relay was running on it, and the journal no longer ends at event ${head}. \`.restore\` of sqlite3 does this. The relay stops, and its next start reports which events are lost. Stop the relay before a backup is restored.`,
      )
    }
    known = found
  }
}

const openLocked = (path: string, lock: JournalLock, traces: ReadonlyArray<string>): Store => {
  const opening: Opening = { path, problems: [], expected: readMark(`${path}-mark`) }
  const { problems } = opening
  const { db, reindexed } = openOrStartNew(opening, traces)
  try {
    // The file may be new.
    lock.holdFile()
    const identity = identityOf(db, opening)
    const head = headOf(db, opening)
    for (const table of reindexed) {
      problems.push(
        `An index of the journal ${path} was damaged (table ${table}). It was rebuilt from the table; check the disk.`,
      )
    }
    const notes =
      opening.expected === undefined && problems.length === 0 && head > 0
        ? [
            `The file ${path}-mark is missing or damaged, and was made again, so the relay can't tell whether the journal lost events before this start.`,
          ]
        : []
    const mark = new HighWaterMarkFile(`${path}-mark`, { identity, head, damaged: false })
    const index = new WalIndex(path)
    const requireUnchanged = watching(path, mark, index)
    const reached = (sequence: number): void => {
      try {
        mark.reached(sequence)
      } catch {
        // The disk may be full. A mark that is behind isn't wrong.
      }
    }
    const close = (): void => {
      mark.close()
      db.close()
      index.close()
      lock.close()
    }
    const requireEnd = watchingEnd(db, path, identity)
    const descriptor = () => lock.descriptor
    return { path, db, descriptor, mark, head, problems, notes, requireUnchanged, requireEnd, reached, close }
  } catch (error) {
    db.close()
    throw error instanceof Error && isCorrupt(error) ? broken(classify(path, error).message) : error
  }
}
