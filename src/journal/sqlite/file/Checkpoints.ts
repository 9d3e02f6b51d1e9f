/**
 * Checkpoints: move the write-ahead log into the journal's file.
 *
 * The worker makes them, off the event loop. This connection makes them where
 * there is no worker, and reaches the end of a log that has grown too long: only
 * the writer can, between two commits.
 */
import type { DatabaseSync } from "node:sqlite"
import type { Space } from "./Space.ts"

/** Above this many bytes of log the writer checkpoints itself: 2 to 3 ms. */
export const maxLogBytes = 16 * 1024 * 1024

/** The checkpoints of the connection that writes; `onError` takes SQLite's errors. */
export class Checkpoints {
  /** No worker makes them. */
  isOwn = true
  readonly #db: DatabaseSync
  readonly #passive
  readonly #space: Space
  readonly #onError: (error: unknown) => void
  /** Commits at the last checkpoint. */
  #commits = 0

  constructor(db: DatabaseSync, space: Space, onError: (error: unknown) => void) {
    this.#db = db
    this.#passive = db.prepare("PRAGMA wal_checkpoint(PASSIVE)")
    this.#space = space
    this.#onError = onError
  }

  run(): void {
    try {
      this.#passive.get()
    } catch (error) {
      this.#onError(error)
    }
  }

  /** Moves all of the log into the file and empties it; false while another process or a search reads from it. */
  empty(): boolean {
    const patience = Number(this.#db.prepare("PRAGMA busy_timeout").get()?.timeout)
    // The event loop must not stand still for a reader.
    this.#db.prepare("PRAGMA busy_timeout = 0").get()
    try {
      return this.#db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()?.busy === 0
    } finally {
      this.#db.prepare(`PRAGMA busy_timeout = ${patience}`).get()
    }
  }

  /** After so many commits; nothing where the worker makes them, or where nothing was committed since. */
  runOwn(commits: number): void {
    if (!this.isOwn || commits === this.#commits) return
    this.#commits = commits
    this.run()
  }

  /** The worker made one and left this many frames in the log. */
  reported(frames: number): void {
    if (frames * this.#space.frameSize > maxLogBytes) this.run()
  }

  /** The worker failed: with an SQLite result code, 0 when it was something else. */
  failed(message: string, code: number): void {
    if (code === 0) this.isOwn = true
    else this.#onError(Object.assign(new Error(message), { errcode: code }))
  }
}
