/**
 * Determines how long SQLite's write-ahead log must be, from the index of the log that SQLite keeps in `-shm`
 * for all processes.
 *
 * The length alone doesn't distinguish damage from normal use: a backup tool, or `sqlite3` with a checkpoint,
 * empties the log once the journal's file has all of it. It marks that in the index first.
 *
 * **Gotcha.** Closing a descriptor of `-shm` drops the process's locks on it, so `close` must be called after
 * SQLite has closed the database.
 */
import { closeSync, openSync, readSync } from "node:fs"

/** The index begins with two equal copies of its header. They differ while a process writes it (SQLite, walformat). */
const headerBytes = 48
const pageSizeAt = 14
const framesAt = 16
const logHeaderBytes = 32
const frameHeaderBytes = 24

/** Reads the index of the journal at a path, which must be open in SQLite. Throws the system's errors. */
export class WalIndex {
  readonly #fd: number
  readonly #bytes = Buffer.alloc(2 * headerBytes)
  readonly #halves = new Uint16Array(this.#bytes.buffer, this.#bytes.byteOffset, headerBytes)
  readonly #words = new Uint32Array(this.#bytes.buffer, this.#bytes.byteOffset, headerBytes / 2)

  constructor(path: string) {
    this.#fd = openSync(`${path}-shm`, "r")
  }

  /**
   * Returns the bytes that the log must have for everything that is committed. It is 0 if the log is empty, or
   * the index is being written.
   */
  requiredBytes(): number {
    const read = readSync(this.#fd, this.#bytes, 0, this.#bytes.length, 0)
    const isWhole = this.#bytes.compare(this.#bytes, headerBytes, 2 * headerBytes, 0, headerBytes) === 0
    if (read < this.#bytes.length || !isWhole) return 0
    const frames = this.#words[framesAt / 4] ?? 0
    const size = this.#halves[pageSizeAt / 2] ?? 0
    // SQLite stores 65,536 as 1.
    const pageSize = size === 1 ? 65_536 : size
    return frames === 0 ? 0 : logHeaderBytes + frames * (pageSize + frameHeaderBytes)
  }

  close(): void {
    closeSync(this.#fd)
  }
}
