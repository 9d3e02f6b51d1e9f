/**
 * A lock that another process holds on the journal's file. SQLite would wait for it during the commit, and
 * block everything. Instead, the commit is tried again.
 */
import type { DatabaseSync } from "node:sqlite"
import type { JournalError } from "../../JournalError.ts"

/** Milliseconds that a commit waits for the lock, because the worker's checkpoint may hold it on a slow disk. */
const briefly = 100
/** Milliseconds after which a commit is tried again. */
const retryAfter = 10
/** Milliseconds that the lock may last before it is reported. */
const saidAfter = 1_000
/** Milliseconds that the last commit of all waits for the lock. */
const patience = 2_000

/** Reports whether an operation failed because another process holds a lock on the file. */
export const isLocked = ({ reason }: JournalError): boolean =>
  reason._tag === "JournalUnavailable" && reason.isLocked === true

/** Another process's lock. `retry` commits again. */
export class ForeignLock {
  /** Why nothing is committed, or `undefined` if no other process seems to hold the lock. */
  failure: JournalError | undefined
  readonly #db: DatabaseSync
  readonly #retry: () => void
  #since = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(db: DatabaseSync, retry: () => void) {
    this.#db = db
    this.#retry = retry
  }

  /** Makes commits wait only briefly from now on. Before, at the start, they wait as long as it takes. */
  ready(): void {
    this.#wait(briefly)
  }

  /** Call it when a commit found the file locked. The commit is tried again. */
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

  /** Call it before the last commit, which waits for the lock. */
  last(): void {
    clearTimeout(this.#timer)
    if (this.failure !== undefined) this.#wait(patience)
  }

  /** Throws if the file is locked, because the next step must come after the waiting commits. */
  require(): void {
    if (this.failure !== undefined) throw this.failure
  }

  /** Returns what commits wait for, once they have waited for a while; empty before. */
  get message(): string {
    const isLong = this.failure !== undefined && performance.now() - this.#since > saidAfter
    return isLong ? (this.failure?.message ?? "") : ""
  }

  #wait(millis: number): void {
    this.#db.prepare(`PRAGMA busy_timeout = ${millis}`).get()
  }
}
