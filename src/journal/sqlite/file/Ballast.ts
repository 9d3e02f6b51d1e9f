/**
 * The ballast: a file of a few megabytes beside the journal, which is deleted on a
 * full disk so that lanes can settle.
 */
import { closeSync, fsyncSync, lstatSync, openSync, readSync, rmSync, type Stats, writeSync } from "node:fs"
import { words } from "../rows/SqliteErrors.ts"

export const ballastBytes = 4 * 1024 * 1024

const isWhole = (found: Stats): boolean => found.isFile() && found.size === ballastBytes

/** Whether a file is a ballast that a crash left unfinished: the start of one, or blank. */
const isUnfinished = (file: string, found: Stats): boolean => {
  if (!found.isFile() || found.size > ballastBytes) return false
  const start = Buffer.alloc(4096)
  const fd = openSync(file, "r")
  try {
    const read = readSync(fd, start, 0, start.length, 0)
    return start.subarray(0, read).every((byte) => byte <= 1)
  } finally {
    closeSync(fd)
  }
}

const write = (file: string): void => {
  const fd = openSync(file, "wx", 0o600)
  try {
    // Written: a sparse file would reserve nothing.
    writeSync(fd, Buffer.alloc(ballastBytes, 1))
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

export class Ballast {
  /** Why nothing can be deleted on a full disk, for the status; empty if there is a ballast, or no room for one. */
  problem = ""
  readonly #file: string

  constructor(path: string) {
    this.#file = `${path}-ballast`
  }

  /** Makes the file unless it is there. A file that isn't the relay's stays as it is. */
  keep(): void {
    this.problem = ""
    try {
      const found = lstatSync(this.#file, { throwIfNoEntry: false })
      if (found !== undefined && isWhole(found)) return
      if (found !== undefined && !isUnfinished(this.#file, found)) {
        this.problem = `The file ${this.#file} is not the relay's, so the relay has nothing to delete if its disk gets full: move it away.`
        return
      }
      rmSync(this.#file, { force: true })
      write(this.#file)
    } catch (error) {
      this.problem = `The file ${this.#file} can't be made (${words(error)}), so the relay has nothing to delete if its disk gets full.`
      this.drop()
    }
  }

  /** Deletes the file, to make room. */
  drop(): void {
    try {
      const found = lstatSync(this.#file, { throwIfNoEntry: false })
      if (found !== undefined && (isWhole(found) || isUnfinished(this.#file, found))) rmSync(this.#file)
    } catch {
      // A file that can't be deleted has reserved nothing.
    }
  }
}
