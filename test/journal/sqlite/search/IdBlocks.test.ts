import { expect, test } from "bun:test"
import { DatabaseSync } from "node:sqlite"
import { blockSize, type Direction, IdBlocks, parts, schemaOf } from "../../../../src/journal/sqlite/search/IdBlocks.ts"
import { hashOf } from "../../../../src/journal/stream/Record.ts"
import { seeded } from "../../../lib/seeded.ts"
import { tries } from "../../../lib/tries.ts"

const opened = () => {
  const db = new DatabaseSync(":memory:")
  db.exec(["CREATE TABLE event (sequence INTEGER PRIMARY KEY, id TEXT NOT NULL)", ...schemaOf("id")].join(";"))
  return db
}

/** Returns the blocks as they are after a start. */
const loaded = (db: DatabaseSync) => {
  const ids = new IdBlocks(db, "id", "id", (column) => JSON.parse(String(column)))
  ids.load()
  return ids
}

/** How many rows the tables have. */
const written = (db: DatabaseSync) =>
  ["id_tags", "id_places"].map((table) => db.prepare(`SELECT count(*) AS rows FROM ${table}`).get()?.rows)

type Events = ReadonlyArray<readonly [sequence: number, hashes: ReadonlyArray<number>]>

/** A model of the blocks: a list of all events, which is searched instead. */
const modelled = () => {
  const db = opened()
  const insert = db.prepare("INSERT INTO event (sequence, id) VALUES (?, ?)")
  const all = new Map<number, ReadonlyArray<number>>()
  let ids = loaded(db)
  const add = (sequence: number, hashes: ReadonlyArray<number>) => {
    insert.run(sequence, JSON.stringify(hashes))
    ids.add(sequence, hashes)
  }
  return {
    all,
    add: (events: Events) => {
      db.exec("BEGIN")
      for (const [sequence, hashes] of events) add(sequence, hashes)
      db.exec("COMMIT")
      for (const [sequence, hashes] of events) all.set(sequence, hashes)
    },
    fail: (events: Events) => {
      db.exec("BEGIN")
      for (const [sequence, hashes] of events) add(sequence, hashes)
      db.exec("ROLLBACK")
      ids.load()
    },
    restart: () => {
      ids = loaded(db)
    },
    prune: (from: number, to: number) => {
      db.exec("BEGIN")
      db.prepare("DELETE FROM event WHERE sequence < ?").run(to)
      ids.prune(from, to)
      db.exec("COMMIT")
      for (const sequence of all.keys()) if (sequence < to) all.delete(sequence)
    },
    /** Returns the events found for a hash, and the expected events from the list. */
    find: (hash: number, from: number, to: number, direction: Direction, limit: number) => {
      const found = ids.find(hash, { from, to }, direction, limit)
      const inOrder = direction === "down" ? [...all.keys()].reverse() : [...all.keys()]
      const end = found.length < limit ? undefined : found.at(-1)
      const passed = end === undefined ? inOrder : inOrder.slice(0, inOrder.indexOf(end) + 1)
      return {
        found,
        named: found.filter((sequence) => all.get(sequence)?.includes(hash)),
        expected: passed.filter((sequence) => from <= sequence && sequence <= to && all.get(sequence)?.includes(hash)),
      }
    },
  }
}

test("match a plain list over starts, failed transactions and pruning, in both directions", () => {
  const random = seeded(5)
  const upTo = (n: number) => Math.floor(random() * n)
  const model = modelled()
  // Hashes that differ in one part of their bits, with the smallest and the largest values.
  const hashes = [
    0,
    1,
    256,
    257,
    1 << 20,
    1 << 24,
    1 << 31,
    -1,
    ...Array.from({ length: 40 }, () => hashOf(`${random()}`)),
  ]
  const hash = () => hashes[upTo(hashes.length)] ?? 0
  let [first, next] = [1, 1]
  /** Returns the next events. Some sequences are left out, and sometimes many. */
  const events = () => {
    let at = next
    return Array.from({ length: 1 + upTo(300) }, () => {
      at += upTo(50) === 0 ? upTo(30_000) : 1
      return [at, [...new Set(Array.from({ length: upTo(4) }, hash))]] as const
    })
  }
  for (let round = 0; round < tries(400); round++) {
    const what = upTo(8)
    if (what === 0) model.restart()
    else if (what === 1) model.fail(events())
    else if (what === 2) {
      const to = Math.min(next, first + upTo(100_000))
      model.prune(first, to)
      first = to
    } else {
      const added = events()
      model.add(added)
      next = (added.at(-1)?.[0] ?? next) + 1
    }
    for (const direction of ["down", "up"] as const) {
      const from = first + upTo(next - first)
      const to = from + upTo(next - from)
      const limit = 1 + upTo(200)
      const { found, named, expected } = model.find(hash(), from, to, direction, limit)
      expect({ round, direction, named }).toEqual({ round, direction, named: expected })
      expect(found).toEqual(found.toSorted((a, b) => (direction === "down" ? b - a : a - b)))
      expect(found.filter((sequence) => sequence < from || sequence > to || !model.all.has(sequence))).toEqual([])
      expect(found.length).toBeLessThanOrEqual(limit)
    }
  }
  expect(next).toBeGreaterThan(tries(20) * blockSize)
})

test("name few events in vain", () => {
  const db = opened()
  const ids = loaded(db)
  const highest = 8 * blockSize - 1
  for (let sequence = 0; sequence <= highest; sequence++) ids.add(sequence, [hashOf(`evt_${sequence}`)])
  let named = 0
  for (let n = 0; n < 1_000; n++) named += ids.find(hashOf(`none_${n}`), { from: 0, to: highest }, "down", 99).length
  // With 24 bits, about 27 false positives are expected in the seven written blocks.
  expect(named).toBeLessThan(45)
})

test("a block is written once, when the next begins, and forgotten when all of it is", () => {
  const db = opened()
  const ids = loaded(db)
  ids.add(blockSize - 1, [1])
  expect(written(db)).toEqual([0, 0])
  ids.add(blockSize, [])
  expect(written(db)).toEqual([parts, parts])
  ids.add(blockSize + 1, [2, 1])
  ids.add(2 * blockSize, [1])
  expect(written(db)).toEqual([2 * parts, 2 * parts])
  ids.prune(1, blockSize - 1)
  expect(written(db)).toEqual([2 * parts, 2 * parts])
  ids.prune(blockSize - 1, blockSize + 5)
  expect(written(db)).toEqual([parts, parts])
  expect(ids.find(1, { from: blockSize, to: 3 * blockSize }, "up", 9)).toEqual([blockSize + 1, 2 * blockSize])
})

test("a block finds all ids of its events, also if they have many more than one each", () => {
  const ids = loaded(opened())
  const hashes = (sequence: number) => [1, 2, 3].map((id) => hashOf(`${sequence} ${id}`))
  for (let sequence = 0; sequence < blockSize; sequence++) ids.add(sequence, hashes(sequence))
  const range = { from: 0, to: blockSize }
  const found = () =>
    [0, 1, blockSize / 2, blockSize - 1].flatMap((sequence) =>
      hashes(sequence).map((hash) => ids.find(hash, range, "up", 99).includes(sequence)),
    )
  const all = Array.from({ length: 12 }, () => true)
  expect(found()).toEqual(all)
  // A block is written when the next one starts.
  ids.add(blockSize, [])
  expect(found()).toEqual(all)
})
