import { describe, expect } from "bun:test"
import { Clock, Effect, Exit, Layer, Logger, References, Scope } from "effect"
import { TestClock } from "effect/testing"
import * as Announcements from "../../src/delivery/Announcements.ts"
import { type Facts, RelayEvents } from "../../src/delivery/RelayEvents.ts"
import type { Entry } from "../../src/event/Event.ts"
import { it } from "../lib/effect.ts"
import { entry } from "../sinks/samples.ts"
import { pass } from "./fixture.ts"

const progress = { settle: () => {}, active: () => {} }

/** Collects the announcements of lanes, with their facts and times. */
const announcing = Effect.gen(function* () {
  const announced: Array<{ readonly facts: Facts; readonly at: number }> = []
  const own = Layer.succeed(
    RelayEvents,
    RelayEvents.of({
      unresolved: () => new Set(),
      append: () => Effect.void,
      emit: (_, facts) => Effect.map(Clock.currentTimeMillis, (at) => void announced.push({ facts, at })),
    }),
  )
  const scope = yield* Scope.make()
  const announce = yield* Announcements.make.pipe(Effect.provide(own), Scope.provide(scope))
  const lane = announce("sink", progress)
  const dies = (sequence: number, of: Entry = entry(sequence)) => lane.deadLettered(of, "DeliveryRejected", "no")
  return {
    announced,
    dies,
    announce,
    stop: Scope.close(scope, Exit.void),
    counts: () => announced.map(({ facts }) => facts.count),
  }
})

describe("the log of a lane", () => {
  const captured = () => {
    const fields: Array<Readonly<Record<string, unknown>>> = []
    const logger = Logger.make(({ fiber }) => void fields.push(fiber.getRef(References.CurrentLogAnnotations)))
    return { fields, layer: Logger.layer([logger]) }
  }

  it.effect("has the sink, the reason and the event in fields", () => {
    const { fields, layer } = captured()
    return Effect.gen(function* () {
      const { announce, dies } = yield* announcing
      dies(1)
      yield* pass("2 seconds")
      const lane = announce("sink", progress)
      lane.paused("SinkUnavailable", "connection refused")
      lane.resumed()
      expect(fields).toEqual([
        { sink: "sink", reason: "DeliveryRejected", event: "evt_1", type: "appointment.created", count: 1 },
        { sink: "sink", reason: "SinkUnavailable" },
        { sink: "sink" },
      ])
    }).pipe(Effect.provide(layer))
  })
})

describe("a dead letter", () => {
  it.effect("is announced together with others within a second, by the first of them", function* () {
    const { announced, dies } = yield* announcing
    for (let sequence = 1; sequence <= 500; sequence++) dies(sequence)
    yield* pass("500 millis")
    dies(501)
    expect(announced).toEqual([])
    yield* pass("20 seconds")
    expect(announced.map(({ facts }) => facts)).toEqual([
      {
        sink: "sink",
        count: 501,
        reason: "DeliveryRejected",
        message: "no",
        event_id: "evt_1",
        event_type: "appointment.created",
      },
    ])
  })

  it.effect("of a stream is in exactly one of its announcements, ten seconds apart, including the last", function* () {
    const { announced, dies, counts } = yield* announcing
    for (let sequence = 1; sequence <= 35; sequence++) {
      dies(sequence)
      yield* pass("1 second")
    }
    yield* pass("20 seconds")
    expect(counts().reduce((sum: number, count) => sum + Number(count), 0)).toBe(35)
    const times = announced.map(({ at }) => at)
    expect(times.length).toBe(5)
    for (const [index, at] of times.entries()) if (index > 0) expect(at - (times[index - 1] ?? 0)).toBe(10_000)
    dies(36)
    yield* pass("1 second")
    expect(counts().at(-1)).toBe(1)
  })

  it.effect("is announced when the relay stops, if it has not been", function* () {
    const { dies, stop, counts } = yield* announcing
    dies(1)
    yield* pass("2 seconds")
    dies(2)
    dies(3)
    yield* stop
    expect(counts()).toEqual([1, 2])
    yield* pass("20 seconds")
    expect(counts()).toEqual([1, 2])
  })

  it.effect("is announced in time whatever the wall clock is set to", function* () {
    const clock = yield* Clock.Clock
    let ahead = 0
    const jumping: Clock.Clock = {
      ...clock,
      sleep: (duration) => clock.sleep(duration),
      monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
      currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + ahead,
    }
    const { dies, counts } = yield* announcing.pipe(Effect.provideService(Clock.Clock, jumping))
    dies(1)
    yield* TestClock.adjust("2 seconds")
    ahead = -86_400_000
    dies(2)
    yield* TestClock.adjust("10 seconds")
    expect(counts()).toEqual([1, 1])
    ahead = 86_400_000
    dies(3)
    yield* TestClock.adjust("5 seconds")
    expect(counts()).toEqual([1, 1])
    yield* TestClock.adjust("6 seconds")
    expect(counts()).toEqual([1, 1, 1])
  })

  it.effect("of a restarted lane is announced with earlier ones", function* () {
    const { dies, announce, counts } = yield* announcing
    dies(1)
    announce("sink", progress).deadLettered(entry(2), "Defect", "a bug")
    yield* pass("20 seconds")
    expect(counts()).toEqual([2])
  })
})
