/** The meaning of SQLite's errors for the relay, and parts of transactions that can fail separately. */
import { existsSync, fsyncSync, readFileSync, rmSync, statSync, writeSync } from "node:fs"
import { dirname } from "node:path"
import type { DatabaseSync } from "node:sqlite"
import { orUndefined } from "../../../event/Tolerance.ts"
import { whyNotWritten } from "../../../runtime/FileSystem.ts"
import { lockHolderWords, withFile } from "../../../runtime/Files.ts"
import { broken, full, JournalError, locked, unavailable } from "../../JournalError.ts"
import { errorCode, isBusy, isCorrupt, isFull, primary, words } from "../rows/SqliteConnection.ts"

const probeBytes = 64 * 1024
/** Lifetime of a cached cause in milliseconds, so that a failing disk isn't probed for each refusal. */
const keptFor = 1_000

const passes = (directory: string): string =>
  `a write to the disk of ${directory} failed, and passes when it is tried again. Look at the kernel's log for a failing disk`

/** The file size limit of this process, or infinity if it isn't known. */
const fileSizeLimit = (): number => {
  const limits = orUndefined(() => readFileSync("/proc/self/limits", "latin1")) ?? ""
  const [, soft] = /^Max file size\s+(\d+)/m.exec(limits) ?? []
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft)
}

/** Returns a file of the journal that can't grow because of the limit. */
const atLimit = (path: string): string | undefined => {
  const limit = fileSizeLimit()
  return [path, `${path}-wal`].find(
    (file) => (statSync(file, { throwIfNoEntry: false })?.size ?? 0) + probeBytes > limit,
  )
}

/** Returns the system's code of a failed write, or `undefined` if it succeeds. */
const tryWrite = (path: string): string | undefined => {
  const probe = `${path}-probe`
  try {
    // The directory may be writable while the file isn't.
    if (existsSync(`${path}-mark`)) withFile(`${path}-mark`, "r+", () => {})
    remove(probe)
    withFile(probe, "wx", (fd) => {
      writeSync(fd, Buffer.alloc(probeBytes, 1))
      fsyncSync(fd)
    })
    return undefined
  } catch (error) {
    return error instanceof Error && "code" in error ? String(error.code) : "EUNKNOWN"
  } finally {
    remove(probe)
  }
}

const remove = (file: string): void => {
  try {
    rmSync(file, { force: true })
  } catch {
    // If nothing can be written, there is nothing to remove.
  }
}

let last = { path: "", at: Number.NEGATIVE_INFINITY, cause: "" }

/**
 * Finds out why a write to the journal fails. SQLite's error doesn't carry the system's code, so a small file is
 * written next to the journal. Why the journal at `path` can't be written, and what to do; the end of a sentence.
 * `wasFull` means that SQLite reported a full disk.
 */
export const causeOf = (path: string, wasFull: boolean): string => {
  const now = performance.now()
  if (last.path === path && now - last.at < keptFor) return last.cause
  const cause = find(path, wasFull)
  last = { path, at: now, cause }
  return cause
}

const find = (path: string, wasFull: boolean): string => {
  const file = atLimit(path)
  if (file !== undefined) {
    return `the file ${file} may grow no further. Raise the file size limit (\`ulimit -f\`, LimitFSIZE=) and restart the relay`
  }
  const directory = dirname(path)
  const code = tryWrite(path) ?? (wasFull ? "ENOSPC" : undefined)
  if (code === undefined) return passes(directory)
  return whyNotWritten(code, directory) ?? `a write in ${directory} fails (${code})`
}

/** True if the file is read-only or can't be opened. */
const isUnwritable = (error: unknown): boolean => [3, 8, 14].includes(primary(errorCode(error)))

/** SQLite's extended codes for its shared memory, which is a file: SHMOPEN, SHMSIZE, SHMLOCK and SHMMAP. */
const ofSharedMemory = [4618, 4874, 5130, 5386]

/** Classifies an error of the journal at `path`. */
export const classify = (path: string, error: unknown): JournalError => {
  if (error instanceof JournalError) return error
  if (isFull(error)) {
    return full(
      "disk",
      `The journal ${path} can't be written (${words(error)}): ${causeOf(path, primary(errorCode(error)) === 13)}. Nothing that was accepted is lost.`,
    )
  }
  if (isCorrupt(error)) {
    return broken(
      `The journal ${path} is damaged (${words(error)}). The relay stops. At its next start the file is read again: if the file is sound after all the relay continues with it, otherwise it moves the file aside.`,
    )
  }
  if (primary(errorCode(error)) === 10) {
    const file = ofSharedMemory.includes(errorCode(error)) ? `${path}-shm` : path
    return broken(
      `The disk of ${dirname(path)} failed at the journal's file ${file} (${words(error)}, code ${errorCode(error)}). Nothing after it can be trusted, so the relay stops. Check the disk, then start it again.`,
    )
  }
  if (isBusy(error)) {
    const holder = lockHolderWords(`${path}-shm`) ?? "another process"
    return locked(`The journal ${path} is locked: ${holder} writes to its file. End that, or wait for its end.`)
  }
  const why = isUnwritable(error) ? `${words(error)}: ${causeOf(path, false)}` : words(error)
  return unavailable(`The journal ${path} could not be written (${why}). Nothing was kept; try again.`)
}

/**
 * Runs `work` as a part of a transaction. If only `work` fails, it is undone, its error is returned, and the
 * transaction continues. Errors of the disk, the file or the transaction are thrown.
 */
export const savepoints = (db: DatabaseSync, path: string): (<A>(work: () => A) => A | JournalError) => {
  const begin = db.prepare("SAVEPOINT part")
  const release = db.prepare("RELEASE part")
  const undo = db.prepare("ROLLBACK TO part")
  return (work) => {
    begin.run()
    try {
      const result = work()
      release.run()
      return result
    } catch (error) {
      const failure = classify(path, error)
      // Some errors end the transaction.
      if (failure.reason._tag !== "JournalUnavailable" || !db.isTransaction) throw error
      undo.run()
      release.run()
      return failure
    }
  }
}
