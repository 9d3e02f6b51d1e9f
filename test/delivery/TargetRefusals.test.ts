/** Whether a refusal concerns the event or the target: see `Suspects.ts`. */
import { describe, expect, test } from "bun:test"
import { Duration, Effect } from "effect"
import { Lanes } from "../../src/delivery/Lanes.ts"
import { type Refused, TargetRefusals } from "../../src/delivery/lane/Suspects.ts"
import type { Entry } from "../../src/event/Event.ts"
import { Archive } from "../../src/journal/Archive.ts"
import { DeliveryRejected } from "../../src/sinks/Sink.ts"
import { it } from "../lib/effect.ts"
import { append, letters, pass, rejected, relay, type Script, scripted, spec, statusOf, tooLarge } from "./fixture.ts"

const range = (from: number, to: number): Array<number> =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index)
const ascending = (some: ReadonlyArray<number>) => some.toSorted((a, b) => a - b)
const deadOf = (lane: string) => Effect.map(letters(lane), (found) => ascending(found.map(({ sequence }) => sequence)))
const byAccount = (n: number) => `acct_${n % 5}`

describe("a lane whose target refuses", () => {
  for (const order of ["none", "key"] as const) {
    it.effect(`every event waits, and delivers all of them later, with order ${order}`, () => {
      let isRefusing = true
      const sink = scripted(() => (isRefusing ? rejected : "pass"))
      return Effect.gen(function* () {
        yield* append(300, ["sink"], byAccount)
        yield* pass("1 minute")
        expect(yield* deadOf("sink")).toEqual([])
        expect(yield* statusOf("sink")).toMatchObject({ condition: "misconfigured", backlog: 300, deadLetters: 0 })
        expect((yield* statusOf("sink"))?.message).toContain("answered 400")
        expect(sink.attempted.length).toBeLessThan(60)
        isRefusing = false
        yield* pass("1 minute")
        expect(ascending(sink.delivered)).toEqual(range(1, 300))
        expect(yield* deadOf("sink")).toEqual([])
        expect(yield* statusOf("sink")).toMatchObject({ condition: "running", backlog: 0, retrying: 0 })
        for (const key of range(0, 4)) {
          const ofKey = sink.delivered.filter((sequence) => sequence % 5 === key)
          if (order === "key") expect(ofKey).toEqual(ascending(ofKey))
        }
      }).pipe(Effect.provide(relay([spec("sink", sink.sink, { order })])))
    })
  }

  it.effect("three events far apart takes them back, in their order", () => {
    let isRefusing = true
    const sink = scripted(() => (isRefusing ? rejected : "pass"))
    return Effect.gen(function* () {
      for (const dead of [[1], [1, 2], []]) {
        yield* append(1, ["sink"])
        yield* pass("1 hour")
        expect(yield* deadOf("sink")).toEqual([...dead])
      }
      isRefusing = false
      yield* pass("1 minute")
      expect(sink.delivered).toEqual([1, 2, 3])
      expect(yield* statusOf("sink")).toMatchObject({ condition: "running", backlog: 0, deadLetters: 0 })
    }).pipe(Effect.provide(relay([spec("sink", sink.sink, { order: "key" })])))
  })

  it.effect("doesn't wait for a dead letter that an operator has dropped", () => {
    let isRefusing = true
    const sink = scripted(() => (isRefusing ? rejected : "pass"))
    return Effect.gen(function* () {
      yield* append(2, ["sink"])
      yield* pass("1 second")
      expect(yield* (yield* Archive).dropDeadLetters(["sink:1"])).toBe(1)
      yield* append(1, ["sink"])
      yield* pass("1 minute")
      isRefusing = false
      yield* pass("1 minute")
      expect(ascending(sink.delivered)).toEqual([2, 3])
      expect(yield* statusOf("sink")).toMatchObject({ condition: "running", backlog: 0, retrying: 0, deadLetters: 0 })
    }).pipe(Effect.provide(relay([spec("sink", sink.sink)])))
  })

  it.effect("continues to refuse after an operator resumed the lane, and nothing is lost", () => {
    const sink = scripted(() => rejected)
    return Effect.gen(function* () {
      yield* append(60, ["sink"])
      yield* pass("2 seconds")
      yield* (yield* Lanes).resume("sink")
      yield* pass("1 minute")
      expect(yield* statusOf("sink")).toMatchObject({ condition: "misconfigured", backlog: 60, deadLetters: 0 })
    }).pipe(Effect.provide(relay([spec("sink", sink.sink)])))
  })

  it.effect("keeps a dead letter if a later event of its key is in flight, so that the order holds", () => {
    const sink = scripted(({ sequence }, attempt) => (sequence === 2 && attempt === 1 ? "hang" : rejected))
    const accounts = ["", "acct_1", "acct_1", "acct_2", "acct_3"]
    return Effect.gen(function* () {
      yield* append(4, ["sink"], (n) => accounts[n] ?? "")
      yield* pass("2 seconds")
      expect(yield* deadOf("sink")).toEqual([1])
      expect(yield* statusOf("sink")).toMatchObject({ condition: "misconfigured", backlog: 3 })
    }).pipe(Effect.provide(relay([spec("sink", sink.sink, { order: "key" })])))
  })

  // Found by the simulation (seed 600747).
  it.effect("is not blocked by dead letters that are taken back", () => {
    let isRefusing = true
    const sink = scripted(() => (isRefusing ? rejected : "pass"), 3)
    const { delivery } = spec("sink", sink.sink).config
    return Effect.gen(function* () {
      const lanes = yield* Lanes
      yield* lanes.pause("sink")
      yield* append(6, ["sink"])
      yield* lanes.resume("sink")
      yield* pass("1 minute")
      expect(yield* statusOf("sink")).toMatchObject({ condition: "misconfigured", backlog: 6, deadLetters: 0 })
      isRefusing = false
      yield* pass("1 minute")
      expect(ascending(sink.delivered)).toEqual(range(1, 6))
    }).pipe(Effect.provide(relay([spec("sink", sink.sink, { delivery: { ...delivery, maxDeadLetters: 1 } })])))
  })

  it.effect("a digest three times takes all of its events back", () => {
    let isRefusing = true
    const sink = scripted(() => (isRefusing ? rejected : "pass"), 10)
    return Effect.gen(function* () {
      yield* append(12, ["sink"], (n) => `acct_${n % 3}`)
      yield* pass("1 minute")
      expect(yield* statusOf("sink")).toMatchObject({ condition: "misconfigured", backlog: 12, deadLetters: 0 })
      isRefusing = false
      yield* pass("1 minute")
      expect(ascending(sink.delivered)).toEqual(range(1, 12))
    }).pipe(
      Effect.provide(
        relay([
          spec("sink", sink.sink, {
            alert: { sends: "digest", resolves: false, wait: Duration.seconds(1), maxEvents: 10 },
          }),
        ]),
      ),
    )
  })
})

describe("a lane whose target refuses some events", () => {
  const types = ["appointment.created", "appointment.canceled", "appointment.rescheduled"]
  const typeOf = (n: number): string => types[n % 3] ?? ""
  const some: ReadonlyArray<readonly [string, (entry: Entry) => boolean, Duration.Input]> = [
    ["every second one", ({ sequence }) => sequence % 2 === 0, "3 seconds"],
    ["one type of three", ({ event }) => event.type === types[0], "3 seconds"],
    ["those of one account", ({ event }) => event.accountId === "acct_1", "3 seconds"],
    ["the first twenty", ({ sequence }) => sequence <= 20, "1 minute"],
  ]
  for (const [which, isRefused, within] of some) {
    for (const maxEvents of [1, 10]) {
      it.effect(`delivers the others within ${within}: ${which} refused, ${maxEvents} at a time`, () => {
        const script: Script = (entry) => (isRefused(entry) ? rejected : "pass")
        const sink = scripted(script, maxEvents)
        const refused = new Set<number>()
        const counting = scripted((entry, attempt) => {
          if (isRefused(entry)) refused.add(entry.sequence)
          return script(entry, attempt)
        }, maxEvents)
        return Effect.gen(function* () {
          yield* append(200, ["sink"], byAccount, typeOf)
          yield* pass(within)
          expect(ascending([...counting.delivered, ...refused])).toEqual(range(1, 200))
          expect(yield* deadOf("sink")).toEqual(ascending([...refused]))
          expect(yield* statusOf("sink")).toMatchObject({ condition: "running", backlog: 0 })
        }).pipe(Effect.provide(relay([spec("sink", { ...sink.sink, send: counting.sink.send })])))
      })
    }
  }

  it.effect("makes dead letters of all that are refused for their own content, and runs", () => {
    const sink = scripted(() => tooLarge)
    return Effect.gen(function* () {
      yield* append(50, ["sink"])
      yield* pass("1 second")
      expect((yield* deadOf("sink")).length).toBe(50)
      expect(yield* statusOf("sink")).toMatchObject({ condition: "running", backlog: 0 })
    }).pipe(Effect.provide(relay([spec("sink", sink.sink)])))
  })
})

describe("refusals", () => {
  const of = (sequence: number): ReadonlyArray<Refused> => [
    { sequence, key: "", type: "appointment.created", tried: 0, firstAttemptAt: 0, bytes: 1, defects: 0 },
  ]
  const why = (message: string, code?: number) => new DeliveryRejected({ message, ...(code !== undefined && { code }) })
  const rules = (failures: ReadonlyArray<DeliveryRejected>, refusals = new TargetRefusals(), now = 0) =>
    failures.map((failure, index) => refusals.refused(of(index), failure, false, now)._tag)

  test("are alike with the same code, or the same message but for numbers and quoted words", () => {
    expect(rules([why("a", 400), why("b", 400), why("c", 400)]).at(-1)).toBe("Target")
    expect(rules([why("order 17 unknown"), why("order 2 unknown"), why("order 3 unknown")]).at(-1)).toBe("Target")
    expect(rules([why('no field "a"'), why('no field "b"'), why('no field "c"')]).at(-1)).toBe("Target")
  })

  test("that differ concern the events", () => {
    expect(rules([why("a", 400), why("a", 422), why("a", 400), why("a", 422)])).not.toContain("Target")
    expect(rules([why("too old"), why("too long"), why("too short")])).not.toContain("Target")
  })

  test("that repeat for one event concern the event", () => {
    const refusals = new TargetRefusals()
    const again = Array.from({ length: 5 }, () => refusals.refused(of(1), why("a"), false, 0)._tag)
    expect(again).not.toContain("Target")
  })

  test("are the event's until nothing has been delivered for a minute", () => {
    const refusals = new TargetRefusals()
    rules([why("a"), why("a"), why("a")], refusals, 1_000)
    expect(refusals.isSuspended).toBe(true)
    expect(refusals.delivered(2_000)).toBe(true)
    expect(rules([why("a"), why("a"), why("a")], refusals, 62_000)).toEqual(["Event", "Event", "Event"])
    expect(rules([why("a"), why("a"), why("a")], refusals, 62_001)).toEqual(["Event", "Event", "Target"])
  })

  test("are counted from the first again after an operator has resumed the lane", () => {
    const refusals = new TargetRefusals()
    rules([why("a"), why("a"), why("a")], refusals)
    refusals.reset()
    expect(refusals.isSuspended).toBe(false)
    expect(rules([why("a"), why("a"), why("a")], refusals)).toEqual(["Event", "Event", "Target"])
  })

  test("beside a delivery in the same attempt are the event's", () => {
    const refusals = new TargetRefusals()
    const all = [1, 2, 3, 4].map((sequence) => refusals.refused(of(sequence), why("a"), true, 0)._tag)
    expect(all).not.toContain("Target")
  })
})
