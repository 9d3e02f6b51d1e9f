/**
 * What SQLite's errors mean for the relay, transactions and their parts.
 *
 * **Gotcha.** After a failed fsync later commits go on "succeeding", so any I/O
 * error is final. A full disk rolls the transaction back by itself, and a second
 * ROLLBACK would throw. Under Deno only prepared statements carry the error's
 * number, so whatever is classified here is prepared, BEGIN and COMMIT too.
 */
import type { DatabaseSync } from "node:sqlite"
import { hasProperty } from "effect/Predicate"
import { broken, full, JournalError, unavailable } from "../../JournalError.ts"
import { causeOf } from "./WriteProbe.ts"

const primary = (code: number): number => code & 0xff

/** SQLite's extended result code; 0 when the error is not SQLite's. */
export const errorCode = (error: unknown): number =>
  hasProperty(error, "errcode") && typeof error.errcode === "number" ? error.errcode : 0

export const words = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** The file is damaged, or is no database. */
export const isCorrupt = (error: unknown): boolean => [11, 26].includes(primary(errorCode(error)))

export const isBusy = (error: unknown): boolean => [5, 6].includes(primary(errorCode(error)))

/** 13 is a full disk; 778 (a failed write) is what a file size limit or a quota looks like. */
export const isFull = (error: unknown): boolean => primary(errorCode(error)) === 13 || errorCode(error) === 778

/** A lasting error: what was written before it can't be trusted any more. */
export const isFinal = (error: unknown): boolean =>
  !isFull(error) && [0, 10, 11, 26].includes(primary(errorCode(error)))

/** Read-only, or not to be opened. */
const isUnwritable = (error: unknown): boolean => [3, 8, 14].includes(primary(errorCode(error)))

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
      `The journal ${path} is damaged (${words(error)}). The relay stops. At its next start the file is read again: if the file is sound after all the relay continues with it, else it sets it aside.`,
    )
  }
  if (primary(errorCode(error)) === 10) {
    return broken(
      `The disk of the journal ${path} failed (${words(error)}, code ${errorCode(error)}). Nothing after it can be trusted, so the relay stops. Check the disk, then start it again.`,
    )
  }
  const why = isUnwritable(error) ? `${words(error)}: ${causeOf(path, false)}` : words(error)
  return unavailable(`The journal ${path} could not be written (${why}). Nothing was kept; try again.`)
}

/** Runs `work` between BEGIN IMMEDIATE and COMMIT: all of it is on disk when this returns, or none. */
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
          // The first error is the one that decides.
        }
      }
      throw error
    }
  }
}

/**
 * Runs `work` as a part of a transaction: when it fails by itself it is undone,
 * its error is the result, and the transaction goes on. What concerns the disk,
 * the file or the transaction is thrown.
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
      // Some errors have ended the transaction.
      if (failure.reason._tag !== "JournalUnavailable" || !db.isTransaction) throw error
      undo.run()
      release.run()
      return failure
    }
  }
}
