/** An event that fails alone, for a reason that usually concerns the whole sink. */
import { describe, expect, test } from "bun:test"
import { Duration, Effect } from "effect"
import type { LaneConfig } from "../../../src/config/Config.ts"
import { Lanes } from "../../../src/delivery/Lanes.ts"
import { Suspects } from "../../../src/delivery/lane/Suspects.ts"
import type { Entry } from "../../../src/event/Event.ts"
import {
  allSent,
  type Failures,
  type Reason,
  type Sink,
  SinkError,
  SinkMisconfigured,
  SinkThrottled,
} from "../../../src/sinks/Sink.ts"
import * as MemoryJournal from "../../journal/MemoryJournal.ts"
import { retrying, settlement } from "../../journal/samples.ts"
import { whole } from "../../journal/whole.ts"
import { it } from "../../lib/effect.ts"
import { sample } from "../../lib/tries.ts"
import { append, away, failed, lanesOf, letters, pass, relay, scripted, spec, statusOf } from "../fixture.ts"

describe("the suspicion of an event", () => {
  test("is that it is at fault when it failed again although others have passed since", () => {
    const suspects = new Suspects()
    expect(suspects.suspicion(1)).toBe("none")
    suspects.passed()
    suspects.failed(1)
    expect(suspects.suspicion(1)).toBe("none")
    suspects.passed()
    expect([suspects.suspicion(1), suspects.suspicion(2)]).toEqual(["atFault", "none"])
    suspects.failed(1)
    expect(suspects.suspicion(1)).toBe("none")
    suspects.passed()
    suspects.ended(1)
    expect(suspects.suspicion(1)).toBe("none")
  })

  test("stays once it was charged, but while others fail as well it is open", () => {
    const suspects = new Suspects()
    suspects.charge(1)
    expect(suspects.suspicion(1)).toBe("atFault")
    suspects.failed(2)
    expect(suspects.suspicion(1)).toBe("wasAtFault")
    suspects.passed()
    expect(suspects.suspicion(1)).toBe("atFault")
  })

  test("survives a restart if the journal has it as charged for a failure of the whole sink", () => {
    const suspects = new Suspects()
    const retry = { key: "", due: 0, delay: 0, firstAttemptAt: 1, tried: 1, attempts: 1 }
    suspects.recall([
      { ...retry, sequence: 1, lastFailure: "SinkUnavailable" },
      { ...retry, sequence: 2, lastFailure: "DeliveryFailed" },
      { ...retry, sequence: 3, lastFailure: "" },
    ])
    expect([1, 2, 3].map((sequence) => suspects.suspicion(sequence))).toEqual(["atFault", "none", "none"])
  })
})

/** A receiver over one connection: a poisoned event makes its whole batch fail. */
const dropping = (poisoned: (sequence: number) => boolean, reason: Reason, maxEvents: number) => {
  const delivered: Array<number> = []
  const attempted: Array<number> = []
  const sink: Sink = {
    batch: { maxEvents, maxBytes: 1_000_000 },
    send: (batch: ReadonlyArray<Entry>) =>
      Effect.suspend((): Effect.Effect<Failures, SinkError> => {
        attempted.push(...batch.map(({ sequence }) => sequence))
        if (batch.some(({ sequence }) => poisoned(sequence))) return Effect.fail(new SinkError({ reason }))
        delivered.push(...batch.map(({ sequence }) => sequence))
        return Effect.succeed(allSent)
      }),
    check: Effect.void,
  }
  return { sink, delivered, attempted }
}

const few = (overrides: Partial<LaneConfig> = {}): Partial<LaneConfig> => ({
  ...overrides,
  delivery: {
    ...spec("", scripted(() => "pass").sink).config.delivery,
    retry: { maxAge: Duration.hours(72), maxAttempts: 4, initial: Duration.millis(200), max: Duration.seconds(1) },
  },
})

const kinds: ReadonlyArray<readonly [string, Reason]> = [
  ["drops the connection", away],
  ["asks to wait", new SinkThrottled({ message: "answered 429", retryAfter: 1_000 })],
  ["says that the config is wrong", new SinkMisconfigured({ message: "answered 404" })],
]
const shapes: ReadonlyArray<readonly [string, Partial<LaneConfig>, number]> = [
  ["one at a time", { concurrency: 1 }, 1],
  ["four at once", { concurrency: 4 }, 1],
  ["in batches", { concurrency: 1 }, 20],
  ["in batches, by key", { concurrency: 2, order: "key" }, 20],
  ["one by one, by key", { concurrency: 4, order: "key" }, 1],
]

describe("an event at which the receiver", () => {
  for (const [what, reason] of kinds) {
    for (const [how, config, maxEvents] of sample(shapes)) {
      it.effect(`${what} while others pass is given up after its attempts, ${how}, and the others arrive`, () => {
        const poisoned = (sequence: number) => sequence === 1 || sequence === 2 || sequence === 7
        const sink = dropping(poisoned, reason, maxEvents)
        return Effect.gen(function* () {
          for (let round = 0; round < 10; round++) {
            yield* append(5, ["sink"], (n) => `acct_${n}`)
            yield* pass("1 second")
          }
          yield* pass("12 seconds")
          const dead = yield* letters("sink")
          expect(dead.map(({ sequence }) => sequence).toSorted((a, b) => a - b)).toEqual([1, 2, 7])
          for (const { attempts } of dead) {
            expect(attempts.map(({ reason, message }) => [reason, message])).toEqual(
              Array.from({ length: 4 }, () => [reason._tag, reason.message]),
            )
          }
          expect(sink.delivered.toSorted((a, b) => a - b)).toEqual(
            Array.from({ length: 50 }, (_, index) => index + 1).filter((sequence) => !poisoned(sequence)),
          )
          // It is charged four times, and tried a few more times until its fault is plain. Without that, it would be
          // tried 25 times a second.
          expect(sink.attempted.filter((sequence) => sequence === 1).length).toBeLessThan(30)
          expect(yield* statusOf("sink")).toMatchObject({ condition: "running", backlog: 0, retrying: 0 })
        }).pipe(Effect.provide(relay([spec("sink", sink.sink, few(config))])))
      })
    }
  }

  it.effect("drops the connection is tried for as long as it may be old, with waits between", () => {
    const sink = dropping((sequence) => sequence === 1, away, 1)
    const retry = { maxAge: Duration.seconds(30), initial: Duration.seconds(1), max: Duration.seconds(5) }
    const { delivery } = spec("", sink.sink).config
    return Effect.gen(function* () {
      for (let round = 0; round < 25; round++) {
        yield* append(1, ["sink"])
        yield* pass("2 seconds")
      }
      expect((yield* letters("sink")).map(({ sequence }) => sequence)).toEqual([1])
      expect(sink.attempted.filter((sequence) => sequence === 1).length).toBeLessThan(30)
      expect(sink.delivered.length).toBe(24)
    }).pipe(Effect.provide(relay([spec("sink", sink.sink, { delivery: { ...delivery, retry } })])))
  })

  it.effect("drops the connection holds its key until it is dead, and no other", () => {
    const sink = dropping((sequence) => sequence === 2, away, 5)
    return Effect.gen(function* () {
      for (let round = 0; round < 10; round++) {
        yield* append(4, ["sink"], (n) => `acct_${n % 4}`)
        yield* pass("2 seconds")
      }
      expect((yield* letters("sink")).map(({ sequence }) => sequence)).toEqual([2])
      expect(sink.delivered.length).toBe(39)
      for (const key of [0, 1, 2, 3]) {
        const ofKey = sink.delivered.filter((sequence) => sequence % 4 === key)
        expect(ofKey).toEqual(ofKey.toSorted((a, b) => a - b))
      }
    }).pipe(Effect.provide(relay([spec("sink", sink.sink, few({ order: "key" }))])))
  })

  it.effect("drops the connection is given up after a restart, although no other event passes since", () => {
    const sink = dropping((sequence) => sequence === 1, away, 1)
    const lanes = lanesOf([spec("sink", sink.sink, few())])
    const isCharged = Effect.map(statusOf("sink"), (lane) => lane?.retrying === 1)
    return Effect.gen(function* () {
      yield* Effect.gen(function* () {
        while (!(yield* isCharged)) {
          yield* append(1, ["sink"])
          yield* pass("100 millis")
        }
      }).pipe(Effect.provide(lanes))
      expect(yield* letters("sink")).toEqual([])
      yield* Effect.provide(pass("30 seconds"), lanes)
      expect((yield* letters("sink")).map(({ sequence, attempts }) => [sequence, attempts.length])).toEqual([[1, 4]])
    }).pipe(Effect.provide(MemoryJournal.layer))
  })

  it.effect("drops the connection is given up after it was moved from another sink, although no other passes", () => {
    const sink = dropping((sequence) => sequence === 1, away, 1)
    const charged = { at: 5, reason: "SinkUnavailable", message: "refused" }
    return Effect.gen(function* () {
      const [lanes, journal] = [yield* Lanes, yield* whole]
      yield* journal.openLane("left")
      yield* append(1, ["left"])
      const waits = { ...retrying(1), due: 0, delay: 0, failed: [charged] }
      yield* journal.settle([settlement("left", 1, { delivered: [], retry: [waits] })])
      yield* lanes.move("left", "sink")
      yield* pass("30 seconds")
      expect((yield* letters("sink")).map(({ sequence, attempts }) => [sequence, attempts.length])).toEqual([[1, 4]])
    }).pipe(Effect.provide(relay([spec("sink", sink.sink, few())])))
  })

  it.effect("drops the connection spoils its digest, and no other", () => {
    const sink = dropping((sequence) => sequence % 30 === 2, away, 1)
    const digest = { sends: "digest", resolves: false, wait: Duration.millis(400), maxEvents: 100 } as const
    return Effect.gen(function* () {
      yield* append(9, ["sink"], (n) => `acct_${n % 3}`)
      for (let round = 0; round < 20; round++) {
        yield* pass("1 second")
        yield* append(1, ["sink"], () => "acct_1")
      }
      yield* pass("6 seconds")
      expect((yield* letters("sink")).map(({ sequence }) => sequence).toSorted()).toEqual([2, 5, 8])
      expect(new Set(sink.delivered).size).toBe(26)
      expect(yield* statusOf("sink")).toMatchObject({ condition: "running", backlog: 0 })
    }).pipe(Effect.provide(relay([spec("sink", sink.sink, few({ alert: digest }))])))
  })
})

// Found by the simulation: a probe alternated between the two events, and never reached the others.
it.effect("a bad event that is retried and a new bad event don't keep a probe from the others", () => {
  const sink = scripted((entry, attempt) =>
    entry.sequence === 1 ? (attempt === 1 ? failed : away) : entry.sequence === 2 ? away : "pass",
  )
  return Effect.gen(function* () {
    yield* append(1, ["sink"])
    yield* pass("100 millis")
    yield* append(5, ["sink"])
    yield* pass("30 seconds")
    expect(sink.delivered.toSorted()).toEqual([3, 4, 5, 6])
  }).pipe(Effect.provide(relay([spec("sink", sink.sink, { concurrency: 1 })])))
})

describe("while nothing passes", () => {
  for (const [what, reason] of kinds) {
    it.effect(`no event is charged: the sink ${what} every event`, () => {
      let up = true
      const sink = dropping(() => !up, reason, 3)
      return Effect.gen(function* () {
        for (let outage = 0; outage < 2; outage++) {
          up = true
          yield* append(10, ["sink"])
          yield* pass("5 seconds")
          up = false
          yield* append(30, ["sink"])
          yield* pass("30 seconds")
        }
        expect(yield* letters("sink")).toEqual([])
        up = true
        yield* pass("24 seconds")
        expect(new Set(sink.delivered).size).toBe(80)
        expect(yield* letters("sink")).toEqual([])
      }).pipe(Effect.provide(relay([spec("sink", sink.sink, few({ concurrency: 2 }))])))
    })
  }

  it.effect("an outage after an event was found at fault gives its last attempt back", () => {
    let up = true
    const sink = scripted((entry) => (entry.sequence === 1 || !up ? away : "pass"))
    return Effect.gen(function* () {
      const attempts = Effect.gen(function* () {
        return (yield* statusOf("sink"))?.attempts.SinkUnavailable ?? 0
      })
      while ((yield* attempts) < 3) {
        yield* append(1, ["sink"])
        yield* pass("200 millis")
      }
      up = false
      yield* append(20, ["sink"])
      yield* pass("30 seconds")
      expect(yield* letters("sink")).toEqual([])
    }).pipe(Effect.provide(relay([spec("sink", sink.sink, few())])))
  })
})
