/** A backlog over its limit: the events that it abandons were not delivered. */
import { describe, expect } from "bun:test"
import { Duration, Effect, Layer, Random } from "effect"
import { unavailable } from "../../src/journal/Journal.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { it } from "../lib/effect.ts"
import { append, away, failed, lanesOf, letters, pass, relay, scripted, spec, statusOf } from "./fixture.ts"

describe("a backlog that is full", () => {
  it.effect("gives up nothing for delivered events that are not on disk yet", () => {
    let up = false
    let storing = true
    const sink = scripted(() => (up ? "pass" : away))
    const stuck = MemoryJournal.layerWith((journal) => ({
      settle: (some) => (storing ? journal.settle(some) : unavailable("not now")),
    }))
    const overrides = {
      backlog: { max: 20, whenFull: "deadLetter" as const },
      rateLimit: { events: 10, per: Duration.seconds(1) },
      concurrency: 1,
    }
    return Effect.gen(function* () {
      yield* append(20, ["sink"])
      yield* pass("3 seconds")
      storing = false
      up = true
      // Half of the events arrive while the disk takes nothing. Then as many new events are appended.
      while (sink.delivered.length < 10) yield* pass("100 millis")
      up = false
      yield* append(10, ["sink"])
      yield* pass("10 seconds")
      storing = true
      yield* pass("10 seconds")
      expect(yield* letters("sink")).toEqual([])
      expect(yield* statusOf("sink")).toMatchObject({ backlog: 30 - sink.delivered.length })
      // Events over the limit do become dead letters, the oldest first.
      yield* append(5, ["sink"])
      yield* pass("10 seconds")
      const dead = (yield* letters("sink")).map(({ sequence }) => sequence)
      expect(dead.length).toBe(35 - sink.delivered.length - 20)
      for (const sequence of dead) expect(sink.delivered).not.toContain(sequence)
    }).pipe(Effect.provide(Layer.provideMerge(lanesOf([spec("sink", sink.sink, overrides)]), stuck)))
  })

  it.effect("gives up the oldest events, which wait for a retry, and not later ones", () => {
    const sink = scripted((entry) => (entry.sequence === 1 ? failed : "pass"))
    const overrides = {
      order: "key" as const,
      backlog: { max: 20, whenFull: "deadLetter" as const },
      retry: { maxAge: Duration.hours(72), initial: Duration.minutes(1), max: Duration.minutes(1) },
    }
    return Effect.gen(function* () {
      yield* append(25, ["sink"])
      yield* pass("20 seconds")
      yield* append(5, ["sink"], () => "acct_2")
      yield* pass("20 seconds")
      expect((yield* letters("sink")).map(({ sequence }) => sequence)).toEqual([5, 4, 3, 2, 1])
      expect(sink.delivered.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 25 }, (_, index) => index + 6))
      // With this seed, the event is not in flight again at the moment the backlog is counted.
    }).pipe(Effect.provide(relay([spec("sink", sink.sink, overrides)])), Random.withSeed("waits"))
  })

  it.effect("gives up no later event for an event that can't be read because its retry is not stored yet", () => {
    let isStoring = false
    const sink = scripted((entry) => (entry.sequence === 1 ? failed : "hang"))
    const { delivery } = spec("", sink.sink).config
    const retry = { ...delivery.retry, initial: Duration.minutes(1), max: Duration.minutes(1) }
    const overrides = {
      backlog: { max: 20, whenFull: "deadLetter" as const },
      delivery: { ...delivery, timeout: Duration.hours(1), retry },
      concurrency: 1,
    }
    const stuck = MemoryJournal.layerWith((journal) => ({
      settle: (some) => (isStoring ? journal.settle(some) : unavailable("not now")),
    }))
    return Effect.gen(function* () {
      yield* append(1, ["sink"])
      yield* pass("100 millis")
      yield* append(25, ["sink"])
      yield* pass("3 seconds")
      isStoring = true
      yield* pass("3 seconds")
      expect((yield* letters("sink")).map(({ sequence }) => sequence)).toEqual([7, 6, 5, 4, 3, 1])
    }).pipe(
      Effect.provide(Layer.provideMerge(lanesOf([spec("sink", sink.sink, overrides)]), stuck)),
      Random.withSeed("waits"),
    )
  })
})

describe("a long backlog", () => {
  it.effect("is stored during its delivery, so that the lane needn't wait for the disk at its limit", () => {
    const sink = scripted(() => "pass")
    const delivered: Array<number> = []
    const watched = MemoryJournal.layerWith((journal) => ({
      settle: (some) => {
        delivered.push(sink.delivered.length)
        return journal.settle(some)
      },
    }))
    return Effect.gen(function* () {
      yield* append(1_500, ["sink"])
      yield* pass("10 seconds")
      expect(sink.delivered).toHaveLength(1_500)
      expect(delivered[0]).toBeLessThan(1_000)
    }).pipe(Effect.provide(Layer.provideMerge(lanesOf([spec("sink", sink.sink)]), watched)))
  })
})
