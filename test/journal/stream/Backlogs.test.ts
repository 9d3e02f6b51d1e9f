import { beforeEach, describe, expect, test } from "bun:test"
import { Backlog, Backlogs, Passing } from "../../../src/journal/stream/Backlog.ts"

const start = { sequence: 0, settled: [] }

describe("a thousand lanes", () => {
  let looks = 0
  class Counted extends Backlog {
    override get isHolding(): boolean {
      looks += 1
      return super.isHolding
    }
  }
  let lanes = new Backlogs()
  const holding = () => [...lanes.holding()].map(({ lane }) => lane)
  const lake = () => lanes.get("lane 7") as Backlog

  beforeEach(() => {
    lanes = new Backlogs()
    for (let n = 0; n < 1_000; n++) lanes.set(`lane ${n}`, new Counted(`lane ${n}`, start))
    expect(holding()).toEqual([])
    looks = 0
  })

  type Change = (lane: Backlog, sequence: number) => void
  const cases: ReadonlyArray<readonly [what: string, begin: Change, end: Change]> = [
    ["has a pending event", (lane, at) => lane.routed(at), (lane, sequence) => lane.settle({ sequence, settled: [] })],
    ["has an event that waits for a retry", (lane, at) => lane.retries(at), (lane, at) => lane.endRetry(at)],
    ["has a dead letter", (lane) => (lane.deadLetters = 1), (lane) => (lane.deadLetters = 0)],
    ["is paused", (lane) => (lane.paused = true), (lane) => (lane.paused = false)],
  ]
  for (const [what, begin, end] of cases) {
    test(`are not visited while only one of them ${what}`, () => {
      for (const again of [1, 2]) {
        begin(lake(), again)
        expect(holding()).toEqual(["lane 7"])
        end(lake(), again)
        expect(holding()).toEqual([])
      }
      expect(looks).toBe(4)
    })
  }

  test("count an event once, also if it is found twice at a start", () => {
    for (const sequence of [1, 2, 1, 2]) lake().routed(sequence)
    expect(lake().size).toBe(2)
  })

  test("don't wait for events that they have settled above their cursors", () => {
    for (let sequence = 1; sequence <= 9; sequence++) lake().routed(sequence)
    lake().settle({ sequence: 2, settled: [[4, 6]] })
    expect(lanes.pendingWithin(1, 8)).toEqual([3, 7, 8])
    expect([lanes.isPending(4, 6), lanes.isPending(6, 7)]).toEqual([false, true])
  })

  test("are not looked at to find the events that lanes wait for", () => {
    for (const sequence of [3, 4, 9]) lake().routed(sequence)
    lanes.get("lane 8")?.routed(4)
    expect(lanes.pendingWithin(4, 10)).toEqual([4, 9])
    expect([lanes.isPending(1, 2), lanes.isPending(1, 3)]).toEqual([false, true])
    expect(looks).toBeLessThan(10)
  })

  test("forget a removed lane, and keep a renamed one", () => {
    lake().routed(3)
    lanes.set("new", lake().renamed("new"))
    lanes.delete("lane 7")
    expect(holding()).toEqual(["new"])
  })

  test("are behind the end of the log if they wait for nothing in it", () => {
    lake().routed(3)
    lanes.get("lane 8")?.settle({ sequence: 5, settled: [] })
    const behind = lanes.behind(0, 5).map(({ lane }) => lane)
    expect(behind).toHaveLength(998)
    expect(behind).not.toContain("lane 7")
    expect(behind).not.toContain("lane 8")
    expect(lanes.behind(1, 5)).toEqual([])
  })
})

test("idle lanes follow the end of the log after 10,000 events or a minute", () => {
  const passing = new Passing()
  expect([passing.isDue(10, 0), passing.isDue(10_009, 59_999), passing.isDue(10_010, 59_999)]).toEqual([
    true,
    false,
    true,
  ])
  expect([passing.isDue(10_011, 119_998), passing.isDue(10_011, 119_999)]).toEqual([false, true])
})
