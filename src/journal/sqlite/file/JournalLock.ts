/**
 * Ensures that only one process uses a journal, with a lock file next to the journal and a lock on the
 * journal's file itself.
 *
 * **Guarantee.** Two processes never run on one file, whatever paths they open it by. A hard link would have a
 * write-ahead log of its own, so a file with two names is refused. A damaged lock file locks nothing and is
 * replaced.
 */
import { chmodSync, mkdirSync, rmSync, statSync } from "node:fs"
import { dirname, join } from "node:path"
import type { DatabaseSync } from "node:sqlite"
import { hasProperty } from "effect/Predicate"
import { canLock, type FileLock, lockFile } from "../../../runtime/FileSystem.ts"
import { lockHolderWords } from "../../../runtime/Files.ts"
import { unavailable } from "../../JournalError.ts"
import { connectBeside, isBusy, isCorrupt, words } from "../rows/SqliteConnection.ts"
import { lockOf } from "../SqliteConfig.ts"
import * as OwnFiles from "./OwnFiles.ts"
import { causeOf, classify } from "./SqliteFailure.ts"

/** Why the journal's directory can't be used, and what to do about it. */
const whyNoDirectory = (directory: string, error: unknown): string => {
  switch (hasProperty(error, "code") ? error.code : "") {
    case "EEXIST":
    case "ENOTDIR":
      return `a part of ${directory} is a file, not a directory; correct "journal.path"`
    case "EACCES":
    case "EPERM":
      return `its directory ${directory} can't be made: permission denied; make it, for the relay's user`
    default:
      return `${words(error)}: ${causeOf(join(directory, "journal.db"), false)}`
  }
}

const openLock = (path: string, file: string): DatabaseSync => {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    const lock = connectBeside(file)
    // A process that can read the file can lock it against the relay.
    chmodSync(file, 0o600)
    return lock
  } catch (error) {
    throw unavailable(`The journal ${path} can't be opened: ${whyNoDirectory(dirname(path), error)}.`)
  }
}

const stopThat = `Stop that one, or give this one its own "journal.path".`

/** Locks the lock file. SQLite checks for a lock before it reads, so a damaged file isn't locked by any process. */
const holdBeside = (path: string, mayReplace: boolean): DatabaseSync => {
  const file = lockOf(path)
  const lock = openLock(path, file)
  try {
    lock.prepare("BEGIN EXCLUSIVE").run()
    return lock
  } catch (error) {
    lock.close()
    if (mayReplace && isCorrupt(error)) {
      rmSync(file, { force: true })
      return holdBeside(path, false)
    }
    if (!isBusy(error)) throw classify(path, error)
    throw unavailable(whyHeld(path, file))
  }
}

/** Why the lock can't be acquired. SQLite reports the same error if the file system has no locks. */
const whyHeld = (path: string, file: string): string => {
  const holder = lockHolderWords(file)
  if (holder === undefined && !canLock(file)) {
    return `The journal ${path} can't be opened: the file system of ${dirname(path)} gives no lock on ${file}, so a second relay could write to the journal too. Have it mounted with locks (NFS: without \`nolock\`, and with a lock service), or move the journal to a local disk.`
  }
  return `Another relay is running on the journal ${path}: ${holder ?? "it"} holds the lock ${file}. ${stopThat}`
}

/**
 * A lock that is held until it is closed. The caller must keep a reference, because a collected database would
 * drop its lock.
 */
export class JournalLock {
  readonly #path: string
  readonly #beside: DatabaseSync
  readonly #files = new Map<number, FileLock>()

  constructor(path: string) {
    this.#path = path
    const problem = OwnFiles.problem(path)
    if (problem !== undefined) throw unavailable(`The journal can't be opened: ${problem}.`)
    this.#beside = holdBeside(path, true)
  }

  /** Locks the journal's present file, if there is one. */
  holdFile(): void {
    const found = statSync(this.#path, { throwIfNoEntry: false })
    if (found === undefined || this.#files.has(found.ino)) return
    if (found.isFile() && found.nlink > 1) {
      throw unavailable(
        `The journal ${this.#path} has ${found.nlink} names (hard links). Each name would have its own write-ahead log, and events would be lost. Stop what runs on the other name, then delete that name: \`find / -xdev -inum ${found.ino}\` shows it.`,
      )
    }
    let held: FileLock | undefined
    try {
      held = lockFile(this.#path)
    } catch {
      // SQLite can't open it either, and reports why.
      return
    }
    if (held === undefined) {
      throw unavailable(
        `Another relay is running on the journal ${this.#path}, which it reaches by another path: ${lockHolderWords(this.#path, "READ") ?? "it"} holds the file. ${stopThat}`,
      )
    }
    this.#files.set(found.ino, held)
  }

  /** The journal's file, open for reading and writing. If the start has replaced it, this is the new file. */
  get descriptor(): number {
    const fd = [...this.#files.values()].at(-1)?.fd
    if (fd === undefined) throw unavailable(`The journal ${this.#path} can't be opened to write to it.`)
    return fd
  }

  close(): void {
    for (const held of this.#files.values()) held.close()
    this.#beside.close()
  }
}
