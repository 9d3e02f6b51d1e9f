import { describe, expect } from "bun:test"
import { Duration, Effect } from "effect"
import type { LaneConfig } from "../../src/config/Config.ts"
import type { Sink } from "../../src/sinks/Sink.ts"
import { it } from "../lib/effect.ts"
import { append, away, failed, letters, pass, relay, scripted, spec, statusOf } from "./fixture.ts"

/** Three may wait for a retry of their own. */
const narrow = (sink: Sink, overrides: Partial<LaneConfig> = {}) => {
  const { delivery } = spec("", sink).config
  return spec("sink", sink, { order: "key", delivery: { ...delivery, maxRetrying: 3 }, ...overrides })
}
const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)
const sorted = (sequences: ReadonlyArray<number>) => sequences.toSorted((a, b) => a - b)

describe("an event that fails for ever", () => {
  it.effect("takes one place among those that wait, however many wait behind it", () => {
    let healed = false
    const sink = scripted((entry) => (entry.event.accountId === "bad" && !healed ? failed : "pass"))
    return Effect.gen(function* () {
      yield* append(25, ["sink"], () => "bad")
      yield* pass("30 seconds")
      yield* append(5, ["sink"], () => "good")
      yield* pass("30 seconds")
      expect(sink.delivered).toEqual(range(26, 30))
      healed = true
      yield* pass("30 seconds")
      expect(sink.delivered).toEqual([...range(26, 30), ...range(1, 25)])
      expect(yield* letters("sink")).toEqual([])
    }).pipe(Effect.provide(relay([narrow(sink.sink)])))
  })

  it.effect("affects only its own digest", () => {
    const sink = scripted((entry) => (entry.event.accountId === "bad" ? failed : "pass"), 3)
    const digest = { sends: "digest", resolves: false, wait: Duration.seconds(2), maxEvents: 3 } as const
    return Effect.gen(function* () {
      yield* append(25, ["sink"], () => "bad")
      yield* pass("30 seconds")
      yield* append(3, ["sink"], () => "good")
      yield* pass("30 seconds")
      expect(sink.delivered).toEqual(range(26, 28))
      expect(yield* letters("sink")).toEqual([])
    }).pipe(Effect.provide(relay([narrow(sink.sink, { order: "none", alert: digest })])))
  })

  it.effect("does not keep the sink's own outage from ending: others are there to be tried", () => {
    let up = true
    const sink = scripted((entry) =>
      up && entry.event.accountId !== "bad" ? "pass" : entry.event.accountId === "bad" ? failed : away,
    )
    return Effect.gen(function* () {
      yield* append(40, ["sink"], () => "bad")
      yield* pass("10 seconds")
      up = false
      yield* append(5, ["sink"], (n) => `acct_${n}`)
      yield* pass("1 minute")
      expect(sink.delivered).toEqual([])
      up = true
      yield* pass("30 seconds")
      expect(sorted(sink.delivered)).toEqual(range(41, 45))
      expect(yield* statusOf("sink")).toMatchObject({ condition: "running", backlog: 40 })
      expect(yield* letters("sink")).toEqual([])
    }).pipe(Effect.provide(relay([narrow(sink.sink)])))
  })
})

describe("events without an order", () => {
  it.effect("are each a failure of their own: where too many fail, the lane waits", () => {
    const sink = scripted((entry) => (entry.sequence <= 4 ? failed : "pass"))
    return Effect.gen(function* () {
      yield* append(8, ["sink"])
      yield* pass("30 seconds")
      yield* append(4, ["sink"])
      yield* pass("30 seconds")
      expect(sorted(sink.delivered)).toEqual(range(5, 8))
      expect(yield* letters("sink")).toEqual([])
    }).pipe(Effect.provide(relay([narrow(sink.sink, { order: "none" })])))
  })
})
