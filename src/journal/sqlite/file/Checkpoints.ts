/**
 * Checkpoints, which move the write-ahead log into the journal's file.
 *
 * The worker runs them, off the event loop. This connection runs them in two cases: if there is no worker, and
 * if the log has grown too long. Only the writer can reach the log's end, between two commits.
 */
import type { DatabaseSync } from "node:sqlite"
import type { Space } from "./Space.ts"

/** If the log has more bytes, the writer runs a checkpoint itself, which takes 2 to 3 ms. */
export const maxLogBytes = 16 * 1024 * 1024

/** The checkpoints of the connection that writes. `onError` gets SQLite's errors. */
export class Checkpoints {
  /** True if no worker runs them. */
  isOwn = true
  readonly #db: DatabaseSync
  readonly #passive
  readonly #space: Space
  readonly #onError: (error: unknown) => void
  /** Number of commits at the last checkpoint. */
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

  /**
   * Moves the whole log into the file and empties it. Returns false while another process or a search reads
   * from it.
   */
  empty(): boolean {
    const patience = Number(this.#db.prepare("PRAGMA busy_timeout").get()?.timeout)
    // The event loop must not block on a reader.
    this.#db.prepare("PRAGMA busy_timeout = 0").get()
    try {
      return this.#db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()?.busy === 0
    } finally {
      this.#db.prepare(`PRAGMA busy_timeout = ${patience}`).get()
    }
  }

  /** Gives the log's space back to the disk, if nobody reads from the log. */
  shrink(): void {
    try {
      this.empty()
    } catch (error) {
      this.#onError(error)
    }
  }

  /** Runs a checkpoint after `commits` commits, unless the worker does, or nothing was committed since the last one. */
  runOwn(commits: number): void {
    if (!this.isOwn || commits === this.#commits) return
    this.#commits = commits
    this.run()
  }

  /** Call it when the worker's checkpoint left this many frames in the log. */
  reported(frames: number): void {
    if (frames * this.#space.frameSize > maxLogBytes) this.run()
  }

  /** Call it when the worker failed. `code` is SQLite's result code, or 0 for another error. */
  failed(message: string, code: number): void {
    if (code === 0) this.isOwn = true
    else this.#onError(Object.assign(new Error(message), { errcode: code }))
  }
}
