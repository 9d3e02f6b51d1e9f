import { expect, test } from "bun:test"
import type { Entry } from "../../../src/event/Event.ts"
import { RecentEntries } from "../../../src/journal/stream/RecentEntries.ts"
import { event } from "../samples.ts"

const entries = (from: number, to: number): ReadonlyArray<Entry> =>
  Array.from({ length: to - from + 1 }, (_, index) => ({
    sequence: from + index,
    event: event(`evt_${from + index}`),
    sinks: ["lake"],
    replayed: false,
  }))
const sequences = (some: ReadonlyArray<Entry>) => some.map(({ sequence }) => sequence)

const holding = (from: number, to: number): RecentEntries => {
  const recent = new RecentEntries()
  recent.push(entries(from, to))
  return recent
}

test("entries that the only reader has read are dropped, and new ones are kept for it", () => {
  const recent = holding(1, 5)
  expect(sequences(recent.read(0, 3, "lake"))).toEqual([1, 2, 3])
  expect(recent.first).toBe(4)
  expect(sequences(recent.read(3, 9, "lake"))).toEqual([4, 5])
  expect(recent.first).toBe(Number.POSITIVE_INFINITY)
  recent.push(entries(6, 7))
  expect(sequences(recent.read(5, 9, "lake"))).toEqual([6, 7])
})

test("entries stay until the slowest of the readers that keep up has them", () => {
  const recent = holding(1, 4)
  recent.read(0, 2, "lake")
  recent.read(2, 9, "lake")
  recent.push(entries(5, 8))
  recent.read(4, 2, "oncall")
  recent.read(4, 4, "lake")
  expect(recent.first).toBe(7)
  expect(recent.get(6)).toBeUndefined()
  expect(recent.get(7)?.sequence).toBe(7)
  expect(sequences(recent.read(6, 9, "oncall"))).toEqual([7, 8])
})

test("a reader that has fallen behind keeps nothing, until it has caught up from the disk", () => {
  const recent = holding(1, 2)
  recent.read(0, 1, "slow")
  recent.read(0, 2, "lake")
  recent.push(entries(3, 5_000))
  expect(recent.first).toBeGreaterThan(3)
  recent.read(recent.first - 1, 5_000, "lake")
  expect(recent.first).toBe(Number.POSITIVE_INFINITY)
  recent.taken(entries(2, 5_000), "slow")
  recent.push(entries(5_001, 5_002))
  recent.read(5_000, 9, "lake")
  expect(sequences(recent.read(5_000, 9, "slow"))).toEqual([5_001, 5_002])
})

test("without a reader they stay, within a bound", () => {
  const recent = holding(1, 10)
  recent.read(0, 10)
  expect(recent.first).toBe(1)
  recent.push(entries(11, 5_000))
  expect(sequences(recent.read(recent.first - 1, 5_000))).toHaveLength(5_001 - recent.first)
  expect(5_001 - recent.first).toBeLessThanOrEqual(4_096)
})

test("while every reader is far behind nothing is kept, and entries are kept again once one has come near", () => {
  const recent = holding(1, 2)
  recent.read(0, 1, "slow")
  recent.push(entries(3, 4_000))
  expect(recent.first).toBe(2)
  recent.push(entries(4_001, 5_000))
  expect(recent.first).toBe(Number.POSITIVE_INFINITY)
  recent.taken(entries(2, 1_500), "slow")
  recent.push(entries(5_001, 5_002))
  recent.taken(entries(1_501, 5_000), "slow")
  expect(sequences(recent.read(5_000, 9, "slow"))).toEqual([5_001, 5_002])
})

test("entries without a waiting reader are dropped immediately, and kept for a woken reader", () => {
  const recent = holding(1, 2)
  recent.read(0, 9, "lake")
  recent.waits("lake")
  recent.push(entries(3, 4))
  recent.dropUnwanted()
  expect(recent.first).toBe(Number.POSITIVE_INFINITY)
  recent.push(entries(5, 8))
  recent.wants("lake", 6)
  recent.dropUnwanted()
  expect(sequences(recent.read(6, 9, "lake"))).toEqual([7, 8])
  expect(recent.first).toBe(Number.POSITIVE_INFINITY)
})
