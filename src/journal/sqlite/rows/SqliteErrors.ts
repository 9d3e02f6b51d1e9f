/**
 * SQLite's errors by their code, and transactions. It doesn't use Effect, because the worker loads it too.
 * `SqliteFailure.ts` defines an error's meaning for the relay.
 *
 * **Gotcha.** After a failed fsync later commits continue to "succeed", so any I/O error is final. A full disk
 * rolls the transaction back by itself, and a second ROLLBACK would throw. Under Deno only prepared statements
 * carry the error's number, so everything that is classified here is prepared, including BEGIN and COMMIT.
 */
import type { DatabaseSync } from "node:sqlite"

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
