import { describe, expect } from "bun:test"
import { Effect, Exit, Layer, Logger, References, Scope } from "effect"
import { TestClock } from "effect/testing"
import { limit, reportsLoss } from "../../src/telemetry/Repeats.ts"
import { it } from "../lib/effect.ts"
import { hour, settable } from "../lib/wallClock.ts"

/** The lines that pass the limiter. `close` ends its scope. */
const start = Effect.gen(function* () {
  const lines: Array<string> = []
  const dates: Array<number> = []
  const fields: Array<Readonly<Record<string, unknown>>> = []
  const scope = yield* Scope.make()
  const logger = Logger.make(({ message, date, fiber }) => {
    lines.push(String(message))
    dates.push(date.getTime())
    fields.push(fiber.getRef(References.CurrentLogAnnotations))
  })
  const limited = yield* limit(logger).pipe(Scope.provide(scope))
  return { lines, dates, fields, logger: Logger.layer([limited]), close: Scope.close(scope, Exit.void) }
})

const times = (count: number, effect: Effect.Effect<void>) => Effect.replicateEffect(effect, count, { discard: true })

describe("repeats in the log", () => {
  it.effect(
    "are one line immediately, and after ten seconds another with the count of the suppressed ones",
    function* () {
      const { lines, logger } = yield* start
      yield* times(50, Effect.logWarning("refused with 401")).pipe(Effect.provide(logger))
      expect(lines).toEqual(["refused with 401"])
      yield* TestClock.adjust("11 seconds")
      expect(lines).toEqual(["refused with 401", "refused with 401 (49 times since the last such line)"])
      yield* TestClock.adjust("1 minute")
      expect(lines).toHaveLength(2)
      yield* Effect.provide(Effect.logWarning("refused with 401"), logger)
      expect(lines.at(-1)).toBe("refused with 401")
    },
  )

  it.effect("are one line in ten seconds, however often the wall clock is set", function* () {
    const { wall, withWall } = yield* settable
    yield* Effect.gen(function* () {
      const { lines, logger } = yield* start
      for (let second = 0; second < 30; second++) {
        wall.ahead = second % 2 === 0 ? hour : -hour
        yield* times(10, Effect.logWarning("refused")).pipe(Effect.provide(logger))
        yield* TestClock.adjust("1 second")
      }
      expect(lines.length).toBe(4)
    }).pipe(withWall)
  })

  it.effect("that never stop are one line in ten seconds", function* () {
    const { lines, logger } = yield* start
    for (let second = 0; second < 60; second++) {
      yield* times(100, Effect.logWarning("refused")).pipe(Effect.provide(logger))
      yield* TestClock.adjust("1 second")
    }
    expect(lines.length).toBe(7)
    const told = lines.slice(1).map((line) => Number(/\((\d+) times/.exec(line)?.[1]))
    expect(told.reduce((sum, count) => sum + count, 1)).toBe(6_000)
  })

  it.effect("are distinguished by their first 300 characters, so that memory is limited", function* () {
    const { lines, logger } = yield* start
    const all = Effect.forEach(["a", "b"], (end) => Effect.logWarning(`${"w".repeat(300)}${end.repeat(100_000)}`))
    yield* Effect.provide(all, logger)
    expect(lines).toHaveLength(1)
  })

  it.effect("are no losses: each of 30 different lines is written, and the same line again is a repeat", function* () {
    const { lines, logger } = yield* start
    const lost = Array.from({ length: 30 }, (_, at) => `lost 100 events, from seq_${100 * at} on`)
    yield* Effect.forEach([...lost, ...lost], (line) => reportsLoss(Effect.logError(line))).pipe(Effect.provide(logger))
    expect(lines).toEqual(lost)
  })

  it.effect("are alike whatever their numbers, and different with another level or other words", function* () {
    const { lines, logger } = yield* start
    yield* Effect.provide(
      Effect.gen(function* () {
        yield* Effect.logWarning("sink lake: 3 events wait")
        yield* Effect.logWarning("sink lake: 4711 events wait")
        yield* Effect.logError("sink lake: 3 events wait")
        yield* Effect.logWarning("sink chat: 3 events wait")
      }),
      logger,
    )
    expect(lines).toEqual([
      "sink lake: 3 events wait",
      "sink lake: 4711 events wait (1 time since the last such line)",
      "sink lake: 3 events wait",
      "sink chat: 3 events wait",
    ])
  })

  it.effect("are written before later lines, in their order, with the time of writing", function* () {
    const { lines, dates, logger } = yield* start
    const say = (words: string) => Effect.provide(Effect.logWarning(words), logger)
    for (const words of ["resumed", "paused", "paused", "resumed", "paused"]) {
      yield* say(words)
      yield* TestClock.adjust("1 second")
    }
    yield* say("another")
    expect(lines).toEqual([
      "resumed",
      "paused",
      "resumed (1 time since the last such line)",
      "paused (2 times since the last such line)",
      "another",
    ])
    expect(dates).toEqual([0, 1_000, 5_000, 5_000, 5_000])
  })

  it.effect("are written at most once a second, however many new lines arrive", function* () {
    const { lines, logger } = yield* start
    for (const other of ["a", "b", "c", "d", "e"]) {
      yield* Effect.provide(Effect.andThen(times(10, Effect.logWarning("refused")), Effect.logInfo(other)), logger)
      yield* TestClock.adjust("300 millis")
    }
    expect(lines.filter((line) => line.startsWith("refused"))).toHaveLength(3)
  })

  it.effect("are written with the fields of the last of them, their number and its time", function* () {
    const { fields, logger } = yield* start
    for (const requestId of ["id-1", "id-2", "id-3"]) {
      yield* Effect.provide(Effect.annotateLogs(Effect.logWarning("refused"), { requestId }), logger)
      yield* TestClock.adjust("1 second")
    }
    yield* TestClock.adjust("10 seconds")
    expect(fields).toEqual([
      { requestId: "id-1" },
      { requestId: "id-3", repeated: 2, lastAt: "1970-01-01T00:00:02.000Z" },
    ])
  })

  it.effect("are written at the end, too", function* () {
    const { lines, logger, close } = yield* start
    yield* times(3, Effect.logInfo("goes on")).pipe(Effect.provide(logger))
    yield* close
    expect(lines).toEqual(["goes on", "goes on (2 times since the last such line)"])
  })

  it.effect("take no more memory than a thousand kinds: a flood of different lines is suppressed as one", function* () {
    const { lines, logger } = yield* start
    const name = (n: number) => n.toString(26).replaceAll(/\d/g, (digit) => "qrstuvwxyz"[Number(digit)] ?? "")
    yield* Effect.forEach(
      Array.from({ length: 5_000 }, (_, n) => n),
      (n) => Effect.logInfo(`odd ${name(n)}`),
      {
        discard: true,
      },
    ).pipe(Effect.provide(Layer.fresh(logger)))
    expect(lines.length).toBeLessThanOrEqual(1_001)
  })
})
