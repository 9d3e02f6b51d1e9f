/**
 * How long SQLite's write-ahead log must be, by the index of it that SQLite
 * keeps in `-shm` for all processes.
 *
 * The length alone doesn't tell damage from use: a backup tool, or `sqlite3`
 * with a checkpoint, empties the log once the journal's file has all of it. It
 * says so in the index before it does.
 *
 * **Gotcha.** To close a descriptor of `-shm` would drop the process's locks on
 * it: `close` comes after SQLite has closed the database.
 */
import { closeSync, openSync, readSync } from "node:fs"

/** The index begins with two equal copies of its header: they differ while a process writes it (SQLite, walformat). */
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

  /** The bytes that the log must have for all that is committed; 0 where nothing is in it, or the index is being written. */
  requiredBytes(): number {
    const read = readSync(this.#fd, this.#bytes, 0, this.#bytes.length, 0)
    const isWhole = this.#bytes.compare(this.#bytes, headerBytes, 2 * headerBytes, 0, headerBytes) === 0
    if (read < this.#bytes.length || !isWhole) return 0
    const frames = this.#words[framesAt / 4] ?? 0
    const size = this.#halves[pageSizeAt / 2] ?? 0
    // SQLite writes 65,536 as 1.
    const pageSize = size === 1 ? 65_536 : size
    return frames === 0 ? 0 : logHeaderBytes + frames * (pageSize + frameHeaderBytes)
  }

  close(): void {
    closeSync(this.#fd)
  }
}
