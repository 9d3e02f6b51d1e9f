import { expect, test } from "bun:test"
import { RejectionRate } from "../../../src/delivery/lane/RejectionRate.ts"
import { seeded } from "../../lib/seeded.ts"
import { tries } from "../../lib/tries.ts"

test("more than half of the last 20 rejected blocks; half does not", () => {
  const rejections = new RejectionRate(4)
  rejections.passed(10)
  const verdicts = Array.from({ length: 11 }, () => rejections.rejected())
  expect(verdicts).toEqual([...Array.from({ length: 10 }, () => false), true])
})

/** Sends a burst through `concurrency` places; every `nth` event is rejected. True where that blocks the lane. */
const isBlocked = (concurrency: number, events: number, nth: number, random: () => number): boolean => {
  const rejections = new RejectionRate(concurrency)
  const slow = 1 + random() * 1_000
  const inFlight: Array<{ readonly endsAt: number; readonly isRejected: boolean }> = []
  let now = 0
  let begun = 0
  while (begun < events || inFlight.length > 0) {
    while (begun < events && inFlight.length < concurrency) {
      begun += 1
      const isRejected = begun % nth === 0
      inFlight.push({ endsAt: now + random() * (isRejected ? slow : 1), isRejected })
    }
    inFlight.sort((one, other) => other.endsAt - one.endsAt)
    const ended = inFlight.pop()
    if (ended === undefined) break
    now = ended.endsAt
    if (!ended.isRejected) rejections.passed(1)
    else if (rejections.rejected()) return true
  }
  return false
}

const bursts = (count: number): ReadonlyArray<() => number> =>
  Array.from({ length: tries(count) }, (_, seed) => seeded(seed))

test("a sink that rejects one of four goes on, however slowly it rejects", () => {
  for (const random of bursts(200)) {
    const concurrency = 1 + Math.floor(random() * 128)
    const events = Math.floor(random() * 5_000)
    expect([concurrency, events, isBlocked(concurrency, events, 4, random)]).toEqual([concurrency, events, false])
  }
})

test("one that rejects everything is blocked by four times what may be in flight", () => {
  for (const random of bursts(20)) {
    const concurrency = 1 + Math.floor(random() * 128)
    expect([concurrency, isBlocked(concurrency, Math.max(20, 4 * concurrency), 1, random)]).toEqual([concurrency, true])
  }
})
