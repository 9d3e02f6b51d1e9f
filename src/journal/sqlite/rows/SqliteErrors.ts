/**
 * SQLite's errors by their code, and transactions. Without Effect, because the
 * worker loads it too; `SqliteFailure.ts` says what an error means for the relay.
 *
 * **Gotcha.** After a failed fsync later commits go on "succeeding", so any I/O
 * error is final. A full disk rolls the transaction back by itself, and a second
 * ROLLBACK would throw. Under Deno only prepared statements carry the error's
 * number, so whatever is classified here is prepared, BEGIN and COMMIT too.
 */
import type { DatabaseSync } from "node:sqlite"

/** The kind of an extended result code. */
export const primary = (code: number): number => code & 0xff

/** SQLite's extended result code; 0 when the error is not SQLite's. */
export const errorCode = (error: unknown): number =>
  typeof error === "object" && error !== null && "errcode" in error && typeof error.errcode === "number"
    ? error.errcode
    : 0

/** The message of an error. */
export const words = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** The file is damaged, or is no database. */
export const isCorrupt = (error: unknown): boolean => [11, 26].includes(primary(errorCode(error)))

/** Another connection or process holds a lock. */
export const isBusy = (error: unknown): boolean => [5, 6].includes(primary(errorCode(error)))

/** 13 is a full disk; 778 (a failed write) is what a file size limit or a quota looks like. */
export const isFull = (error: unknown): boolean => primary(errorCode(error)) === 13 || errorCode(error) === 778

/** A lasting error: what was written before it can't be trusted any more. */
export const isFinal = (error: unknown): boolean =>
  !isFull(error) && [0, 10, 11, 26].includes(primary(errorCode(error)))

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
