/**
 * Finds events by the hash of their id. The hashes are in 256 parts, and what a
 * part has of a block of sequences is in two rows: 16 bits of each hash (its
 * tag), and the place of each in the block. Tags lie part after part, so that a
 * search reads 512 bytes of each block, and all of them in a row; places lie
 * block after block, as they are written, and are read where a tag is the one
 * wanted.
 *
 * With the part that is 24 bits: of 16,000,000 events one is named in vain. The
 * block that fills is in memory, and written once, when the next one begins;
 * after a start it is read from the table of events.
 */
import type { DatabaseSync } from "node:sqlite"
import { bytes, int } from "../rows/Rows.ts"

/** Newest first, or oldest first. */
export type Direction = "down" | "up"

/** Sequences, both ends included; none where the end is below the beginning. */
export interface Range {
  readonly from: number
  readonly to: number
}

/** Sequences of a block: a place has 16 bits. */
export const blockSize = 65_536
/** How many parts the hashes are in. */
export const parts = 256
/** More than there are. */
const maxBlocks = 2 ** 40

// A key is the rowid: with one of two columns the inner pages would hold whole rows too.
export const schema = [
  "CREATE TABLE tags (key INTEGER PRIMARY KEY, tags BLOB NOT NULL) STRICT",
  "CREATE TABLE places (key INTEGER PRIMARY KEY, places BLOB NOT NULL) STRICT",
]

const blockOf = (sequence: number): number => Math.floor(sequence / blockSize)
const tagsKey = (part: number, block: number): number => part * maxBlocks + block
const placesKey = (part: number, block: number): number => block * parts + part
const partOf = (hash: number): number => hash & (parts - 1)
const tagOf = (hash: number): number => (hash >>> 8) & 0xffff
/** 0 is where no event is. */
const notZero = (hash: number): number => hash || 1

const blob = (tag: number): Uint8Array => new Uint8Array(Uint16Array.of(tag).buffer)
const column = (value: unknown): Uint16Array => new Uint16Array(bytes(value).slice().buffer)

const indexesOf = (array: Int32Array | Uint16Array, value: number): Array<number> => {
  const indexes: Array<number> = []
  for (let at = array.indexOf(value); at !== -1; at = array.indexOf(value, at + 1)) indexes.push(at)
  return indexes
}

/** The blocks of an index. Changes are part of a transaction of the caller's. */
export class IdBlocks {
  readonly #sql
  /** The block that fills. */
  #block = 0
  /** Its hashes, by place. */
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

  /** Makes the block that fills from the events: at the start, and after a transaction that failed. */
  load(): void {
    this.#begin(blockOf(int(this.#sql.last.get()?.last ?? 0)))
    for (const { sequence, id } of this.#sql.events.iterate(this.#block * blockSize)) this.add(int(sequence), int(id))
  }

  /** Adds an event by the hash of its id, as part of a transaction; in ascending order of sequences. */
  add(sequence: number, hash: number): void {
    const block = blockOf(sequence)
    if (block !== this.#block) {
      this.#store()
      this.#begin(block)
    }
    this.#hashes[sequence % blockSize] = notZero(hash)
  }

  /** The first events of a range whose ids may have this hash, in the order of the search. */
  find(hash: number, { from, to }: Range, direction: Direction, limit: number): ReadonlyArray<number> {
    let found: ReadonlyArray<number> = []
    for (const [block, places] of this.#places(notZero(hash), { from, to }, direction)) {
      const inRange = places.map((place) => block * blockSize + place).filter((at) => from <= at && at <= to)
      found = found.concat(direction === "down" ? inRange.reverse() : inRange)
      if (found.length >= limit) return found.slice(0, limit)
    }
    return found
  }

  /** Forgets blocks that end before `to`; those before `from` are forgotten already. */
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

  /** The places in each block of a range, and in the one that fills, where a hash may be, in ascending order. */
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
