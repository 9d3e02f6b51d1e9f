import { describe, expect, test } from "bun:test"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { RelayInfo } from "../../src/admin/RelayInfo.ts"
import { History, percentile99 } from "../../src/admin/status/History.ts"
import type { LaneStatus } from "../../src/delivery/LaneStatus.ts"
import { Lanes } from "../../src/delivery/Lanes.ts"
import { durationBuckets, latencyBuckets } from "../../src/delivery/lane/InFlight.ts"
import * as Counters from "../../src/ingest/Counters.ts"
import { Ingest } from "../../src/ingest/Ingest.ts"
import type { Archive } from "../../src/journal/Archive.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { it } from "../lib/effect.ts"
import { settable } from "../lib/wallClock.ts"
import { lane } from "./fixture.ts"

/** The counts of a relay. The next relay on the same journal continues them. */
const history = Effect.fnUntraced(function* (journal: Layer.Layer<Archive> = MemoryJournal.create()) {
  const counters = Counters.make()
  const lanes: Array<LaneStatus> = []
  const counted = Layer.mergeAll(
    RelayInfo.layer({ version: "1.2.3", configFile: "relay.config.json" }),
    journal,
    Layer.succeed(Ingest, { counters } as Ingest["Service"]),
    Layer.mock(Lanes, {
      status: Effect.sync(() => [...lanes]),
      busy: () => [],
      alerts: Effect.succeed([]),
      counted: () => lanes.map(({ attempts }) => attempts),
    }),
  )
  const { report, hour, percentiles, lane } = yield* Effect.provide(
    History,
    yield* Layer.build(Layer.provide(History.layer, counted)),
  )
  yield* TestClock.adjust(0)
  const answer = (status: number, count: number) =>
    Counters.ofWebhook(counters, "scheduling").answers.set(
      status,
      count + (counters.webhooks.get("scheduling")?.answers.get(status) ?? 0),
    )
  return { report, hour, percentiles, laneReport: lane, lanes, answer }
})

describe("the history", () => {
  it.effect("has the counts of each ten seconds", function* () {
    const { report, lanes, answer } = yield* history()
    answer(204, 5)
    answer(401, 2)
    lanes.push(lane("lake", { attempts: { delivered: 4, SinkUnavailable: 3 } }))
    yield* TestClock.adjust("10 seconds")
    answer(204, 1)
    yield* TestClock.adjust("10 seconds")
    expect(yield* report).toEqual({
      since: 0,
      at: [10_000, 20_000],
      received: [5, 1],
      delivered: [4, 0],
      refused: [2, 0],
      failed: [3, 0],
    })
  })

  it.effect("has for each lane the delivered, failed and waiting events, and the attempts' durations", function* () {
    const { laneReport, lanes } = yield* history()
    expect(laneReport("lake").at).toEqual([])
    lanes.push(
      lane("lake", { attempts: { delivered: 4, SinkUnavailable: 3 }, backlog: 9, durations: { counts: [], sum: 0 } }),
    )
    yield* TestClock.adjust("10 seconds")
    lanes[0] = lane("lake", {
      attempts: { delivered: 10, SinkUnavailable: 3 },
      backlog: 2,
      durations: { counts: [100], sum: 0 },
    })
    yield* TestClock.adjust("10 seconds")
    expect(laneReport("lake")).toEqual({
      since: 0,
      at: [10_000, 20_000],
      delivered: [4, 6],
      failed: [3, 0],
      backlog: [9, 2],
      p99: [null, 5],
    })
    lanes.length = 0
    yield* TestClock.adjust("10 seconds")
    expect(laneReport("lake").at).toEqual([])
  })

  it.effect("keeps an hour of a lane and no more", function* () {
    const { laneReport, lanes } = yield* history()
    lanes.push(lane("lake"))
    yield* TestClock.adjust("90 minutes")
    const found = laneReport("lake")
    expect([found.at.length, found.p99.length, found.at.at(-1)]).toEqual([360, 360, 90 * 60_000])
    expect(found.at[0]).toBe(found.since + 10_000)
  })

  it.effect("goes back an hour and no further", function* () {
    const { report } = yield* history()
    yield* TestClock.adjust("90 minutes")
    const { at, received } = yield* report
    expect([at.length, received.length, at.at(-1)]).toEqual([360, 360, 90 * 60_000])
  })

  it.effect("forgets the steps of a wall clock that was ahead, and those after them an hour later", function* () {
    const { wall, now, withWall } = yield* settable
    yield* Effect.gen(function* () {
      const { report, hour, answer } = yield* history()
      wall.ahead = 30 * 24 * 3_600_000
      yield* TestClock.adjust("10 seconds")
      wall.ahead = 0
      answer(204, 1_000)
      yield* TestClock.adjust("90 minutes")
      const { at, since } = yield* report
      const end = 90 * 60_000 + 10_000
      expect([at.length, at[0], at.at(-1)]).toEqual([360, since + 10_000, end])
      expect(yield* hour).toMatchObject({ since: end - 3_600_000, received: 0 })
      // Ahead for longer than the history is kept.
      wall.ahead = 30 * 24 * 3_600_000
      yield* TestClock.adjust("90 minutes")
      wall.ahead = 0
      answer(204, 7)
      yield* TestClock.adjust("10 seconds")
      expect(yield* hour).toMatchObject({ received: 7 })
      expect((yield* hour).since).toBeLessThanOrEqual(now())
    }).pipe(withWall)
  })

  it.effect("continues after a restart, says when its counts begin, and drops counts older than an hour", function* () {
    const journal = MemoryJournal.create()
    yield* TestClock.adjust("5 minutes")
    yield* Effect.scoped(
      Effect.gen(function* () {
        const { answer, lanes } = yield* history(journal)
        answer(204, 5)
        lanes.push(lane("lake", { attempts: { delivered: 4 } }))
        yield* TestClock.adjust("3 seconds")
      }),
    )
    yield* TestClock.adjust("20 minutes")
    const { hour, answer } = yield* history(journal)
    answer(503, 2)
    const counted = { received: 5, delivered: 4, refused: 2, failed: 0 }
    expect(yield* hour).toEqual({ since: 300_000, ...counted })
    yield* TestClock.adjust("45 minutes")
    expect(yield* hour).toEqual({ since: 603_000, ...counted, received: 0, delivered: 0 })
  })

  it.effect("knows the percentile of the last five minutes only", function* () {
    const { percentiles, lanes } = yield* history()
    const slow = lane("lake", {
      durations: { counts: [0, 0, 0, 0, 0, 10, 0, 0, 0], sum: 30 },
      latencies: { counts: [0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0], sum: 1_000 },
    })
    lanes.push(slow)
    yield* TestClock.adjust("1 second")
    expect(percentiles(slow)).toEqual({ p99: { millis: 5_000 }, latency: { millis: 300_000 } })
    yield* TestClock.adjust("6 minutes")
    expect(percentiles(slow)).toEqual({})
  })
})

describe("the percentile", () => {
  test("is the bound of its bucket, because the durations within a bucket aren't known", () => {
    expect(percentile99([100, 0, 0, 0, 0, 0, 0, 0, 0], durationBuckets)).toEqual({ millis: 5 })
    expect(percentile99([0, 0, 0, 0, 0, 0, 0, 0, 0], durationBuckets)).toBeUndefined()
    expect(percentile99([0, 0, 0, 0, 0, 0, 0, 0, 3], durationBuckets)).toEqual({ millis: 30_000, isAbove: true })
    // Each took 22 s: a place within the bucket would be shown as 59 s.
    expect(percentile99([0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0], latencyBuckets)).toEqual({ millis: 60_000 })
    expect(percentile99([0, 99, 0, 0, 0, 1, 0, 0, 0, 0, 0], latencyBuckets)).toEqual({ millis: 100 })
  })
})
