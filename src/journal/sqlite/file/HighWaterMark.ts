/**
 * The high-water mark next to the journal (`-mark`): the file's identity and its highest sequence.
 *
 * SQLite opens a deleted or emptied file as a new, empty database, and a damaged write-ahead log as a shorter
 * one, without an error. The mark reveals both. It is written after each commit, without fsync. So it may be
 * behind the journal, but never ahead of it.
 */
import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, writeSync } from "node:fs"
import { orUndefined } from "../../../event/Tolerance.ts"
import { words } from "../rows/SqliteConnection.ts"

/** The content of the mark. */
export interface HighWaterMark {
  /** The random id that is also in the journal's file. */
  readonly identity: string
  /** A sequence that the journal has reached. */
  readonly head: number
  /** True if the journal was found damaged while it was open. The next start then checks every page of it. */
  readonly damaged: boolean
}

const format = /^relay journal ([0-9a-f]{32}) ([0-9]{16}) (sound|damaged)\s*$/

/** Bytes of a mark. */
export const length = 72

/** Reports whether a file that starts like this may be a mark, even a damaged or torn one. */
export const mayBe = (start: string): boolean =>
  start.length === length || start.startsWith("relay journal") || start.replaceAll("\0", "") === ""

/** Reads the mark. Returns `undefined` if there is none or it was torn. */
export const read = (file: string): HighWaterMark | undefined => {
  const text = orUndefined(() => readFileSync(file, "latin1"))
  const [, identity, head, state] = format.exec(text ?? "") ?? []
  if (identity === undefined || head === undefined) return undefined
  return { identity, head: Number(head), damaged: state === "damaged" }
}

/** Writes the mark in place, always with the same length, so that a crash of the process can't tear it. */
export class HighWaterMarkFile {
  /** Why the file isn't this relay's mark, for the status; empty if it is. */
  problem = ""
  readonly #file: string
  readonly #line: Buffer
  #fd: number

  constructor(file: string, mark: HighWaterMark) {
    this.#file = file
    this.#line = Buffer.from(
      `relay journal ${mark.identity} ${String(mark.head).padStart(16, "0")} ${mark.damaged ? "damaged" : "sound  "}\n`,
    )
    this.#fd = this.#written(0)
  }

  /** Opens the file without following a link, and writes the mark. */
  #written(flags: number): number {
    const fd = openSync(this.#file, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW | flags, 0o600)
    writeSync(fd, this.#line, 0, this.#line.length, 0)
    return fd
  }

  /**
   * Recreates the file if it was deleted. It is called a few times a second. Another file in its place is left
   * unchanged.
   */
  keep(): void {
    const found = lstatSync(this.#file, { throwIfNoEntry: false })
    if (found?.ino === fstatSync(this.#fd).ino) {
      this.problem = ""
    } else if (found !== undefined) {
      this.problem = `The file ${this.#file} was replaced while the relay was running on it: move it away, or the next start can't tell whether events were lost.`
    } else {
      try {
        const fd = this.#written(constants.O_EXCL)
        closeSync(this.#fd)
        this.#fd = fd
        this.problem = ""
      } catch (error) {
        this.problem = `The file ${this.#file} was deleted while the relay was running on it, and can't be made again (${words(error)}).`
      }
    }
  }

  reached(head: number): void {
    this.#line.write(String(head).padStart(16, "0"), 47)
    writeSync(this.#fd, this.#line, 0, this.#line.length, 0)
  }

  damaged(): void {
    this.#line.write("damaged", 64)
    writeSync(this.#fd, this.#line, 0, this.#line.length, 0)
  }

  close(): void {
    closeSync(this.#fd)
  }
}
