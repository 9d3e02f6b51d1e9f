/**
 * The high-water mark beside the journal (`-mark`): the file's identity and its
 * highest sequence.
 *
 * SQLite opens a deleted or emptied file as a new, empty database, and reads a
 * damaged write-ahead log as a shorter one, without an error: the mark shows it.
 * It is written after each commit, without fsync, so it may be behind the
 * journal and never ahead of it.
 */
import { closeSync, constants, openSync, readFileSync, writeSync } from "node:fs"

/** The content of the mark. */
export interface HighWaterMark {
  /** The random id that the journal's file also holds. */
  readonly identity: string
  /** A sequence that the journal has reached. */
  readonly head: number
  /** The journal was found damaged while it was open, and is to be set aside. */
  readonly damaged: boolean
}

const format = /^relay journal ([0-9a-f]{32}) ([0-9]{16}) (sound|damaged)\s*$/

/** Reads the mark; `undefined` when there is none or it was torn. */
export const read = (file: string): HighWaterMark | undefined => {
  let text: string
  try {
    text = readFileSync(file, "latin1")
  } catch {
    return undefined
  }
  const [, identity, head, state] = format.exec(text) ?? []
  if (identity === undefined || head === undefined) return undefined
  return { identity, head: Number(head), damaged: state === "damaged" }
}

/** Writes the mark in place, always with the same length, so that a crash of the process can't tear it. */
export class HighWaterMarkFile {
  readonly #fd: number
  readonly #line: Buffer

  constructor(file: string, mark: HighWaterMark) {
    this.#line = Buffer.from(
      `relay journal ${mark.identity} ${String(mark.head).padStart(16, "0")} ${mark.damaged ? "damaged" : "sound  "}\n`,
    )
    this.#fd = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600)
    writeSync(this.#fd, this.#line, 0, this.#line.length, 0)
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
