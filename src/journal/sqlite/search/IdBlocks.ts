/**
 * Finds events by the hash of an id. Hashes are divided into 256 parts. For each part, a block of sequences
 * has two rows: 16 bits of each hash (its tag), and the position of each in the block. Tags are ordered by
 * part, so a search reads 512 bytes of each block, all of them in a row. Positions are ordered by block, as
 * they are written, and are read only if a tag matches.
 *
 * Part and tag together are 24 bits, so about 1 id in 16,000,000 is a false positive. The block that is being
 * filled is in memory. It is written once, when the next block begins, and after a start it is read from the
 * table of events. An event may have several ids.
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

/** Returns the tables of some ids. The key is the rowid, because with two columns, the inner pages would hold whole rows too. */
export const schemaOf = (ids: string): ReadonlyArray<string> => [
  `CREATE TABLE ${ids}_tags (key INTEGER PRIMARY KEY, tags BLOB NOT NULL) STRICT`,
  `CREATE TABLE ${ids}_places (key INTEGER PRIMARY KEY, places BLOB NOT NULL) STRICT`,
]

const blockOf = (sequence: number): number => Math.floor(sequence / blockSize)
const tagsKey = (part: number, block: number): number => part * maxBlocks + block
const placesKey = (part: number, block: number): number => block * parts + part
const partOf = (hash: number): number => hash & (parts - 1)
const tagOf = (hash: number): number => (hash >>> 8) & 0xffff

const blob = (tag: number): Uint8Array => new Uint8Array(Uint16Array.of(tag).buffer)
const column = (value: unknown): Uint16Array => new Uint16Array(bytes(value).slice().buffer)

const indexesOf = (array: Int32Array | Uint16Array, value: number): Array<number> => {
  const indexes: Array<number> = []
  for (let at = array.indexOf(value); at !== -1; at = array.indexOf(value, at + 1)) indexes.push(at)
  return indexes
}

/** Returns the hashes of an event, from the column of the table of events. */
export type HashesOf = (column: unknown) => ReadonlyArray<number>

/** Returns the values at some indexes, each once: a hash and another of the same event may be alike. */
const valuesAt = (array: Uint16Array, indexes: ReadonlyArray<number>): Array<number> => [
  ...new Set(indexes.map((index) => array[index] ?? 0)),
]

/** The blocks of some ids. Changes are part of the caller's transaction. */
export class IdBlocks {
  readonly #sql
  readonly #hashesOf: HashesOf
  /** The block that is being filled. */
  #block = 0
  /** Its hashes, and the position of each, in ascending order. */
  #hashes = new Int32Array(blockSize)
  #positions = new Uint16Array(blockSize)
  #count = 0

  /** `ids` is the name of the tables, and `column` the column of the table of events. */
  constructor(db: DatabaseSync, ids: string, column: string, hashesOf: HashesOf) {
    this.#hashesOf = hashesOf
    const tags = (order: string) =>
      // Most rows have no such tag. Two bytes of different tags may look like it.
      db.prepare(
        `SELECT key, tags FROM ${ids}_tags WHERE key BETWEEN ? AND ? AND instr(tags, ?) > 0 ORDER BY key ${order}`,
      )
    this.#sql = {
      insertTags: db.prepare(`INSERT INTO ${ids}_tags (key, tags) VALUES (?, ?)`),
      insertPlaces: db.prepare(`INSERT INTO ${ids}_places (key, places) VALUES (?, ?)`),
      tags: { down: tags("DESC"), up: tags("ASC") },
      places: db.prepare(`SELECT places FROM ${ids}_places WHERE key = ?`),
      pruneTags: db.prepare(`DELETE FROM ${ids}_tags WHERE key BETWEEN ? AND ?`),
      prunePlaces: db.prepare(`DELETE FROM ${ids}_places WHERE key < ?`),
      last: db.prepare("SELECT max(sequence) AS last FROM event"),
      events: db.prepare(`SELECT sequence, ${column} AS hashes FROM event WHERE sequence >= ?`),
    }
  }

  /** Rebuilds the block that is being filled from the events, at the start and after a failed transaction. */
  load(): void {
    this.#begin(blockOf(int(this.#sql.last.get()?.last ?? 0)))
    for (const { sequence, hashes } of this.#sql.events.iterate(this.#block * blockSize)) {
      this.add(int(sequence), this.#hashesOf(hashes))
    }
  }

  /**
   * Adds an event by the hashes of its ids, as part of a transaction. Sequences must ascend. Add an event without
   * ids too, because the next block begins with it.
   */
  add(sequence: number, hashes: ReadonlyArray<number>): void {
    const block = blockOf(sequence)
    if (block !== this.#block) {
      this.#store()
      this.#begin(block)
    }
    for (const hash of hashes) {
      if (this.#count === this.#hashes.length) this.#grow()
      this.#hashes[this.#count] = hash
      this.#positions[this.#count++] = sequence % blockSize
    }
  }

  /** Returns the first events of a range whose ids may have this hash, in the order of the search. */
  find(hash: number, { from, to }: Range, direction: Direction, limit: number): ReadonlyArray<number> {
    let found: ReadonlyArray<number> = []
    for (const [block, places] of this.#places(hash, { from, to }, direction)) {
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
    this.#count = 0
  }

  #grow(): void {
    const [hashes, positions] = [this.#hashes, this.#positions]
    this.#hashes = new Int32Array(hashes.length * 2)
    this.#hashes.set(hashes)
    this.#positions = new Uint16Array(positions.length * 2)
    this.#positions.set(positions)
  }

  #store(): void {
    const indexes = Array.from({ length: parts }, (): Array<number> => [])
    for (let index = 0; index < this.#count; index++) indexes[partOf(this.#hashes[index] ?? 0)]?.push(index)
    for (const [part, some] of indexes.entries()) {
      const tags = Uint16Array.from(some, (index) => tagOf(this.#hashes[index] ?? 0))
      const places = Uint16Array.from(some, (index) => this.#positions[index] ?? 0)
      this.#sql.insertTags.run(tagsKey(part, this.#block), new Uint8Array(tags.buffer))
      this.#sql.insertPlaces.run(placesKey(part, this.#block), new Uint8Array(places.buffer))
    }
  }

  /**
   * Returns the positions of a hash in each block of a range, and in the block that is being filled, in
   * ascending order. They may include false positives.
   */
  *#places(hash: number, { from, to }: Range, direction: Direction): Generator<readonly [number, Array<number>]> {
    const [part, first, last] = [partOf(hash), blockOf(from), blockOf(to)]
    const tag = tagOf(hash)
    const indexes = () => indexesOf(this.#hashes.subarray(0, this.#count), hash)
    const filling = () => [this.#block, valuesAt(this.#positions, indexes())] as const
    if (direction === "down") yield filling()
    for (const row of this.#sql.tags[direction].iterate(tagsKey(part, first), tagsKey(part, last), blob(tag))) {
      const indexes = indexesOf(column(row.tags), tag)
      if (indexes.length === 0) continue
      const block = int(row.key) % maxBlocks
      const places = column(this.#sql.places.get(placesKey(part, block))?.places)
      yield [block, valuesAt(places, indexes)]
    }
    if (direction === "up") yield filling()
  }
}
