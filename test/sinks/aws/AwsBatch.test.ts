import { describe, expect, test } from "bun:test"
import { next, type Sized } from "../../../src/sinks/aws/AwsBatch.ts"
import { seeded } from "../../lib/seeded.ts"
import { tries } from "../../lib/tries.ts"

const largest = 256 * 1024

describe("the messages of a request", () => {
  const draw = (random: () => number, isFifo: boolean): ReadonlyArray<Sized> =>
    Array.from({ length: 1 + Math.floor(random() * 30) }, (_, index) => ({
      index,
      size: random() < 0.5 ? 300 : Math.floor(random() * largest) + 1,
      ...(isFifo && { fifo: { group: `g${Math.floor(random() * 4)}` } }),
    }))

  test("are at most ten and within the size, at most one of a group, and every message is sent once, in order", () => {
    const random = seeded(2)
    for (let round = 0; round < tries(500); round++) {
      const isFifo = round % 2 === 0
      const all = draw(random, isFifo)
      const sent: Array<Sized> = []
      let waiting = all
      while (waiting.length > 0) {
        const request = next(waiting, largest)
        expect(request.length).toBeWithin(1, 11)
        expect(request.reduce((sum, { size }) => sum + size, 0)).toBeLessThanOrEqual(largest)
        if (isFifo) expect(new Set(request.map((one) => one.fifo?.group)).size).toBe(request.length)
        sent.push(...request)
        waiting = waiting.filter((one) => !request.includes(one))
      }
      for (const group of Map.groupBy(sent, (one) => one.fifo?.group).values()) {
        expect(group.map(({ index }) => index)).toEqual(group.map(({ index }) => index).toSorted((a, b) => a - b))
      }
      expect(new Set(sent).size).toBe(all.length)
    }
  })

  test("are as many as fit", () => {
    const small = draw(seeded(3), false).map((message) => ({ ...message, size: 300 }))
    expect(next(small, largest)).toEqual(small.slice(0, 10))
    expect(next(small, largest, 1)).toEqual(small.slice(0, 1))
    const halves = small.map((message) => ({ ...message, size: largest / 2 }))
    expect(next(halves, largest)).toEqual(halves.slice(0, 2))
  })
})
