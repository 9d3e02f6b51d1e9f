/**
 * Another process holds a lock on the journal's file. SQLite would wait for it
 * in the commit, and hold up everything: instead the commit is tried again.
 */
import type { DatabaseSync } from "node:sqlite"
import type { JournalError } from "../../JournalError.ts"

/** Milliseconds that a commit waits for the lock, for the worker's checkpoint may hold it where the disk is slow. */
const briefly = 100
/** Milliseconds after which a commit is tried again. */
const retryAfter = 10
/** Milliseconds that it may last before anything is said of it. */
const saidAfter = 1_000
/** Milliseconds that the last commit of all waits. */
const patience = 2_000

/** Whether an operation failed because another process holds the file. */
export const isLocked = ({ reason }: JournalError): boolean =>
  reason._tag === "JournalUnavailable" && reason.isLocked === true

/** The lock of another process; `retry` commits again. */
export class ForeignLock {
  /** Why nothing is committed; `undefined` where no other process is known to hold the file. */
  failure: JournalError | undefined
  readonly #db: DatabaseSync
  readonly #retry: () => void
  #since = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(db: DatabaseSync, retry: () => void) {
    this.#db = db
    this.#retry = retry
  }

  /** From now on a commit waits briefly; before, at the start, as long as it takes. */
  ready(): void {
    this.#wait(briefly)
  }

  /** A commit found the file locked: it is tried again. */
  found(failure: JournalError): void {
    if (this.failure === undefined) this.#since = performance.now()
    this.failure = failure
    clearTimeout(this.#timer)
    this.#timer = setTimeout(this.#retry, retryAfter)
  }

  released(): void {
    clearTimeout(this.#timer)
    this.failure = undefined
  }

  /** The next commit is the last: it waits. */
  last(): void {
    clearTimeout(this.#timer)
    if (this.failure !== undefined) this.#wait(patience)
  }

  /** Throws where the file is locked: what follows must come after what waits. */
  require(): void {
    if (this.failure !== undefined) throw this.failure
  }

  /** Says what commits wait for, once they have waited for a while; else empty. */
  get message(): string {
    const isLong = this.failure !== undefined && performance.now() - this.#since > saidAfter
    return isLong ? (this.failure?.message ?? "") : ""
  }

  #wait(millis: number): void {
    this.#db.prepare(`PRAGMA busy_timeout = ${millis}`).get()
  }
}
