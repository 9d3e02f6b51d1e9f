import { describe, expect } from "bun:test"
import { Clock, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { LetterCounts } from "../../../../src/journal/postgres/lanes/LetterCounts.ts"
import { WebhookBytes } from "../../../../src/journal/stream/Backlog.ts"
import { it } from "../../../lib/effect.ts"

/** Counts of a lane that has one more dead letter at each count. The database takes `takes` milliseconds. */
const counting = Effect.fnUntraced(function* (takes: () => number) {
  const clock = yield* Clock.Clock
  let counted = 0
  const count = Effect.suspend(() => {
    const letters = ++counted
    return Effect.delay(
      Effect.succeed(new Map([["lake", { letters, returned: 0, bytes: new WebhookBytes() }]])),
      takes(),
    )
  })
  const counts = new LetterCounts(count, () => clock.currentTimeMillisUnsafe())
  const newest = Effect.map(counts.newest, (lanes) => lanes.get("lake")?.letters ?? 0)
  return { counts, newest, counted: () => counted }
})

describe("the counts of dead letters", () => {
  it.effect("are queried once a second, and again after a change", function* () {
    const { counts, newest } = yield* counting(() => 0)
    const asked = Effect.forkChild(newest).pipe(Effect.tap(TestClock.adjust(0)), Effect.flatMap(Fiber.join))
    expect([yield* asked, yield* asked]).toEqual([1, 1])
    counts.changed()
    expect([yield* asked, yield* asked]).toEqual([2, 2])
    yield* TestClock.adjust("1 second")
    expect(yield* asked).toBe(3)
  })

  it.effect("are good for 20 times as long as they took, if nothing changes", function* () {
    const { newest, counted } = yield* counting(() => 100)
    const asked = Effect.forkChild(newest).pipe(Effect.tap(TestClock.adjust(100)), Effect.flatMap(Fiber.join))
    yield* asked
    yield* TestClock.adjust("1900 millis")
    yield* asked
    expect(counted()).toBe(1)
    yield* asked
    expect(counted()).toBe(2)
  })

  it.effect("are repeated where something changes during a count", function* () {
    const { counts, newest } = yield* counting(() => 100)
    const asked = yield* Effect.forkChild(newest)
    yield* TestClock.adjust("50 millis")
    counts.changed()
    yield* TestClock.adjust("150 millis")
    expect(yield* Fiber.join(asked)).toBe(2)
  })

  it.effect("are the last ones while the database is slow: only the first who asks waits half a second", function* () {
    const { counts, newest, counted } = yield* counting(() => 5_000)
    const asked = yield* Effect.forkChild(newest)
    yield* TestClock.adjust("499 millis")
    expect(asked.pollUnsafe()).toBeUndefined()
    yield* TestClock.adjust("1 milli")
    expect(yield* Fiber.join(asked)).toBe(0)
    expect(yield* newest).toBe(0)
    yield* TestClock.adjust("5 seconds")
    expect([counts.last.get("lake")?.letters, counted()]).toEqual([1, 1])
  })
})
