/** How far the wall clock may drift. */
import { expect, test } from "bun:test"
import type { Clock } from "effect"
import { expiredBefore, make, warningOf } from "../../src/journal/WallClock.ts"

test("a wall clock is trusted up to a minute of drift, and nothing expires beyond it", () => {
  let millis = 5_000_000
  const still = { currentTimeMillisUnsafe: () => millis, monotonicTimeNanosUnsafe: () => 0n } as Clock.Clock
  const clock = make(still)
  for (const [set, isTrusted] of [
    [60_000, true],
    [60_001, false],
    [-60_000, true],
    [-60_001, false],
  ] as const) {
    millis = 5_000_000 + set
    expect([set, clock.trusted(), expiredBefore(clock, millis, 1), warningOf(clock) === ""]).toEqual([
      set,
      isTrusted,
      isTrusted ? millis - 1 : 0,
      isTrusted,
    ])
  }
})
