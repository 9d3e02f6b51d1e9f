/**
 * The ballast: a file of a few megabytes next to the journal. It is deleted when the disk is full, so that
 * lanes can settle.
 */
import { closeSync, fsyncSync, lstatSync, openSync, readSync, rmSync, type Stats, writeSync } from "node:fs"
import { words } from "../rows/SqliteErrors.ts"

export const ballastBytes = 4 * 1024 * 1024

const isWhole = (found: Stats): boolean => found.isFile() && found.size === ballastBytes

/** Reports whether a file is a ballast that a crash left unfinished: a part of one, or blank. */
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
    // It is written in full, because a sparse file would reserve nothing.
    writeSync(fd, Buffer.alloc(ballastBytes, 1))
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

export class Ballast {
  /**
   * Why there is nothing to delete on a full disk, for the status. It is empty if there is a ballast, or no
   * space for one.
   */
  problem = ""
  readonly #file: string

  constructor(path: string) {
    this.#file = `${path}-ballast`
  }

  /** Creates the file if it doesn't exist. A file that isn't the relay's is left unchanged. */
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

  /** Deletes the file to free its space. */
  drop(): void {
    try {
      const found = lstatSync(this.#file, { throwIfNoEntry: false })
      if (found !== undefined && (isWhole(found) || isUnfinished(this.#file, found))) rmSync(this.#file)
    } catch {
      // A file that can't be deleted has reserved nothing.
    }
  }
}
