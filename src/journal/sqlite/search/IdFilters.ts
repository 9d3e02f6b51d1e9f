/**
 * Bloom filters over the ids of events, one for each block of sequences: for an id
 * 4 KB of each block's filter are read, and only the blocks that may hold it are
 * searched.
 *
 * A block's filter has 16 bits an event, in parts; all bits of an id lie in one
 * part. Four of them are set, so one block in some 400 is searched in vain.
 */
import type { DatabaseSync } from "node:sqlite"
import { bytes } from "../Rows.ts"

export type Direction = "down" | "up"

/** Sequences, both ends included; none where the end is below the beginning. */
export interface Range {
  readonly from: number
  readonly to: number
}

/** Sequences of a block. */
export const blockSize = 65_536
const parts = 32
const partBytes = 4096
const partBits = partBytes * 8
const bitsOfId = 4

export const schema =
  "CREATE TABLE filter (block INTEGER, part INTEGER, bits BLOB NOT NULL, PRIMARY KEY (block, part)) STRICT, WITHOUT ROWID"

const blockOf = (sequence: number): number => Math.floor(sequence / blockSize)

/** The part of an id, by its hash of 32 bits. */
const partOf = (id: number): number => id % parts

/** One of its bits there. */
const bitOf = (id: number, index: number): number => {
  const rest = Math.floor(id / parts)
  const distance = Math.floor(rest / partBits) | 1
  return (rest + index * distance) % partBits
}

export class IdFilters {
  readonly #sql
  /** The block that fills. */
  #block = -1
  readonly #bits = new Uint8Array(parts * partBytes)

  constructor(db: DatabaseSync) {
    this.#sql = {
      get: db.prepare("SELECT bits FROM filter WHERE block = ? AND part = ?"),
      put: db.prepare("INSERT OR REPLACE INTO filter (block, part, bits) VALUES (?, ?, ?)"),
      prune: db.prepare("DELETE FROM filter WHERE block < ?"),
    }
  }

  /** Adds the hash of an event's id; in ascending order of sequences. */
  add(sequence: number, id: number): void {
    const block = blockOf(sequence)
    if (block !== this.#block) this.#begin(block)
    const start = partOf(id) * partBytes
    for (let index = 0; index < bitsOfId; index++) {
      const bit = bitOf(id, index)
      const at = start + (bit >> 3)
      this.#bits[at] = (this.#bits[at] ?? 0) | (1 << (bit & 7))
    }
  }

  /** Writes what was added, as part of a transaction; what one that fails has left is added again. */
  store(): void {
    if (this.#block < 0) return
    for (let part = 0; part < parts; part++) {
      this.#sql.put.run(this.#block, part, this.#bits.subarray(part * partBytes, (part + 1) * partBytes))
    }
  }

  /** Of a range, what is to be searched next for an id: it lies in one block; empty where no block may hold the id. */
  cut(id: number, { from, to }: Range, direction: Direction): Range {
    const [first, last] = [blockOf(from), blockOf(to)]
    const step = direction === "down" ? -1 : 1
    for (let block = direction === "down" ? last : first; first <= block && block <= last; block += step) {
      if (!this.#mayHold(block, id)) continue
      return { from: Math.max(from, block * blockSize), to: Math.min(to, (block + 1) * blockSize - 1) }
    }
    return direction === "down" ? { from, to: from - 1 } : { from: to + 1, to }
  }

  /** Whether a block may hold an event with an id of this hash. */
  #mayHold(block: number, id: number): boolean {
    const part = bytes(this.#sql.get.get(block, partOf(id))?.bits)
    for (let index = 0; index < bitsOfId; index++) {
      const bit = bitOf(id, index)
      if (((part[bit >> 3] ?? 0) & (1 << (bit & 7))) === 0) return false
    }
    return true
  }

  /** Blocks that end below a sequence are forgotten. */
  prune(sequence: number): void {
    this.#sql.prune.run(blockOf(sequence))
  }

  #begin(block: number): void {
    this.store()
    this.#block = block
    this.#bits.fill(0)
    for (let part = 0; part < parts; part++) {
      this.#bits.set(bytes(this.#sql.get.get(block, part)?.bits), part * partBytes)
    }
  }
}
