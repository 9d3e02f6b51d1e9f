import { describe, expect } from "bun:test"
import { Clock, Effect } from "effect"
import { Lanes } from "../../src/delivery/Lanes.ts"
import { Archive } from "../../src/journal/Archive.ts"
import { Operator } from "../../src/journal/JournalContext.ts"
import { allSent, type Sink, SinkError } from "../../src/sinks/Sink.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { event } from "../journal/samples.ts"
import { it } from "../lib/effect.ts"
import { append, away, lanesOf, pass, relay, spec, statusOf } from "./fixture.ts"

/** The milliseconds of a mute. */
const length = 120_000

/** A sink that takes any number of events as one message, and its messages. */
const messages = (fails: (message: number) => boolean = () => false) => {
  const sent: Array<ReadonlyArray<number>> = []
  const tried: Array<ReadonlyArray<number>> = []
  const sink: Sink = {
    batch: { maxEvents: 1, maxBytes: 1_000 },
    send: (batch) =>
      Effect.suspend(() => {
        const message = batch.map(({ sequence }) => sequence)
        tried.push(message)
        if (fails(tried.length)) return Effect.fail(new SinkError({ reason: away }))
        sent.push(message)
        return Effect.succeed(allSent)
      }),
    check: Effect.void,
  }
  return { sink, sent, tried }
}

const mute = (ending: "digest" | "drop") =>
  Effect.gen(function* () {
    const until = (yield* Clock.currentTimeMillis) + length
    expect(yield* (yield* Lanes).mute("oncall", until, ending)).toBe(true)
    return until
  }).pipe(Effect.provideService(Operator, "alice"))

const outcomes = Effect.gen(function* () {
  const { events } = yield* (yield* Archive).events({ limit: 1_000 })
  return events.map(({ sequence, deliveries }) => [sequence, deliveries[0]?.outcome]).reverse()
})

describe("a sink that is muted", () => {
  it.effect("sends the events of the muted time as one digest, and later events by themselves", () => {
    const { sink, sent } = messages()
    return Effect.gen(function* () {
      yield* append(1, ["oncall"])
      yield* pass("1 second")
      const until = yield* mute("digest")
      yield* append(600, ["oncall"])
      yield* pass("1 minute")
      expect(sent).toEqual([[1]])
      expect(yield* statusOf("oncall")).toMatchObject({ pausedUntil: until, pausedThen: "digest", backlog: 600 })
      yield* pass("59 seconds")
      yield* append(1, ["oncall"])
      yield* pass("10 seconds")
      expect(sent.slice(1)).toEqual([Array.from({ length: 601 }, (_, n) => n + 2)])
      yield* append(2, ["oncall"])
      yield* pass("1 second")
      expect(sent.slice(2)).toEqual([[603], [604]])
      expect(yield* statusOf("oncall")).toMatchObject({ condition: "running", backlog: 0 })
      expect((yield* statusOf("oncall"))?.pausedThen).toBeUndefined()
    }).pipe(Effect.provide(relay([spec("oncall", sink)])))
  })

  it.effect("sends the digest also if it ended while the relay was down, and again as a whole after a failure", () => {
    const { sink, sent, tried } = messages((message) => message <= 2)
    const lanes = lanesOf([spec("oncall", sink)])
    return Effect.gen(function* () {
      yield* mute("digest").pipe(Effect.provide(lanes))
      yield* append(3, ["oncall"])
      yield* pass("4 minutes")
      yield* Effect.gen(function* () {
        yield* append(1, ["oncall"])
        yield* pass("3 seconds")
        expect(tried.filter((message) => message.length > 1).length).toBeGreaterThan(0)
      }).pipe(Effect.provide(lanes))
      yield* pass("1 minute").pipe(Effect.provide(lanes))
      for (const message of tried) expect([[1, 2, 3], [4]]).toContainEqual([...message])
      expect(sent.toSorted()).toEqual([[1, 2, 3], [4]])
    }).pipe(Effect.provide(MemoryJournal.layer))
  })

  it.effect("keeps the order of a key: an event after the end does not overtake the digest", () => {
    const { sink, sent } = messages()
    return Effect.gen(function* () {
      yield* mute("digest")
      yield* append(4, ["oncall"], (n) => `acct_${n % 2}`)
      yield* pass("2 minutes")
      yield* append(1, ["oncall"], () => "acct_1")
      yield* pass("3 seconds")
      yield* append(1, ["oncall"], () => "acct_1")
      yield* pass("1 second")
      expect(sent).toEqual([[1, 3, 5], [2, 4], [6]])
    }).pipe(Effect.provide(relay([spec("oncall", sink, { order: "key", concurrency: 1 })])))
  })

  it.effect("drops the events of the muted time in the operator's name, and no others", () => {
    const { sink, sent } = messages()
    const lanes = lanesOf([spec("oncall", sink)])
    return Effect.gen(function* () {
      const archive = yield* Archive
      yield* Effect.gen(function* () {
        yield* append(1, ["oncall"])
        yield* pass("1 second")
        yield* mute("drop")
        yield* append(700, ["oncall"])
        yield* pass("119 seconds")
        expect((yield* statusOf("oncall"))?.message).toContain("; events received meanwhile are dropped then; ")
        expect((yield* outcomes).at(-1)).toEqual([701, "pending"])
      }).pipe(Effect.provide(lanes))
      yield* Effect.gen(function* () {
        yield* pass("2 seconds")
        yield* append(1, ["oncall"])
        yield* pass("5 seconds")
        expect(sent).toEqual([[1], [702]])
        const dropped = (yield* outcomes).filter(([, outcome]) => outcome === "dropped")
        expect(dropped.map(([sequence]) => sequence)).toEqual(Array.from({ length: 700 }, (_, n) => n + 2))
        const { events } = yield* archive.events({ outcome: "dropped", limit: 1 })
        expect(events[0]?.deliveries).toMatchObject([{ sink: "oncall", outcome: "dropped", by: "alice" }])
        yield* archive.replay([{ sequence: 2, sinks: ["oncall"] }])
        yield* pass("1 second")
        expect(sent.at(-1)).toEqual([703])
      }).pipe(Effect.provide(lanes))
    }).pipe(Effect.provide(MemoryJournal.layer))
  })

  for (const ending of ["digest", "drop"] as const) {
    it.effect(`delivers each event if it is resumed before the end: ${ending}`, () => {
      const { sink, sent } = messages()
      return Effect.gen(function* () {
        yield* mute(ending)
        yield* append(2, ["oncall"])
        yield* pass("1 minute")
        expect(yield* (yield* Lanes).resume("oncall")).toBe(true)
        yield* pass("4 minutes")
        expect(sent).toEqual([[1], [2]])
      }).pipe(Effect.provide(relay([spec("oncall", sink)])))
    })
  }

  for (const [ending, messagesSent] of [
    ["digest", [[1, 2]]],
    ["drop", []],
  ] as const) {
    it.effect(`applies its rule to events of that time that are imported after its end: ${ending}`, () => {
      const { sink, sent } = messages()
      return Effect.gen(function* () {
        const receivedAt = yield* Clock.currentTimeMillis
        yield* mute(ending)
        yield* pass("5 minutes")
        const events = [1, 2].map((sequence) => ({
          ...{ sequence, replayed: false, pending: ["oncall"] },
          event: event(`owed_${sequence}`, { receivedAt }),
        }))
        const later = { sequence: 3, replayed: false, pending: ["oncall"] }
        const after = { ...later, event: event("owed_3", { receivedAt: receivedAt + length }) }
        const imported = yield* (yield* Archive).import("another", [...events, after])
        expect(imported).toMatchObject({ pending: 3 })
        yield* pass("5 seconds")
        expect(sent.toSorted()).toEqual([...messagesSent, [3]].toSorted())
      }).pipe(Effect.provide(relay([spec("oncall", sink)])))
    })
  }

  it.effect("stays muted from its first start if it is muted again", () => {
    const { sink, sent } = messages()
    return Effect.gen(function* () {
      yield* mute("digest")
      yield* append(1, ["oncall"])
      yield* pass("1 minute")
      yield* mute("drop")
      yield* append(1, ["oncall"])
      yield* pass("4 minutes")
      expect(sent).toEqual([])
      expect(yield* outcomes).toEqual([
        [1, "dropped"],
        [2, "dropped"],
      ])
    }).pipe(Effect.provide(relay([spec("oncall", sink)])))
  })
})
