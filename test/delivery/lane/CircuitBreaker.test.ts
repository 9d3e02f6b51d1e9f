import { describe, expect, test } from "bun:test"
import { Duration } from "effect"
import type { Delivery } from "../../../src/config/Config.ts"
import { remaining } from "../../../src/delivery/lane/Backoff.ts"
import { CircuitBreaker } from "../../../src/delivery/lane/CircuitBreaker.ts"
import { DeliveryFailed, SinkMisconfigured, SinkThrottled, SinkUnavailable } from "../../../src/sinks/Sink.ts"

const delivery: Delivery = {
  timeout: Duration.seconds(10),
  retry: { maxAge: Duration.hours(72), initial: Duration.seconds(1), max: Duration.minutes(10) },
  pauseAfter: 5,
  maxParked: 100,
  maxDeadLetters: 1_000_000,
}
const always = 0.999
const down = new SinkUnavailable({ message: "down" })
const failed = new DeliveryFailed({ message: "answered 500" })

describe("a lane's gate", () => {
  test("opens after five failures in a row over at least three different events", () => {
    const gate = new CircuitBreaker({ delivery })
    const opened = [1, 2, 3, 1, 2].map((sequence) => gate.blame(down, [sequence], 0, 0, always).opened)
    expect(opened).toEqual([false, false, false, false, true])
    expect(gate.condition).toBe("waiting")
  })

  test("one bad event, however often it fails, does not pause the lane", () => {
    const gate = new CircuitBreaker({ delivery })
    for (let i = 0; i < 50; i++) expect(gate.blame(down, [7], 0, 0, always).opened).toBe(false)
    expect(gate.condition).toBeUndefined()
  })

  test("says why the last attempt failed, until the sink answers", () => {
    const gate = new CircuitBreaker({ delivery })
    gate.blame(failed, [1], 0, 0, always)
    expect([gate.condition, gate.message]).toEqual([undefined, "answered 500"])
    gate.rejected()
    expect(gate.message).toBe("")
  })

  test("one success closes it and forgets the failures", () => {
    const gate = new CircuitBreaker({ delivery })
    for (const sequence of [1, 2, 3, 4, 5]) gate.blame(down, [sequence], 0, 0, always).opened
    expect(gate.allowance(0, 0)).toBe(0)
    expect(gate.passed(1)).toBe(true)
    expect(gate.condition).toBeUndefined()
    expect(gate.allowance(0, 3)).toBe(Number.POSITIVE_INFINITY)
  })

  test("one failure changes nothing; from the second in a row attempts go one at a time", () => {
    const gate = new CircuitBreaker({ delivery })
    gate.blame(down, [1], 0, 0, always).opened
    expect(gate.allowance(0, 1)).toBe(Number.POSITIVE_INFINITY)
    gate.blame(down, [2], 0, 0, always).opened
    expect(gate.allowance(1_000, 0)).toBe(1)
    expect(gate.allowance(1_000, 1)).toBe(0)
  })

  test("waits longer after each failure, and never longer than half a minute", () => {
    const gate = new CircuitBreaker({ delivery })
    let now = 0
    const waits: Array<number> = []
    for (let failure = 1; failure <= 20; failure++) {
      gate.blame(down, [failure], now, now, always).opened
      let wait = 0
      while (gate.allowance(now + wait, 0) === 0) wait += 500
      waits.push(wait)
      now += wait
    }
    expect(waits.slice(0, 5)).toEqual([0, 1_000, 2_000, 4_000, 8_000])
    expect(Math.max(...waits)).toBeGreaterThan(29_000)
    expect(Math.max(...waits)).toBeLessThanOrEqual(30_000)
  })

  test("attempts that were under way together and fail together make it wait no longer than one would", () => {
    const gate = new CircuitBreaker({ delivery })
    for (let sequence = 1; sequence <= 16; sequence++) gate.blame(down, [sequence], 0, 10 + sequence, always)
    gate.blame(down, [17], 30, 40, always)
    expect(gate.allowance(1_038, 0)).toBe(0)
    expect(gate.allowance(1_039, 0)).toBe(1)
  })

  test("gives attempts back when others fail as well, and charges the one that fails while another passes", () => {
    const gate = new CircuitBreaker({ delivery })
    const pardoned = [1, 2, 3, 4, 5].map(
      (sequence) => gate.blame(failed, [sequence], sequence, sequence, always).pardoned,
    )
    expect(pardoned).toEqual([[], [], [], [], [1, 2, 3, 4, 5]])
    expect(gate.blame(failed, [6], 10, 10, always).pardoned).toEqual([])
    expect(gate.blame(failed, [7], 20, 20, always).pardoned).toEqual([6])
    gate.passed(1)
    expect(gate.blame(failed, [8], 30, 30, always).pardoned).toEqual([])
  })

  test("a throttled sink is left alone until the time it asked for", () => {
    const gate = new CircuitBreaker({ delivery })
    expect(gate.blame(new SinkThrottled({ message: "429", retryAfter: 30_000 }), [1], 0, 0, always).opened).toBe(true)
    expect(gate.allowance(29_999, 0)).toBe(0)
    expect(gate.allowance(30_000, 0)).toBe(1)
  })

  test("a wrong config pauses at once, and is probed", () => {
    const gate = new CircuitBreaker({ delivery })
    expect(gate.blame(new SinkMisconfigured({ message: "401" }), [1], 0, 0, always).opened).toBe(true)
    expect(gate.condition).toBe("misconfigured")
    expect(gate.allowance(0, 0)).toBe(0)
    expect(gate.allowance(1_000, 0)).toBe(1)
  })

  test("more than half of the last 20 rejected blocks; half does not", () => {
    const gate = new CircuitBreaker({ delivery })
    gate.passed(10)
    const verdicts = Array.from({ length: 11 }, () => gate.rejected())
    expect(verdicts).toEqual([...Array.from({ length: 10 }, () => false), true])
  })

  test("a rate limit lets so many events go in its time, and no burst beyond a tenth of a second", () => {
    const gate = new CircuitBreaker({ delivery, rateLimit: { events: 100, per: Duration.seconds(1) } })
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
