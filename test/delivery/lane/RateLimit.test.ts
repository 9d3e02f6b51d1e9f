import { expect, test } from "bun:test"
import { Duration } from "effect"
import { RateLimit } from "../../../src/delivery/lane/Batcher.ts"

test("a rate limit allows its number of events per period, and no burst beyond a tenth of a second", () => {
  const limit = new RateLimit({ events: 100, per: Duration.seconds(1) })
  let sent = 0
  for (let now = 0; now < 10_000; now += 25) {
    const allowed = limit.available(now)
    expect(allowed).toBeLessThanOrEqual(10)
    limit.take(allowed)
    sent += allowed
  }
  expect(sent).toBeGreaterThanOrEqual(990)
  expect(sent).toBeLessThanOrEqual(1_010)
})
