import { describe, expect, test } from "bun:test"
import { Window } from "../../../src/delivery/lane/Changes.ts"
import { seeded } from "../../lib/seeded.ts"
import { tries } from "../../lib/tries.ts"

describe("a lane's window", () => {
  test("the cursor is below the lowest open event", () => {
    const window = new Window({ sequence: 10, settled: [] })
    window.take(11)
    window.skip(12)
    window.take(13)
    window.settle(13)
    expect(window.cursor()).toEqual({ sequence: 10, settled: [[12, 13]] })
    window.settle(11)
    expect(window.cursor()).toEqual({ sequence: 13, settled: [] })
  })

  test("events that are not routed to the lane never hold its cursor back", () => {
    const window = new Window({ sequence: 0, settled: [] })
    for (let sequence = 1; sequence <= 500; sequence++) window.skip(sequence)
    expect(window.cursor()).toEqual({ sequence: 500, settled: [] })
  })

  test("after a restart at any moment each event that was not settled is taken again, and no other", () => {
    for (let seed = 1; seed <= tries(300); seed++) {
      const random = seeded(seed)
      let window = new Window({ sequence: 0, settled: [] })
      const settled = new Map<number, number>()
      let open: Array<number> = []
      let next = 1
      for (let step = 0; step < 120; step++) {
        const dice = random()
        if (dice < 0.5) {
          const sequence = next++
          if (sequence % 3 === 0) window.skip(sequence)
          else {
            const isTaken = window.take(sequence)
            expect(isTaken).toBe(!settled.has(sequence))
            if (isTaken) open.push(sequence)
          }
        } else if (dice < 0.9 && open.length > 0) {
          const [sequence] = open.splice(Math.floor(random() * open.length), 1)
          window.settle(sequence as number)
          settled.set(sequence as number, (settled.get(sequence as number) ?? 0) + 1)
        } else if (dice > 0.97) {
          const cursor = window.cursor()
          for (const sequence of open) expect(cursor.sequence < sequence).toBe(true)
          window = new Window(cursor)
          next = cursor.sequence + 1
          open = []
        }
      }
      for (const times of settled.values()) expect(times).toBe(1)
    }
  })
})
