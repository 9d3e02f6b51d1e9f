import { describe, expect, test } from "bun:test"
import { Duration, Effect, Layer } from "effect"
import type { LaneConfig } from "../../src/config/Config.ts"
import { Stall } from "../../src/delivery/lane/LaneState.ts"
import { unavailable } from "../../src/journal/Journal.ts"
import type { WholeJournal } from "../../src/journal/JournalType.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { it } from "../lib/effect.ts"
import { append, failed, lanesOf, pass, relay, type Script, scripted, spec, statusOf } from "./fixture.ts"

type Fault = (journal: WholeJournal, isOn: () => boolean) => Partial<WholeJournal>

/** A lane over a journal with a fault that is switched on and off. */
const lane = (fault: Fault, script: Script = () => "pass") => {
  const state = { isOn: false }
  const sink = scripted(script)
  const journal = MemoryJournal.layerWith((memory) => fault(memory, () => state.isOn))
  return { state, sink, layer: Layer.provideMerge(lanesOf([spec("sink", sink.sink)]), journal) }
}

const causes: ReadonlyArray<readonly [what: string, fault: Fault, says: string]> = [
  [
    "nothing can be stored",
    (journal, isOn) => ({
      settle: (some) => Effect.suspend(() => (isOn() ? Effect.fail(unavailable("disk away")) : journal.settle(some))),
    }),
    "deliveries can't be stored: disk away",
  ],
  [
    "nothing can be read",
    (journal, isOn) => ({
      read: (...asked) => Effect.suspend(() => (isOn() ? Effect.fail(unavailable("torn")) : journal.read(...asked))),
    }),
    "the journal can't be read: torn",
  ],
  [
    "another relay may have the stream",
    (_, isOn) => ({ mayStart: () => !isOn() }),
    "another relay may have taken the stream",
  ],
  [
    "the journal gives nothing of what it counts",
    (journal, isOn) => ({
      read: (...asked) => Effect.suspend(() => (isOn() ? Effect.succeed([]) : journal.read(...asked))),
    }),
    "internal error with an unknown cause",
  ],
]

describe("a lane that has work and does nothing", () => {
  for (const [what, fault, says] of causes) {
    const { state, sink, layer } = lane(fault)
    it.effect(`is stalled after half a minute, shows why, and continues by itself: ${what}`, () =>
      Effect.gen(function* () {
        yield* append(2, ["sink"])
        yield* pass("10 seconds")
        expect(yield* statusOf("sink")).toMatchObject({ condition: "running", message: "", backlog: 0 })
        state.isOn = true
        yield* append(3, ["sink"])
        yield* pass("20 seconds")
        expect(yield* statusOf("sink")).toMatchObject({ condition: "running", backlog: 3 })
        yield* pass("15 seconds")
        const stalled = yield* statusOf("sink")
        expect([stalled?.condition, stalled?.message.includes(says)]).toEqual(["stalled", true])
        expect(stalled?.message).toContain("nothing was delivered since 1970-01-01T00:00:1")
        yield* pass("10 seconds")
        expect((yield* statusOf("sink"))?.message).toBe(stalled?.message)
        state.isOn = false
        // The journal in memory wakes a lane only for new events.
        yield* append(1, ["sink"])
        yield* pass("5 seconds")
        expect(yield* statusOf("sink")).toMatchObject({ condition: "running", message: "", backlog: 0 })
        expect(new Set(sink.delivered).size).toBe(6)
      }).pipe(Effect.provide(layer)),
    )
  }

  it.effect("is stalled where its sink does not open", () => {
    const { sink } = scripted(() => "pass")
    return Effect.gen(function* () {
      yield* append(1, ["sink"])
      yield* pass("35 seconds")
      expect(yield* statusOf("sink")).toMatchObject({
        condition: "stalled",
        message: expect.stringContaining("its sink has not opened"),
      })
    }).pipe(Effect.provide(relay([{ ...spec("sink", sink), open: Effect.never }])))
  })

  it.effect("is stalled if its sink has not answered for 90 seconds, although an attempt may take longer", () => {
    const slow = scripted((_, attempt) => (attempt === 1 ? "hang" : "pass"))
    const { config } = spec("sink", slow.sink)
    const delivery = { ...config.delivery, timeout: Duration.minutes(10) }
    return Effect.gen(function* () {
      yield* append(1, ["sink"])
      yield* pass("1 minute")
      expect(yield* statusOf("sink")).toMatchObject({ condition: "running" })
      yield* pass("1 minute")
      expect(yield* statusOf("sink")).toMatchObject({
        condition: "stalled",
        message: expect.stringContaining("the sink has not answered for more than 1m; an attempt may take 10m"),
      })
      yield* pass("10 minutes")
      expect(yield* statusOf("sink")).toMatchObject({ condition: "running", backlog: 0 })
    }).pipe(Effect.provide(relay([spec("sink", slow.sink, { delivery })])))
  })
})

describe("a lane that has reason to wait", () => {
  const waits: ReadonlyArray<readonly [what: string, config: Partial<LaneConfig>, script: Script]> = [
    [
      "for a retry",
      {
        delivery: {
          ...spec("", scripted(() => "pass").sink).config.delivery,
          retry: { maxAge: Duration.hours(72), initial: Duration.minutes(10), max: Duration.minutes(10) },
        },
      },
      () => failed,
    ],
    ["for its rate limit", { rateLimit: { events: 1, per: Duration.hours(1) } }, () => "pass"],
    [
      "for a digest",
      { alert: { sends: "digest", resolves: false, wait: Duration.minutes(10), maxEvents: 10 } },
      () => "pass",
    ],
    [
      "for an attempt",
      { delivery: { ...spec("", scripted(() => "pass").sink).config.delivery, timeout: Duration.minutes(5) } },
      () => "hang",
    ],
  ]
  for (const [what, config, script] of waits) {
    it.effect(`is not stalled: ${what}`, () =>
      Effect.gen(function* () {
        yield* append(2, ["sink"])
        yield* pass("45 seconds")
        const found = yield* statusOf("sink")
        expect(found?.backlog).toBeGreaterThan(0)
        expect(found?.condition).toBe("running")
      }).pipe(Effect.provide(relay([spec("sink", scripted(script).sink, config)]))),
    )
  }
})

test("a process that was stopped doesn't count as a stalled lane", () => {
  const stall = new Stall()
  const look = (now: number) => stall.look({ now, wall: now, activity: 1, hasWork: true, cause: () => "" })
  expect(look(0)).toBe("")
  for (let second = 0; second < 18; second++) expect(look(60_000 + second * 1_000)).toBe("")
  expect(look(79_000)).toContain("nothing was delivered since 1970-01-01T00:00:00.000Z")
})
