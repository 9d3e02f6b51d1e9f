import { expect } from "bun:test"
import { Effect, Exit, Fiber } from "effect"
import { TestClock } from "effect/testing"
import * as Connections from "../../src/sinks/Connections.ts"
import { it } from "../lib/effect.ts"
import { hour, settable } from "../lib/wallClock.ts"

/** Connections by number, in the order in which they were opened. */
const opened = () => {
  const open = new Set<number>()
  let last = 0
  const make = Effect.acquireRelease(
    Effect.sync(() => {
      last += 1
      open.add(last)
      return { number: last, isOpen: () => true }
    }),
    ({ number }) => Effect.sync(() => open.delete(number)),
  )
  return { open, make }
}
const number = (connection: { readonly number: number }) => Effect.succeed(connection.number)

it.effect("a connection of a pool is used again until it is ten minutes old", function* () {
  const { make, open } = opened()
  const use = yield* Connections.pooled(make, "1 hour")
  expect(yield* use(number)).toBe(1)
  yield* TestClock.adjust("9 minutes")
  expect(yield* use(number)).toBe(1)
  yield* TestClock.adjust("1 minute")
  expect(yield* use(number)).toBe(2)
  expect([...open]).toEqual([2])
})

it.effect("an attempt that times out closes the connections that were idle since before, and no others", function* () {
  const { make, open } = opened()
  const use = yield* Connections.pooled(make, "1 hour")
  yield* Effect.all(
    [1, 2, 3].map(() => use(() => Effect.sleep("1 second"))),
    { concurrency: "unbounded" },
  ).pipe(Effect.forkChild)
  yield* TestClock.adjust("1 second")
  yield* TestClock.adjust("1 minute")
  expect(open.size).toBe(3)
  const hanging = yield* Effect.forkChild(use(() => Effect.never))
  yield* TestClock.adjust("1 second")
  // This connection succeeds after the hanging attempt began, so it stays in use.
  const good = yield* use(number)
  yield* Fiber.interrupt(hanging)
  expect(yield* use(number)).toBe(good)
  const others = yield* Effect.all(
    [use((one) => Effect.delay(number(one), 1)), use((one) => Effect.delay(number(one), 1))],
    {
      concurrency: "unbounded",
    },
  ).pipe(Effect.forkChild)
  yield* TestClock.adjust("1 second")
  expect((yield* Fiber.join(others)).filter((one) => one <= 3)).toEqual([good])
})

it.effect("a connection whose use failed is not used again", function* () {
  const { make } = opened()
  const use = yield* Connections.pooled(make, "1 hour")
  expect(Exit.isFailure(yield* Effect.exit(use(() => Effect.fail("no"))))).toBe(true)
  expect(yield* use(number)).toBe(2)
})

for (const by of [-hour, 0, hour]) {
  it.effect(`an idle connection is kept for its time if the wall clock is set by ${by / 60_000} minutes`, function* () {
    const { wall, withWall } = yield* settable
    yield* Effect.gen(function* () {
      const { make, open } = opened()
      const use = yield* Connections.pooled(make, "1 minute")
      yield* TestClock.adjust("90 seconds")
      yield* use(number)
      wall.ahead = by
      yield* TestClock.adjust("45 seconds")
      expect(open.size).toBe(1)
      yield* TestClock.adjust("2 minutes")
      expect(open.size).toBe(0)
    }).pipe(withWall)
  })
}

it.effect("a connection is opened by the wall clock in force", function* () {
  const { wall, now, withWall } = yield* settable
  wall.ahead = hour
  const open = Effect.clockWith((clock) =>
    Effect.sync(() => ({ at: clock.currentTimeMillisUnsafe(), isOpen: () => true })),
  )
  yield* Effect.gen(function* () {
    const use = yield* Connections.pooled(open, "1 minute")
    expect(yield* use(({ at }) => Effect.succeed(at))).toBe(now())
  }).pipe(withWall)
})
