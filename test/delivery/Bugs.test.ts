/** A bug, or an event that can't be rendered, affects only the event that meets it, and never the lane. */
import { describe, expect } from "bun:test"
import { Cause, Duration, Effect, Layer, Logger } from "effect"
import type { LaneConfig } from "../../src/config/Config.ts"
import { Lanes } from "../../src/delivery/Lanes.ts"
import { orderKey } from "../../src/formats/Template.ts"
import { allSent, DeliveryRejected, type Failures, type Sink, SinkError } from "../../src/sinks/Sink.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { whole } from "../journal/whole.ts"
import { it } from "../lib/effect.ts"
import { append, failed, lanesOf, letters, pass, rejected, relay, scripted, spec, statusOf } from "./fixture.ts"

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)
const sorted = (sequences: ReadonlyArray<number>) => sequences.toSorted((a, b) => a - b)

/** An event that is signed and kept like any other, but whose object can't be written as JSON. */
const deep = `{"id":"evt_deep","account_id":"acct_1","version":"1","created_at":"2026-01-01T00:00:00Z","data":{"type":"appointment.created","object":{"a":${"[".repeat(100_000)}${"]".repeat(100_000)}}}}`

const appendDeep = Effect.fnUntraced(function* (sinks: ReadonlyArray<string>) {
  const journal = yield* whole
  yield* journal.append(
    {
      id: "evt_deep",
      type: "appointment.created",
      accountId: "acct_1",
      webhook: "scheduling",
      webhookId: "wh_1",
      signature: "sha256=…",
      secret: "dev",
      receivedAt: 0,
      body: new TextEncoder().encode(deep),
    },
    sinks,
  )
})

/** Errors of the log. */
const logging = () => {
  const errors: Array<string> = []
  const logger = Logger.make(({ logLevel, message, cause }) => {
    if (logLevel === "Error") errors.push(`${message} ${Cause.pretty(cause)}`)
  })
  return { errors, layer: Logger.layer([logger]) }
}

describe("an event whose key can't be made", () => {
  const keyed: ReadonlyArray<readonly [string, Partial<LaneConfig>]> = [
    ["the order key", { order: "key" }],
    [
      "the group of a digest",
      { alert: { sends: "digest", resolves: false, wait: Duration.seconds(1), maxEvents: 10 } },
    ],
  ]
  for (const [what, config] of keyed) {
    it.effect(`is a dead letter that names the place that is too deep, and the others continue: ${what}`, () => {
      const sink = scripted(() => "pass", 10)
      const template = { ...config, key: "{{account_id}}/{{/data/object}}" }
      return Effect.gen(function* () {
        yield* append(3, ["sink"])
        yield* appendDeep(["sink"])
        yield* append(3, ["sink"])
        yield* pass("10 seconds")
        expect(
          (yield* letters("sink")).map(({ sequence, attempts }) => [sequence, attempts.map((_) => _.message)]),
        ).toEqual([[4, ["can't be rendered: what stands at /data/object is nested more than 1000 levels deep"]]])
        expect(sorted(sink.delivered)).toEqual([1, 2, 3, 5, 6, 7])
        expect(yield* statusOf("sink")).toMatchObject({ condition: "running", backlog: 0 })
      }).pipe(Effect.provide(relay([{ ...spec("sink", sink.sink, template), key: orderKey({ ...template }) }])))
    })

    it.effect(`because of a bug is a dead letter, the log has the cause, and the others continue: ${what}`, () => {
      const sink = scripted(() => "pass", 10)
      const log = logging()
      const buggy = {
        ...spec("sink", sink.sink, config),
        key: ({ sequence }: { readonly sequence: number }) => {
          if (sequence === 2) throw new TypeError("no such thing")
          return "one"
        },
      }
      return Effect.gen(function* () {
        yield* append(5, ["sink"])
        yield* pass("10 seconds")
        expect((yield* letters("sink")).map(({ sequence }) => sequence)).toEqual([2])
        expect(sorted(sink.delivered)).toEqual([1, 3, 4, 5])
        expect(log.errors.join()).toContain("no such thing")
      }).pipe(Effect.provide(relay([buggy])), Effect.provide(log.layer))
    })
  }
})

/** A sink that throws an error if a batch contains one of these events. */
const dying = (
  poisoned: ReadonlyArray<number>,
  maxEvents: number,
  how: "at once" | "in its effect" = "in its effect",
) => {
  const delivered: Array<number> = []
  const attempted: Array<number> = []
  const sink: Sink = {
    batch: { maxEvents, maxBytes: 1_000_000 },
    send: (batch) => {
      const send = (): Failures => {
        const sequences = batch.map(({ sequence }) => sequence)
        attempted.push(...sequences)
        if (sequences.some((sequence) => poisoned.includes(sequence))) throw new TypeError("no such thing")
        delivered.push(...sequences)
        return allSent
      }
      return how === "at once" ? Effect.succeed(send()) : Effect.sync(send)
    },
    check: Effect.void,
  }
  return { sink, delivered, attempted }
}

describe("a batch that dies of a bug", () => {
  const shapes: ReadonlyArray<readonly [string, Partial<LaneConfig>, number]> = [
    ["of many", { concurrency: 1 }, 50],
    ["of many, by key", { order: "key" }, 50],
    ["of one", {}, 1],
    ["that is a digest", { alert: { sends: "digest", resolves: false, wait: Duration.seconds(1), maxEvents: 100 } }, 1],
  ]
  for (const [what, config, maxEvents] of shapes) {
    for (const how of ["at once", "in its effect"] as const) {
      it.effect(
        `is sent event by event, and the event that triggers the bug is dead after three attempts, ${what}, ${how}`,
        () => {
          const sink = dying([3, 17], maxEvents, how)
          return Effect.gen(function* () {
            yield* append(40, ["sink"], (n) => `acct_${n % 4}`)
            yield* pass("1 minute")
            const dead = (yield* letters("sink")).toSorted((a, b) => a.sequence - b.sequence)
            expect(dead.map(({ sequence, attempts }) => [sequence, attempts.map(({ reason }) => reason)])).toEqual([
              [3, ["Defect", "Defect", "Defect"]],
              [17, ["Defect", "Defect", "Defect"]],
            ])
            expect(sorted(sink.delivered)).toEqual(range(1, 40).filter((sequence) => sequence !== 3 && sequence !== 17))
            expect(yield* statusOf("sink")).toMatchObject({ condition: "running", backlog: 0, retrying: 0 })
          }).pipe(Effect.provide(relay([spec("sink", sink.sink, config)])))
        },
      )
    }
  }

  it.effect("for every event makes the lane wait before a whole backlog is dead", () => {
    const sink = dying(range(1, 500), 10)
    return Effect.gen(function* () {
      yield* append(500, ["sink"])
      yield* pass("1 minute")
      expect(yield* letters("sink")).toEqual([])
      expect(yield* statusOf("sink")).toMatchObject({ condition: "misconfigured", backlog: 500 })
    }).pipe(Effect.provide(relay([spec("sink", sink.sink)])))
  })
})

/** A journal in which one call dies of a bug, the first `times` times. */
const buggy = (times: number, call: "read" | "readRetries" | "settle" | "awaitBeyond") => {
  let left = times
  const bug = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.suspend(() => (left-- > 0 ? Effect.die(new TypeError("no such thing")) : effect))
  return MemoryJournal.layerWith((journal) => ({
    ...(call === "read" && { read: (after, limit) => bug(journal.read(after, limit)) }),
    ...(call === "readRetries" && { readRetries: (lane, some) => bug(journal.readRetries(lane, some)) }),
    ...(call === "awaitBeyond" && {
      // Only calls of the lanes fail: the tests wait for lower sequences.
      awaitBeyond: (after) => (after < 30 ? journal.awaitBeyond(after) : bug(journal.awaitBeyond(after))),
    }),
    ...(call === "settle" && { settle: (some) => bug(journal.settle(some)) }),
  }))
}

/** A journal whose second count of its lanes dies of a bug, after the lanes have started. */
const late = MemoryJournal.layerWith((journal) => {
  let calls = 0
  const bug = Effect.die(new TypeError("no such thing"))
  return { holding: Effect.suspend(() => (++calls === 2 ? bug : journal.holding)) }
})

describe("a lane that a bug ends", () => {
  for (const call of ["read", "readRetries", "awaitBeyond"] as const) {
    it.effect(`reports it in its condition and at ERROR, and restarts with all its events: ${call}`, () => {
      const sink = scripted((entry, attempt) => (entry.sequence % 3 === 0 && attempt === 1 ? failed : "pass"))
      const log = logging()
      return Effect.gen(function* () {
        const seen = new Set<string>()
        yield* append(30, ["sink"], (n) => `acct_${n % 4}`)
        for (let i = 0; i < 300; i++) {
          yield* pass("100 millis")
          seen.add((yield* statusOf("sink"))?.condition ?? "")
        }
        expect([...seen]).toContain("failed")
        expect(log.errors.join()).toContain("the lane of sink sink ended, 1 in a row; it restarts within 1 s")
        expect(log.errors.join()).toContain("no such thing")
        expect(sorted([...new Set(sink.delivered)])).toEqual(range(1, 30))
        expect(yield* statusOf("sink")).toMatchObject({ condition: "running", message: "", backlog: 0, retrying: 0 })
      }).pipe(
        Effect.provide(Layer.provideMerge(lanesOf([spec("sink", sink.sink, { order: "key" })]), buggy(3, call))),
        Effect.provide(log.layer),
      )
    })
  }

  // The lane reads it while it reads events, then when it starts attempts, and then when it is behind the log and
  // starts more.
  for (const time of [1, 3, 13, 14]) {
    it.effect(`restarts with all its events if asking for its concurrency fails, at time ${time}`, () => {
      const sink = scripted(() => "pass")
      const log = logging()
      const { config } = spec("sink", sink.sink)
      let asked = 0
      const poisoned: LaneConfig = {
        ...config,
        get concurrency(): number {
          asked += 1
          if (asked === time) throw new TypeError("no such thing")
          return config.concurrency
        },
      }
      return Effect.gen(function* () {
        yield* append(2_000, ["sink"])
        yield* pass("1 minute")
        expect(log.errors.join()).toContain("no such thing")
        expect(sorted([...new Set(sink.delivered)])).toEqual(range(1, 2_000))
      }).pipe(Effect.provide(relay([{ ...spec("sink", sink.sink), config: poisoned }])), Effect.provide(log.layer))
    })
  }

  it.effect("waits longer each time, and does not stop the others", () => {
    const sink = scripted(() => "pass")
    const other = scripted(() => "pass")
    const log = logging()
    const config = spec("sink", sink.sink).config
    // The pump reads this key at each turn.
    const poisoned: LaneConfig = {
      ...config,
      delivery: {
        ...config.delivery,
        get maxRetrying(): number {
          throw new TypeError("no such thing")
        },
      },
    }
    return Effect.gen(function* () {
      yield* append(10, ["sink", "other"])
      yield* pass("2 minutes")
      expect(other.delivered.length).toBe(10)
      expect(log.errors.length).toBeGreaterThan(5)
      expect(log.errors.length).toBeLessThan(15)
      expect(yield* statusOf("sink")).toMatchObject({ condition: "failed", backlog: 10 })
    }).pipe(
      Effect.provide(relay([{ ...spec("sink", sink.sink), config: poisoned }, spec("other", other.sink)])),
      Effect.provide(log.layer),
    )
  })

  it.effect("at the end of an attempt loses no event", () => {
    let bugs = 2
    const sink = scripted((entry, attempt) => (entry.sequence === 2 && attempt < 4 ? failed : "pass"))
    const { config } = spec("sink", sink.sink, { order: "key" })
    const { delivery } = config
    const buggy: LaneConfig = {
      ...config,
      delivery: {
        ...delivery,
        // The lane reads this key after a failed attempt. The pump never does.
        get retry() {
          if (bugs-- > 0) throw new TypeError("no such thing")
          return delivery.retry
        },
      },
    }
    return Effect.gen(function* () {
      yield* append(12, ["sink"], (n) => `acct_${n % 3}`)
      yield* pass("30 seconds")
      expect(sorted([...new Set(sink.delivered)])).toEqual(range(1, 12))
      expect(yield* statusOf("sink")).toMatchObject({ condition: "running", backlog: 0, retrying: 0 })
    }).pipe(Effect.provide(relay([{ ...spec("sink", sink.sink), config: buggy }])))
  })

  it.effect("can be taken out of the config, and the relay stops", () => {
    const config = spec("sink", scripted(() => "pass").sink).config
    const poisoned: LaneConfig = {
      ...config,
      delivery: {
        ...config.delivery,
        get maxRetrying(): number {
          throw new TypeError("no such thing")
        },
      },
    }
    const other = spec("other", scripted(() => "pass").sink)
    return Effect.gen(function* () {
      yield* append(2, ["sink"])
      yield* pass("3 seconds")
      const lanes = yield* Lanes
      const notes = yield* Effect.forkChild(lanes.change([other], Effect.void))
      yield* pass("10 seconds")
      expect(notes.pollUnsafe()?._tag).toBe("Success")
      expect(yield* statusOf("sink")).toMatchObject({ condition: "orphaned", backlog: 2 })
    }).pipe(Effect.provide(relay([{ ...spec("sink", scripted(() => "pass").sink), config: poisoned }, other])))
  })
})

it.effect("a settlement that dies of a bug is loud, and goes with the next", () => {
  const sink = scripted((entry) => (entry.sequence === 2 ? new DeliveryRejected({ message: "no" }) : "pass"))
  const log = logging()
  return Effect.gen(function* () {
    yield* append(5, ["sink"])
    yield* pass("5 seconds")
    expect(log.errors.join()).toContain("the progress of the lanes could not be stored")
    expect(yield* statusOf("sink")).toMatchObject({ backlog: 0, cursor: 5, deadLetters: 1 })
    expect(sink.attempted.length).toBe(5)
  }).pipe(
    Effect.provide(Layer.provideMerge(lanesOf([spec("sink", sink.sink)]), buggy(2, "settle"))),
    Effect.provide(log.layer),
  )
})

describe("a lane whose progress the journal refuses", () => {
  it.effect("reports it in its condition and once at ERROR, stops at its limit, and delays no other lane", () => {
    const sink = scripted(() => "pass")
    const other = scripted((entry) => (entry.sequence % 100 === 0 ? rejected : "pass"))
    const log = logging()
    let refuses = true
    const poisoned = MemoryJournal.layerWith((journal) => ({
      settle: (some) =>
        // No journal stores this value.
        journal.settle(some.map((one) => (one.lane === "sink" && refuses ? { ...one, pausedFor: 0.5 } : one))),
    }))
    return Effect.gen(function* () {
      yield* append(1_500, ["sink", "other"])
      yield* pass("10 seconds")
      expect(yield* statusOf("other")).toMatchObject({ condition: "running", backlog: 0, deadLetters: 15 })
      const stuck = yield* statusOf("sink")
      expect(stuck).toMatchObject({ condition: "failed", backlog: 1_500 })
      expect(stuck?.message).toContain("the journal refuses the progress of this lane")
      expect(log.errors.filter((line) => line.includes("refuses the progress"))).toHaveLength(1)
      expect(sink.attempted.length).toBeLessThanOrEqual(stuck?.duplicateBound ?? 0)
      refuses = false
      yield* pass("5 seconds")
      expect(yield* statusOf("sink")).toMatchObject({ condition: "running", message: "", backlog: 0 })
      expect(sorted(sink.delivered)).toEqual(range(1, 1_500))
    }).pipe(
      Effect.provide(Layer.provideMerge(lanesOf([spec("sink", sink.sink), spec("other", other.sink)]), poisoned)),
      Effect.provide(log.layer),
    )
  })
})

it.effect("a round of counting that dies of a bug is loud, and the next one counts", () => {
  const sink = scripted(() => rejected)
  const log = logging()
  return Effect.gen(function* () {
    yield* pass("3 seconds")
    expect(log.errors.join()).toContain("counting dead letters and backlogs failed; it is tried again")
    const lanes = yield* Lanes
    yield* append(30, ["sink"])
    yield* pass("5 seconds")
    expect((yield* lanes.status).find(({ name }) => name === "sink")?.deadLetters).toBeGreaterThan(5)
  }).pipe(
    Effect.provide(
      Layer.provideMerge(lanesOf([spec("sink", sink.sink, { backlog: { max: 5, whenFull: "deadLetter" } })]), late),
    ),
    Effect.provide(log.layer),
  )
})

it.effect("a message of a sink is kept to a length that can be read", () => {
  const message = "x".repeat(1_000_000)
  const sink: Sink = {
    batch: { maxEvents: 1, maxBytes: 1_000 },
    send: () => Effect.fail(new SinkError({ reason: new DeliveryRejected({ message }) })),
    check: Effect.void,
  }
  return Effect.gen(function* () {
    yield* append(1, ["sink"])
    yield* pass("5 seconds")
    const [dead] = yield* letters("sink")
    expect(dead?.attempts[0]?.message.length).toBe(1_000)
    yield* append(30, ["sink"])
    yield* pass("5 seconds")
    expect((yield* statusOf("sink"))?.condition).toBe("misconfigured")
    expect((yield* statusOf("sink"))?.message.length).toBeLessThan(2_000)
  }).pipe(Effect.provide(relay([spec("sink", sink)])))
})
