/**
 * Finds events by the hash of their id. Hashes are divided into 256 parts. For each part, a block of sequences
 * has two rows: 16 bits of each hash (its tag), and the position of each in the block. Tags are ordered by
 * part, so a search reads 512 bytes of each block, all of them in a row. Positions are ordered by block, as
 * they are written, and are read only if a tag matches.
 *
 * Part and tag together are 24 bits, so about 1 event in 16,000,000 is a false positive. The block that is
 * being filled is in memory. It is written once, when the next block begins, and after a start it is read from
 * the table of events.
 */
import type { DatabaseSync } from "node:sqlite"
import { bytes, int } from "../rows/Rows.ts"

/** Newest first, or oldest first. */
export type Direction = "down" | "up"

/** Sequences, both ends included. The range is empty if the end is below the beginning. */
export interface Range {
  readonly from: number
  readonly to: number
}

/** Sequences in a block: a position has 16 bits. */
export const blockSize = 65_536
/** Number of parts of the hashes. */
export const parts = 256
/** More than there can be. */
const maxBlocks = 2 ** 40

// The key is the rowid. With a key of two columns, the inner pages would hold whole rows too.
export const schema = [
  "CREATE TABLE tags (key INTEGER PRIMARY KEY, tags BLOB NOT NULL) STRICT",
  "CREATE TABLE places (key INTEGER PRIMARY KEY, places BLOB NOT NULL) STRICT",
]

const blockOf = (sequence: number): number => Math.floor(sequence / blockSize)
const tagsKey = (part: number, block: number): number => part * maxBlocks + block
const placesKey = (part: number, block: number): number => block * parts + part
const partOf = (hash: number): number => hash & (parts - 1)
const tagOf = (hash: number): number => (hash >>> 8) & 0xffff
/** 0 marks a position without an event. */
const notZero = (hash: number): number => hash || 1

const blob = (tag: number): Uint8Array => new Uint8Array(Uint16Array.of(tag).buffer)
const column = (value: unknown): Uint16Array => new Uint16Array(bytes(value).slice().buffer)

const indexesOf = (array: Int32Array | Uint16Array, value: number): Array<number> => {
  const indexes: Array<number> = []
  for (let at = array.indexOf(value); at !== -1; at = array.indexOf(value, at + 1)) indexes.push(at)
  return indexes
}

/** The blocks of an index. Changes are part of the caller's transaction. */
export class IdBlocks {
  readonly #sql
  /** The block that is being filled. */
  #block = 0
  /** Its hashes, by position. */
  readonly #hashes = new Int32Array(blockSize)

  constructor(db: DatabaseSync) {
    const tags = (order: string) =>
      // Most rows have no such tag. Two bytes of different tags may look like it.
      db.prepare(`SELECT key, tags FROM tags WHERE key BETWEEN ? AND ? AND instr(tags, ?) > 0 ORDER BY key ${order}`)
    this.#sql = {
      insertTags: db.prepare("INSERT INTO tags (key, tags) VALUES (?, ?)"),
      insertPlaces: db.prepare("INSERT INTO places (key, places) VALUES (?, ?)"),
      tags: { down: tags("DESC"), up: tags("ASC") },
      places: db.prepare("SELECT places FROM places WHERE key = ?"),
      pruneTags: db.prepare("DELETE FROM tags WHERE key BETWEEN ? AND ?"),
      prunePlaces: db.prepare("DELETE FROM places WHERE key < ?"),
      last: db.prepare("SELECT max(sequence) AS last FROM event"),
      events: db.prepare("SELECT sequence, id FROM event WHERE sequence >= ?"),
    }
  }

  /** Rebuilds the block that is being filled from the events, at the start and after a failed transaction. */
  load(): void {
    this.#begin(blockOf(int(this.#sql.last.get()?.last ?? 0)))
    for (const { sequence, id } of this.#sql.events.iterate(this.#block * blockSize)) this.add(int(sequence), int(id))
  }

  /** Adds an event by the hash of its id, as part of a transaction. Sequences must ascend. */
  add(sequence: number, hash: number): void {
    const block = blockOf(sequence)
    if (block !== this.#block) {
      this.#store()
      this.#begin(block)
    }
    this.#hashes[sequence % blockSize] = notZero(hash)
  }

  /** Returns the first events of a range whose ids may have this hash, in the order of the search. */
  find(hash: number, { from, to }: Range, direction: Direction, limit: number): ReadonlyArray<number> {
    let found: ReadonlyArray<number> = []
    for (const [block, places] of this.#places(notZero(hash), { from, to }, direction)) {
      const inRange = places.map((place) => block * blockSize + place).filter((at) => from <= at && at <= to)
      found = found.concat(direction === "down" ? inRange.reverse() : inRange)
      if (found.length >= limit) return found.slice(0, limit)
    }
    return found
  }

  /** Forgets blocks that end before `to`. Those before `from` are forgotten already. */
  prune(from: number, to: number): void {
    const end = blockOf(to)
    if (blockOf(from) === end) return
    for (let part = 0; part < parts; part++) this.#sql.pruneTags.run(tagsKey(part, 0), tagsKey(part, end - 1))
    this.#sql.prunePlaces.run(placesKey(0, end))
  }

  #begin(block: number): void {
    this.#block = block
    this.#hashes.fill(0)
  }

  #store(): void {
    const places = Array.from({ length: parts }, (): Array<number> => [])
    for (let place = 0; place < blockSize; place++) {
      const hash = this.#hashes[place] ?? 0
      if (hash !== 0) places[partOf(hash)]?.push(place)
    }
    for (const [part, some] of places.entries()) {
      const tags = Uint16Array.from(some, (place) => tagOf(this.#hashes[place] ?? 0))
      this.#sql.insertTags.run(tagsKey(part, this.#block), new Uint8Array(tags.buffer))
      this.#sql.insertPlaces.run(placesKey(part, this.#block), new Uint8Array(Uint16Array.from(some).buffer))
    }
  }

  /**
   * Returns the positions of a hash in each block of a range, and in the block that is being filled, in
   * ascending order. They may include false positives.
   */
  *#places(hash: number, { from, to }: Range, direction: Direction): Generator<readonly [number, Array<number>]> {
    const [part, first, last] = [partOf(hash), blockOf(from), blockOf(to)]
    const tag = tagOf(hash)
    const filling = () => [this.#block, indexesOf(this.#hashes, hash)] as const
    if (direction === "down") yield filling()
    for (const row of this.#sql.tags[direction].iterate(tagsKey(part, first), tagsKey(part, last), blob(tag))) {
      const indexes = indexesOf(column(row.tags), tag)
      if (indexes.length === 0) continue
      const block = int(row.key) % maxBlocks
      const places = column(this.#sql.places.get(placesKey(part, block))?.places)
      yield [block, indexes.map((index) => places[index] ?? 0)]
    }
    if (direction === "up") yield filling()
  }
}
