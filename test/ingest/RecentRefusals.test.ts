import { describe, expect } from "bun:test"
import { Clock, Effect } from "effect"
import { TestClock } from "effect/testing"
import * as RecentRefusals from "../../src/ingest/RecentRefusals.ts"
import { it } from "../lib/effect.ts"

const start = Effect.gen(function* () {
  const refusals = RecentRefusals.make(yield* Clock.Clock)
  let requests = 0
  const refuse = (detail = "", webhook = "", times = 1) => {
    for (let n = 0; n < times; n++) {
      requests += 1
      refusals.add({ webhook, reason: "unknownPath", requestId: `id-${requests}`, from: "203.0.113.7", detail })
    }
  }
  return { ...refusals, refuse }
})

describe("refusals of the last hour", () => {
  it.effect("are counted by webhook and reason, with the last of them and its subject", function* () {
    const { add, refuse, counted } = yield* start
    refuse("/a", "", 2)
    yield* TestClock.adjust("1 minute")
    refuse("/b")
    add({ webhook: "scheduling", reason: "signatureMismatch", requestId: "id-9", from: "203.0.113.7", detail: "" })
    expect(counted()).toEqual([
      {
        webhook: "",
        reason: "unknownPath",
        count: 3,
        lastAt: 60_000,
        lastRequestId: "id-3",
        lastFrom: "203.0.113.7",
        details: [
          { detail: "/a", count: 2, lastAt: 0 },
          { detail: "/b", count: 1, lastAt: 60_000 },
        ],
      },
      {
        webhook: "scheduling",
        reason: "signatureMismatch",
        count: 1,
        lastAt: 60_000,
        lastRequestId: "id-9",
        lastFrom: "203.0.113.7",
        details: [],
      },
    ])
  })

  it.effect("are forgotten minute by minute, and none is kept after an hour without a repetition", function* () {
    const { refuse, counted } = yield* start
    refuse("/first", "", 3)
    yield* TestClock.adjust("30 minutes")
    refuse("/second", "", 2)
    const counts = () => counted().map(({ count, details }) => [count, ...details.map(({ detail }) => detail)])
    yield* TestClock.adjust("29 minutes")
    expect(counts()).toEqual([[5, "/first", "/second"]])
    yield* TestClock.adjust("1 minute")
    expect(counts()).toEqual([[2, "/second"]])
    yield* TestClock.adjust("10 hours")
    expect(counts()).toEqual([])
    refuse("/third")
    expect(counts()).toEqual([[1, "/third"]])
  })

  it.effect("are counted by the monotonic clock: a jump of the wall clock neither forgets nor keeps any", function* () {
    const test = yield* Clock.Clock
    let ahead = 0
    const clock = { ...test, currentTimeMillisUnsafe: () => test.currentTimeMillisUnsafe() + ahead }
    const { add, counted } = RecentRefusals.make(clock)
    const refuse = () => add({ webhook: "", reason: "method", requestId: "", from: "203.0.113.7", detail: "" })
    refuse()
    ahead = 7_200_000
    refuse()
    ahead = -7_200_000
    refuse()
    expect(counted()[0]?.count).toBe(3)
  })

  it.effect("keep the path that is repeated through a flood of others, and a bounded number of them", function* () {
    const { refuse, counted } = yield* start
    for (let n = 0; n < 2_000; n++) {
      if (n % 20 === 0) refuse("/hooks/schedulng")
      refuse(`/scan/${n}`)
    }
    const [found] = counted()
    expect(found?.count).toBe(2_100)
    expect(found?.details).toHaveLength(10)
    expect(found?.details[0]).toMatchObject({ detail: "/hooks/schedulng", count: 100 })
  })

  it.effect("lose the oldest of the details that came least often, if there are too many", function* () {
    const { refuse, counted } = yield* start
    refuse("/often", "", 2)
    for (let n = 0; n < 10; n++) {
      yield* TestClock.adjust("1 minute")
      refuse(`/${n}`)
    }
    const details = counted().flatMap(({ details }) => details.map(({ detail }) => detail))
    expect(details).toEqual(["/often", "/9", "/8", "/7", "/6", "/5", "/4", "/3", "/2", "/1"])
  })

  it.effect("show a detail cut to 200 characters, without control characters", function* () {
    const { refuse, counted } = yield* start
    refuse(`/${"x".repeat(20_000)}`)
    refuse("/a\u001b[2J\u202e\nb")
    const details = counted().flatMap(({ details }) => details.map(({ detail }) => detail))
    expect(details.toSorted()).toEqual(["/a\ufffd[2J\ufffd\ufffdb", `/${"x".repeat(199)}…`])
  })
})
