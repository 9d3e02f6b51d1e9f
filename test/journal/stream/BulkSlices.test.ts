import { expect, test } from "bun:test"
import { quarantine } from "../../../src/event/Event.ts"
import { Backlog } from "../../../src/journal/stream/Backlog.ts"
import * as BulkSlices from "../../../src/journal/stream/BulkSlices.ts"
import { cursorOf, entryOf, forSeeds, lanes } from "./policies.ts"

const head = 30
const bytesOf = (some: ReadonlyArray<BulkSlices.Again>) => some.reduce((sum, { event }) => sum + event.body.length, 0)

test("slices of a replay take each target once and in order, within their limits", () => {
  forSeeds(30, (random) => {
    const entries = new Map(Array.from({ length: head }, (_, index) => [index + 1, entryOf(random, index + 1)]))
    for (const at of random.some([...entries.keys()])) if (random.below(3) === 0) entries.delete(at)
    const targets = Array.from({ length: head }, (_, index) => ({ sequence: index + 1, sinks: random.some(lanes) }))
    const taken: Array<number> = []
    for (let next = 0; next < targets.length; ) {
      const { done, again, gone } = BulkSlices.replaySlice(targets.slice(next), (at) => entries.get(at), 8)
      expect(done).toBeGreaterThan(0)
      expect(again.length).toBeLessThanOrEqual(8)
      expect(bytesOf(again.slice(0, -1))).toBeLessThan(BulkSlices.slice.bytes)
      expect(gone).toEqual(
        targets.slice(next, next + done).flatMap(({ sequence: at }) => (entries.has(at) ? [] : [at])),
      )
      taken.push(...[...gone, ...again.map(({ sequence }) => sequence)].sort((a, b) => a - b))
      next += done
    }
    expect(taken).toEqual(targets.map(({ sequence }) => sequence))
  })
})

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
      const { again, cursor } = BulkSlices.moveSlice(read, source, "mail", end)
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

test("a letter of the quarantine is routed or stays; every other is replayed for its lane", () => {
  forSeeds(30, (random) => {
    const letters = Array.from({ length: 9 }, (_, index) => {
      const lane = random.below(2) === 0 ? quarantine : "lake"
      return {
        id: `${lane}:${index + 1}`,
        lane,
        sequence: index + 1,
        at: 1,
        attempts: [],
        entry: entryOf(random, index + 1),
      }
    })
    const routable = new Set(random.some(letters).map(({ entry }) => entry.event))
    const { again, routed } = BulkSlices.splitLetters(letters, (event) =>
      routable.has(event) ? { event, sinks: ["mail"] } : undefined,
    )
    const own = letters.filter(({ lane }) => lane !== quarantine)
    expect(again.map(({ letter, sinks }) => [letter, ...sinks])).toEqual(own.map((one) => [one, "lake"]))
    const found = letters.filter(({ lane, entry }) => lane === quarantine && routable.has(entry.event))
    expect(routed.map(({ letter, sinks }) => [letter, ...sinks])).toEqual(found.map((one) => [one, "mail"]))
    // Without routes a letter of the quarantine is replayed for the quarantine.
    expect(BulkSlices.splitLetters(letters, undefined).again.length).toBe(letters.length)
  })
})
