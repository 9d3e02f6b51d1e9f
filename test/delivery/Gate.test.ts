import { describe, expect, test } from "bun:test"
import { Duration } from "effect"
import type { Delivery } from "../../src/config/Config.ts"
import { Gate } from "../../src/delivery/Gate.ts"
import { remaining } from "../../src/delivery/Retry.ts"

const delivery: Delivery = {
  timeout: Duration.seconds(10),
  retry: { maxAge: Duration.hours(72), initial: Duration.seconds(1), max: Duration.minutes(10) },
  pauseAfter: 5,
  maxParked: 100,
  maxDeadLetters: 1_000_000,
}
const always = 0.999

describe("a lane's gate", () => {
  test("opens after five failures in a row over at least three different events", () => {
    const gate = new Gate(delivery, undefined)
    const opened = [1, 2, 3, 1, 2].map((sequence) => gate.failed([sequence], "down", 0, always))
    expect(opened).toEqual([false, false, false, false, true])
    expect(gate.condition).toBe("waiting")
  })

  test("one bad event, however often it fails, does not pause the lane", () => {
    const gate = new Gate(delivery, undefined)
    for (let i = 0; i < 50; i++) expect(gate.failed([7], "500", 0, always)).toBe(false)
    expect(gate.condition).toBeUndefined()
  })

  test("one success closes it and forgets the failures", () => {
    const gate = new Gate(delivery, undefined)
    for (const sequence of [1, 2, 3, 4, 5]) gate.failed([sequence], "down", 0, always)
    expect(gate.allowance(0, 0)).toBe(0)
    expect(gate.passed(1)).toBe(true)
    expect(gate.condition).toBeUndefined()
    expect(gate.allowance(0, 3)).toBe(Number.POSITIVE_INFINITY)
  })

  test("one failure changes nothing; from the second in a row attempts go one at a time", () => {
    const gate = new Gate(delivery, undefined)
    gate.failed([1], "reset", 0, always)
    expect(gate.allowance(0, 1)).toBe(Number.POSITIVE_INFINITY)
    gate.failed([2], "reset", 0, always)
    expect(gate.allowance(1_000, 0)).toBe(1)
    expect(gate.allowance(1_000, 1)).toBe(0)
  })

  test("waits longer after each failure, and never longer than the maximum", () => {
    const gate = new Gate(delivery, undefined)
    let now = 0
    const waits: Array<number> = []
    for (let failure = 1; failure <= 20; failure++) {
      gate.failed([failure], "down", now, always)
      let wait = 0
      while (gate.allowance(now + wait, 0) === 0) wait += 500
      waits.push(wait)
      now += wait
    }
    expect(waits.slice(0, 5)).toEqual([0, 1_000, 2_000, 4_000, 8_000])
    expect(Math.max(...waits)).toBeGreaterThan(590_000)
    expect(Math.max(...waits)).toBeLessThanOrEqual(600_000)
  })

  test("a throttled sink is left alone until the time it asked for", () => {
    const gate = new Gate(delivery, undefined)
    expect(gate.throttled([1], "429", 30_000)).toBe(true)
    expect(gate.allowance(29_999, 0)).toBe(0)
    expect(gate.allowance(30_000, 0)).toBe(1)
  })

  test("a wrong config pauses at once, and is probed", () => {
    const gate = new Gate(delivery, undefined)
    expect(gate.misconfigured([1], "401", 0, always)).toBe(true)
    expect(gate.condition).toBe("misconfigured")
    expect(gate.allowance(0, 0)).toBe(0)
    expect(gate.allowance(1_000, 0)).toBe(1)
  })

  test("more than half of the last 20 rejected blocks; half does not", () => {
    const gate = new Gate(delivery, undefined)
    gate.passed(10)
    const verdicts = Array.from({ length: 11 }, () => gate.rejected())
    expect(verdicts).toEqual([...Array.from({ length: 10 }, () => false), true])
  })

  test("a rate limit lets so many events go in its time, and no burst beyond a tenth of a second", () => {
    const gate = new Gate(delivery, { events: 100, per: Duration.seconds(1) })
    let sent = 0
    for (let now = 0; now < 10_000; now += 25) {
      const allowed = gate.allowance(now, 0)
      gate.started(allowed)
      sent += allowed
    }
    expect(sent).toBeGreaterThanOrEqual(990)
    expect(sent).toBeLessThanOrEqual(1_010)
  })

  test("a stored wait is never longer than it was meant to be, whatever the wall clock did", () => {
    expect(remaining(10_000, 5_000, 7_000)).toBe(3_000)
    expect(remaining(10_000, 5_000, 20_000)).toBe(0)
    expect(remaining(10_000, 5_000, -1e12)).toBe(5_000)
  })
})
