import { expect, test } from "bun:test"
import { DatabaseSync } from "node:sqlite"
import { blockSize, type Direction, IdFilters, schema } from "../../../../src/journal/sqlite/search/IdFilters.ts"
import { hashOf } from "../../../../src/journal/stream/Record.ts"
import { seeded } from "../../../lib/seeded.ts"

const opened = () => {
  const db = new DatabaseSync(":memory:")
  db.exec(schema)
  return db
}

const id = (sequence: number) => hashOf(`evt_${sequence}`)

/** Filters of so many blocks, each full. */
const filled = (db: DatabaseSync, blocks: number) => {
  const ids = new IdFilters(db)
  for (let sequence = 0; sequence < blocks * blockSize; sequence++) ids.add(sequence, id(sequence))
  ids.store()
  return ids
}

/** The parts of a range that are searched for an id, in their order. */
const searched = (ids: IdFilters, hash: number, from: number, to: number, direction: Direction) => {
  const parts: Array<readonly [number, number]> = []
  for (let range = { from, to }; range.from <= range.to; ) {
    const part = ids.cut(hash, range, direction)
    if (part.from > part.to) break
    parts.push([part.from, part.to])
    range = direction === "down" ? { from, to: part.from - 1 } : { from: part.to + 1, to }
  }
  return parts
}

test("of a long range only the blocks are searched that may hold the id: its own always, others seldom", () => {
  const blocks = 8
  const ids = filled(opened(), blocks)
  const random = seeded(7)
  const highest = blocks * blockSize - 1
  let others = 0
  for (let round = 0; round < 1_000; round++) {
    const sequence = Math.floor(random() * (highest + 1))
    const parts = searched(ids, id(sequence), 0, highest, "down")
    expect(parts.filter(([from, to]) => from <= sequence && sequence <= to)).toHaveLength(1)
    expect(searched(ids, id(sequence), 0, highest, "up")).toEqual(parts.toReversed())
    others += parts.length - 1
  }
  // Of 7,000; a filter of 16 bits an event with four of them set gives 17.
  expect(others).toBeLessThan(70)
})

test("a range may begin and end within a block", () => {
  const ids = filled(opened(), 2)
  const [low, high] = [blockSize - 10, blockSize + 10]
  expect(searched(ids, id(blockSize - 5), low, high, "down")).toEqual([[low, blockSize - 1]])
  expect(searched(ids, id(blockSize + 5), low, high, "up")).toEqual([[blockSize, high]])
  expect(ids.cut(hashOf("none"), { from: low, to: high }, "down")).toEqual({ from: low, to: low - 1 })
  expect(ids.cut(hashOf("none"), { from: low, to: high }, "up")).toEqual({ from: high + 1, to: high })
})

test("they are kept, and go on within a block", () => {
  const db = opened()
  const first = new IdFilters(db)
  first.add(1, id(1))
  first.store()
  const second = new IdFilters(db)
  second.add(2, id(2))
  second.store()
  const third = new IdFilters(db)
  for (const sequence of [1, 2]) expect(searched(third, id(sequence), 0, 9, "down")).toEqual([[0, 9]])
  expect(searched(third, id(3), 0, 9, "down")).toEqual([])
})

test("what a failed transaction took back is there once it is added again", () => {
  const db = opened()
  const ids = new IdFilters(db)
  const sequences = [blockSize - 1, blockSize]
  const addAll = () => {
    for (const sequence of sequences) ids.add(sequence, id(sequence))
    ids.store()
  }
  db.exec("BEGIN")
  addAll()
  db.exec("ROLLBACK")
  addAll()
  const again = new IdFilters(db)
  expect(searched(again, id(blockSize - 1), 0, blockSize, "down")).toEqual([[0, blockSize - 1]])
  expect(searched(again, id(blockSize), 0, blockSize, "down")).toEqual([[blockSize, blockSize]])
})

test("blocks below a sequence are forgotten", () => {
  const db = opened()
  const ids = filled(db, 3)
  ids.prune(blockSize + 5)
  expect(db.prepare("SELECT DISTINCT block FROM filter ORDER BY block").all()).toEqual([{ block: 1 }, { block: 2 }])
})
