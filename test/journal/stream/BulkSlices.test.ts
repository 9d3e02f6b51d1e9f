import { expect, test } from "bun:test"
import { moveSlice } from "../../../src/journal/archive/MovedLanes.ts"
import { Backlog } from "../../../src/journal/stream/Backlog.ts"
import * as BulkSlices from "../../../src/journal/stream/BulkSlices.ts"
import { cursorOf, entryOf, forSeeds } from "./policies.ts"

const head = 30
const bytesOf = (some: ReadonlyArray<BulkSlices.Again>) => some.reduce((sum, { event }) => sum + event.body.length, 0)

test("slices of a move take all that a lane waits for, once and in order, and leave nothing behind", () => {
  forSeeds(50, (random) => {
    const log = Array.from({ length: head }, (_, index) => entryOf(random, index + 1))
    const source = new Backlog("lake", cursorOf(random, head))
    const end = source.cursor.sequence + random.below(head - source.cursor.sequence + 1)
    const waiting = log.filter(
      ({ sequence, sinks }) => sequence <= end && sinks.includes("lake") && source.isPending(sequence),
    )
    const moved: Array<number> = []
    while (source.cursor.sequence < end) {
      const read = log.slice(source.cursor.sequence, source.cursor.sequence + head)
      const { again, cursor } = moveSlice(read, source, "mail", end)
      expect(cursor.sequence).toBeGreaterThan(source.cursor.sequence)
      expect(bytesOf(again.slice(0, -1))).toBeLessThan(BulkSlices.slice.bytes)
      expect(again.every(({ sinks }) => sinks.length === 1 && sinks[0] === "mail")).toBe(true)
      moved.push(...again.map(({ sequence }) => sequence))
      source.settle(cursor)
    }
    expect(moved).toEqual(waiting.map(({ sequence }) => sequence))
    expect(source.cursor.sequence).toBe(end)
  })
})

test("a slice has the first items until their number or their bytes are enough, and at least one", () => {
  forSeeds(30, (random) => {
    const sizes = Array.from({ length: random.below(20) }, () => random.below(400_000))
    const count = BulkSlices.firstOf(sizes, 8, (size) => size)
    const bytes = (some: ReadonlyArray<number>) => some.reduce((sum, size) => sum + size, 0)
    expect(bytes(sizes.slice(0, count - 1))).toBeLessThan(BulkSlices.slice.bytes)
    const isEnough = count === 8 || bytes(sizes.slice(0, count)) >= BulkSlices.slice.bytes
    expect(isEnough || count === sizes.length).toBe(true)
    expect(count).toBeLessThanOrEqual(8)
    if (sizes.length > 0) expect(count).toBeGreaterThan(0)
  })
})
