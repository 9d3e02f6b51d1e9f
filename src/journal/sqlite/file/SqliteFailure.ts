/** The meaning of SQLite's errors for the relay, and parts of transactions that can fail separately. */
import { dirname } from "node:path"
import type { DatabaseSync } from "node:sqlite"
import { lockHolderWords } from "../../../runtime/Files.ts"
import { broken, full, JournalError, locked, unavailable } from "../../JournalError.ts"
import { errorCode, isBusy, isCorrupt, isFull, primary, words } from "../rows/SqliteErrors.ts"
import { causeOf } from "./WriteProbe.ts"

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
