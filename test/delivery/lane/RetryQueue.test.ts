import { describe, expect, test } from "bun:test"
import { RetryQueue } from "../../../src/delivery/lane/RetryQueue.ts"

const event = (sequence: number, dueAt: number, key = "", tried = 1) => ({
  sequence,
  key,
  dueAt,
  due: dueAt,
  delay: 1_000,
  firstAttemptAt: tried === 0 ? 0 : 1,
  tried,
  defects: 0,
  taken: false,
})

const sequences = (taken: ReadonlyArray<{ sequence: number }>) => taken.map((one) => one.sequence)

describe("a lane's retry queue", () => {
  test("returns due events, the longest due first, each once", () => {
    const retries = new RetryQueue()
    retries.put(event(1, 300))
    retries.put(event(2, 100))
    retries.put(event(3, 900))
    expect(sequences(retries.takeDue(500, 10))).toEqual([2, 1])
    expect(sequences(retries.takeDue(500, 10))).toEqual([])
    expect(sequences(retries.takeDue(900, 10))).toEqual([3])
  })

  test("events beyond the limit are due immediately afterwards", () => {
    const retries = new RetryQueue()
    for (let sequence = 1; sequence <= 5; sequence++) retries.put(event(sequence, 100))
    expect(sequences(retries.takeDue(100, 2))).toEqual([1, 2])
    expect(sequences(retries.takeDue(100, 10))).toEqual([3, 4, 5])
  })

  test("only the first event of a key is tried; the next follows when it is settled", () => {
    const retries = new RetryQueue()
    retries.put(event(1, 100, "acct_1"))
    retries.put(event(2, 0, "acct_1", 0))
    expect(retries.isBehind("acct_1", 1)).toBe(false)
    expect(retries.isBehind("acct_1", 2)).toBe(true)
    expect(sequences(retries.takeDue(50, 10))).toEqual([])
    expect(sequences(retries.takeDue(100, 10))).toEqual([1])
    retries.remove(1, 120)
    expect(sequences(retries.takeDue(120, 10))).toEqual([2])
    retries.remove(2, 130)
    expect(retries.isBehind("acct_1", 3)).toBe(false)
  })

  test("the next event of a key need not wait any longer once the event before it has ended", () => {
    const retries = new RetryQueue()
    retries.put(event(1, 100, "acct_1"))
    retries.put(event(2, 900, "acct_1", 0))
    expect(sequences(retries.takeDue(100, 10))).toEqual([1])
    retries.remove(1, 120)
    expect(sequences(retries.takeDue(120, 10))).toEqual([2])
  })

  test("an event that has ended takes no room", () => {
    const retries = new RetryQueue()
    for (const [sequence, key] of [
      [1, ""],
      [2, "acct_1"],
    ] as const) {
      retries.put(event(sequence, 100, key))
      expect(retries.hasRoom(1, 9)).toBe(false)
      retries.remove(sequence, 120)
      expect(retries.hasRoom(1, 9)).toBe(true)
    }
  })

  // Found by the simulation (seed 592121): the group was sent again and again, without a wait.
  test("a full group goes before its window ends, but after a failed attempt it waits for its retry", () => {
    const retries = new RetryQueue(2)
    for (const sequence of [1, 2]) retries.put(event(sequence, 900, "group", 0))
    expect(sequences(retries.takeDue(100, 10))).toEqual([1, 2])
    // The sink was away: the attempt is not counted.
    for (const sequence of [1, 2]) retries.put({ ...event(sequence, 500, "group", 0), firstAttemptAt: 1 })
    expect(sequences(retries.takeDue(499, 10))).toEqual([])
    expect(sequences(retries.takeDue(500, 10))).toEqual([1, 2])
  })

  // Found by the simulation (seed 20200): an event was in two digests at the same time, and its end in one digest made
  // the other unreadable.
  test("a group in flight is not taken again, although an earlier event joins it; when it ends, that one goes", () => {
    const inFlight = () => {
      const retries = new RetryQueue(10)
      retries.put(event(7, 100, "group"))
      expect(sequences(retries.takeDue(100, 10))).toEqual([7])
      retries.put(event(1, 100, "group", 0))
      expect(sequences(retries.takeDue(100, 10))).toEqual([])
      return retries
    }
    const delivered = inFlight()
    delivered.remove(7, 110)
    expect(sequences(delivered.takeDue(110, 10))).toEqual([1])
    const failed = inFlight()
    failed.put(event(7, 900, "group", 2))
    expect(sequences(failed.takeDue(110, 10))).toEqual([1])
    const givenBack = inFlight()
    givenBack.giveBack(7, 200)
    expect(sequences(givenBack.takeDue(200, 10))).toEqual([1])
  })

  test("an event without a key, which waited before its lane sent digests, goes by itself", () => {
    const retries = new RetryQueue(2)
    for (const sequence of [1, 2]) retries.put(event(sequence, 100))
    expect(sequences(retries.takeDue(100, 10))).toEqual([1])
    expect(sequences(retries.takeDue(100, 10))).toEqual([2])
  })

  test("a group that filled behind one in flight is sent when that one ends, without waiting for its window", () => {
    const retries = new RetryQueue(2)
    for (const sequence of [1, 2]) retries.put(event(sequence, 1_000, "group", 0))
    expect(sequences(retries.takeDue(10, 10))).toEqual([1, 2])
    for (const sequence of [3, 4]) retries.put(event(sequence, 2_000, "group", 0))
    expect(sequences(retries.takeDue(20, 10))).toEqual([])
    for (const sequence of [1, 2]) retries.remove(sequence, 30)
    expect(sequences(retries.takeDue(30, 10))).toEqual([3, 4])
  })

  test("after a restart a last failure by a bug counts once", () => {
    const retries = new RetryQueue()
    const one = { key: "", due: 0, delay: 0, firstAttemptAt: 1, tried: 1, attempts: 1 }
    retries.load(
      [
        { ...one, sequence: 1, lastFailure: "Defect" },
        { ...one, sequence: 2, lastFailure: "DeliveryFailed" },
      ],
      0,
      0,
    )
    expect([1, 2].map((sequence) => retries.get(sequence)?.defects)).toEqual([1, 0])
  })

  test("after a restart the rest of a wait remains, even if the wall clock went back ten years", () => {
    const retries = new RetryQueue()
    const tenYears = 10 * 365 * 86_400_000
    retries.load(
      [
        {
          sequence: 1,
          key: "",
          due: tenYears + 1_000,
          delay: 1_000,
          firstAttemptAt: 1,
          tried: 0,
          lastFailure: "",
          attempts: 0,
        },
      ],
      0,
      50,
    )
    expect(sequences(retries.takeDue(1_049, 10))).toEqual([])
    expect(sequences(retries.takeDue(1_050, 10))).toEqual([1])
  })
})
