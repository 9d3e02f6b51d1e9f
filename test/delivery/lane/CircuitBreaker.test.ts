import { describe, expect, test } from "bun:test"
import { Duration } from "effect"
import type { Delivery } from "../../../src/config/Config.ts"
import { CircuitBreaker } from "../../../src/delivery/lane/CircuitBreaker.ts"
import { DeliveryFailed, SinkMisconfigured, SinkThrottled, SinkUnavailable } from "../../../src/sinks/Sink.ts"

const delivery: Delivery = {
  timeout: Duration.seconds(10),
  retry: { maxAge: Duration.hours(72), initial: Duration.seconds(1), max: Duration.minutes(10) },
  pauseAfter: 5,
  maxRetrying: 100,
  maxDeadLetters: 1_000_000,
}
const always = () => 0.999
const down = new SinkUnavailable({ message: "down" })
const failed = new DeliveryFailed({ message: "answered 500" })

describe("a lane's circuit breaker", () => {
  test("opens after five failures in a row over at least three different events", () => {
    const breaker = new CircuitBreaker({ delivery }, always)
    const opened = [1, 2, 3, 1, 2].map((sequence) => breaker.failed(down, [sequence], 0, 0).opened)
    expect(opened).toEqual([false, false, false, false, true])
    expect(breaker.condition).toBe("waiting")
  })

  test("one bad event, however often it fails, does not pause the lane", () => {
    const breaker = new CircuitBreaker({ delivery }, always)
    for (let i = 0; i < 50; i++) expect(breaker.failed(down, [7], 0, 0).opened).toBe(false)
    expect(breaker.condition).toBeUndefined()
  })

  test("shows why the last attempt failed, until the sink answers", () => {
    const breaker = new CircuitBreaker({ delivery }, always)
    breaker.failed(failed, [1], 0, 0)
    expect([breaker.condition, breaker.message]).toEqual([undefined, "answered 500"])
    breaker.answered()
    expect(breaker.message).toBe("")
  })

  test("one success closes it and forgets the failures", () => {
    const breaker = new CircuitBreaker({ delivery }, always)
    for (const sequence of [1, 2, 3, 4, 5]) breaker.failed(down, [sequence], 0, 0).opened
    expect(breaker.allowance(0, 0)).toBe(0)
    expect(breaker.answered()).toBe(true)
    expect(breaker.condition).toBeUndefined()
    expect(breaker.allowance(0, 3)).toBe(Number.POSITIVE_INFINITY)
  })

  test("one failure changes nothing; from the second in a row attempts go one at a time", () => {
    const breaker = new CircuitBreaker({ delivery }, always)
    breaker.failed(down, [1], 0, 0).opened
    expect(breaker.allowance(0, 1)).toBe(Number.POSITIVE_INFINITY)
    breaker.failed(down, [2], 0, 0).opened
    expect(breaker.allowance(1_000, 0)).toBe(1)
    expect(breaker.allowance(1_000, 1)).toBe(0)
  })

  test("waits longer after each failure, and never longer than half a minute", () => {
    const breaker = new CircuitBreaker({ delivery }, always)
    let now = 0
    const waits: Array<number> = []
    for (let failure = 1; failure <= 20; failure++) {
      breaker.failed(down, [failure], now, now).opened
      let wait = 0
      while (breaker.allowance(now + wait, 0) === 0) wait += 500
      waits.push(wait)
      now += wait
    }
    expect(waits.slice(0, 5)).toEqual([0, 1_000, 2_000, 4_000, 8_000])
    expect(Math.max(...waits)).toBeGreaterThan(29_000)
    expect(Math.max(...waits)).toBeLessThanOrEqual(30_000)
  })

  test("attempts that were in flight together and fail together make it wait no longer than one would", () => {
    const breaker = new CircuitBreaker({ delivery }, always)
    for (let sequence = 1; sequence <= 16; sequence++) breaker.failed(down, [sequence], 0, 10 + sequence)
    breaker.failed(down, [17], 30, 40)
    expect(breaker.allowance(1_038, 0)).toBe(0)
    expect(breaker.allowance(1_039, 0)).toBe(1)
  })

  test("gives attempts back if others fail too, and charges an event that fails while another is delivered", () => {
    const breaker = new CircuitBreaker({ delivery }, always)
    const refunded = [1, 2, 3, 4, 5].map((sequence) => breaker.failed(failed, [sequence], sequence, sequence).refunded)
    expect(refunded).toEqual([[], [], [], [], [1, 2, 3, 4, 5]])
    expect(breaker.failed(failed, [6], 10, 10).refunded).toEqual([])
    expect(breaker.failed(failed, [7], 20, 20).refunded).toEqual([6])
    breaker.answered()
    expect(breaker.failed(failed, [8], 30, 30).refunded).toEqual([])
  })

  test("a throttled sink gets no attempt until the time it asked for", () => {
    const breaker = new CircuitBreaker({ delivery }, always)
    expect(breaker.failed(new SinkThrottled({ message: "429", retryAfter: 30_000 }), [1], 0, 0).opened).toBe(true)
    expect(breaker.allowance(29_999, 0)).toBe(0)
    expect(breaker.allowance(30_000, 0)).toBe(1)
  })

  test("a wrong config pauses the lane immediately, and is probed", () => {
    const breaker = new CircuitBreaker({ delivery }, always)
    expect(breaker.failed(new SinkMisconfigured({ message: "401" }), [1], 0, 0).opened).toBe(true)
    expect(breaker.condition).toBe("misconfigured")
    expect(breaker.allowance(0, 0)).toBe(0)
    expect(breaker.allowance(1_000, 0)).toBe(1)
  })

  test("waits for a sink that fails otherwise after its config was wrong", () => {
    const breaker = new CircuitBreaker({ delivery }, always)
    breaker.failed(new SinkMisconfigured({ message: "401" }), [1], 0, 0)
    expect(breaker.failed(failed, [2], 1_000, 1_000).opened).toBe(false)
    expect([breaker.condition, breaker.message]).toEqual(["waiting", "answered 500"])
  })
})
