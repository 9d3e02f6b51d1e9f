/** Replays over the admin API, and one run by itself against a naive model. */
import { describe, expect } from "bun:test"
import { Effect, Fiber, Schema } from "effect"
import { TestClock } from "effect/testing"
import { Replay, type ReplayRequest } from "../../src/admin/replay/ReplayReport.ts"
import { ReplayRun } from "../../src/admin/replay/ReplayRun.ts"
import type { RelayConfig } from "../../src/config/Config.ts"
import { Archive } from "../../src/journal/Archive.ts"
import { broken, unavailable } from "../../src/journal/Journal.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { event, letter, retrying, settlement } from "../journal/samples.ts"
import { whole } from "../journal/whole.ts"
import { it } from "../lib/effect.ts"
import { seeded } from "../lib/seeded.ts"
import { tries } from "../lib/tries.ts"
import { bytes, envelope } from "../sinks/samples.ts"
import { config, json, start } from "./fixture.ts"

const [lake] = config().sinks
const sink = (name: string, more: object = {}) => ({ ...lake, name, ...more }) as RelayConfig["sinks"][number]
const decode = Schema.decodeUnknownSync(Replay)

/** Runs a replay to its end, without the admin API. */
const run = Effect.fnUntraced(function* (request: ReplayRequest, sinks = [sink("lake"), sink("audit")]) {
  const archive = yield* Archive
  const one = yield* ReplayRun.make({
    id: "1",
    archive,
    config: () => ({ ...config(), sinks }),
    request,
    onProgress: () => {},
  })
  yield* one.run
  return one.report
})

/** Returns the entries of the log above a sequence: the id, the sinks and whether it is a replay. */
const above = Effect.fnUntraced(function* (sequence: number) {
  const entries = yield* (yield* whole).read(sequence, 100_000)
  return entries.map(({ event, sinks, replayed }) => [event.id, sinks.join(), replayed] as const)
})

/** One event of each state at `lake`, by sequence: delivered, retrying, dead, pending; one unrouted, one in quarantine. */
const eachState = Effect.gen(function* () {
  const journal = yield* whole
  for (const lane of ["lake", "audit"]) yield* journal.openLane(lane)
  for (const id of ["a", "b", "c", "d"]) yield* journal.append(event(id), ["lake", "audit"])
  yield* journal.append(event("e"), [])
  yield* journal.append(event("f", { problem: "the event type is not in the catalogue" }), ["_quarantine"])
  yield* journal.settle([settlement("lake", 3, { retry: [retrying(2)], deadLetter: [letter(3)] })])
  yield* journal.settle([settlement("audit", 6)])
})

const memory = MemoryJournal.layer

describe("a replay", () => {
  it.live(
    "to a sink that keeps an order says in the dry run how many newer events of the same keys it got already",
    () =>
      Effect.gen(function* () {
        const journal = yield* whole
        const ordered = sink("lake", { order: "key", key: "{{/data/object/id}}" })
        const body = (id: string) => bytes(JSON.stringify(envelope(1, { id })))
        yield* journal.openLane("lake")
        for (const [id, object] of Object.entries({ a: "x", b: "y", c: "x", d: "x", e: "z" })) {
          yield* journal.append(event(id, { body: body(object) }), ["lake"])
        }
        yield* journal.settle([settlement("lake", 5)])
        const dry = (events: ReplayRequest["events"], sinks = [ordered]) =>
          Effect.map(run({ events, to: "routed", dryRun: true }, sinks), ({ newer }) => newer)
        expect(yield* dry({ id: "a" })).toEqual([{ sink: "lake", count: 2 }])
        expect(yield* dry({ id: "c" })).toEqual([{ sink: "lake", count: 1 }])
        // Newer events that are replayed as well keep their order.
        for (const events of [{ id: "b" }, {}]) expect(yield* dry(events)).toEqual([])
        expect(yield* dry({ id: "a" }, [sink("lake")])).toEqual([])
        expect((yield* run({ events: { id: "a" }, to: "routed" }, [ordered])).newer).toEqual([])
      }).pipe(Effect.provide(memory), Effect.orDie),
  )

  it.live("of a sink's events selects those with the outcome at that sink, and sends them to that sink alone", () =>
    Effect.gen(function* () {
      yield* eachState
      const events = { sink: "lake", outcome: "dead" } as const
      expect((yield* run({ events, to: "routed" })).count).toBe(1)
      expect(yield* above(6)).toEqual([["c", "lake", true]])
      expect((yield* run({ events: { sink: "audit", outcome: "dead" }, to: { sink: "lake" } })).count).toBe(0)
      expect((yield* run({ events, to: { sink: "audit" } })).count).toBe(1)
      expect(yield* above(7)).toEqual([["c", "audit", true]])
    }).pipe(Effect.provide(memory), Effect.orDie),
  )

  it.live("and its dry run agree with each other and with a full read, for any selection", () =>
    Effect.gen(function* () {
      const random = seeded(7)
      const pick = <A>(from: ReadonlyArray<A>): A => from[Math.floor(random() * from.length)] as A
      const maybe = <A extends object>(chance: number, make: () => A): A | object => (random() < chance ? make() : {})
      const types = ["appointment.created", "client.updated", "client.created", "x.y"]
      const routes = [["lake"], ["lake", "audit"], ["audit", "old"], ["old"], []]
      const journal = yield* whole
      for (let n = 0; n < 400; n++) {
        const facts = {
          type: pick(types),
          accountId: pick(["acct_1", "acct_2"]),
          webhook: pick(["one", "two"]),
          receivedAt: 1_000 + n,
          body: new Uint8Array(Buffer.from(`${n}`)),
        }
        yield* journal.append(event(`evt_${n % 650}`, facts), pick(routes))
      }
      yield* journal.replay([1, 2, 3].map((sequence) => ({ sequence, sinks: ["lake"] })))
      for (let round = 0; round < tries(25); round++) {
        const request = {
          to: pick(["routed", { sink: "audit" }] as const),
          events: {
            ...maybe(0.2, () => ({ id: `evt_${Math.floor(random() * 700)}` })),
            ...maybe(0.4, () => ({ types: [pick(["client.*", "**", "nope.*"])] })),
            ...maybe(0.3, () => ({ account: "acct_1" })),
            ...maybe(0.3, () => ({ webhook: "two" })),
            ...maybe(0.3, () => ({ since: 1_000 + Math.floor(random() * 700) })),
            ...maybe(0.3, () => ({ until: 1_000 + Math.floor(random() * 700) })),
            ...maybe(0.2, () => ({ after: String(Math.floor(random() * 400)) })),
          } as ReplayRequest["events"],
        }
        const { id, types: patterns, account, webhook, since = 0, until = 9_999, after = "0" } = request.events
        const model = (yield* journal.read(0, 100_000)).flatMap(({ sequence, event, sinks, replayed }) => {
          const to = request.to === "routed" ? sinks.filter((name) => name !== "old") : ["audit"]
          const fits =
            !replayed &&
            to.length > 0 &&
            sequence > Number(after) &&
            (id === undefined || event.id === id) &&
            (account === undefined || event.accountId === account) &&
            (webhook === undefined || event.webhook === webhook) &&
            event.receivedAt >= since &&
            event.receivedAt < until &&
            (patterns?.[0] === undefined ||
              patterns[0] === "**" ||
              (patterns[0] === "client.*" && event.type.startsWith("client.")))
          return fits ? [[event.id, to.join(), true] as const] : []
        })
        const head = yield* journal.head
        const dry = yield* run({ ...request, dryRun: true })
        expect(yield* journal.head).toBe(head)
        const { dryRun: _, startedAt: __, endedAt: ___, ...said } = dry
        // Events that arrive after the dry run are not part of it.
        yield* journal.append(event(`late_${round}`, { receivedAt: 1_300, accountId: "acct_1" }), ["lake"])
        const { dryRun, startedAt, endedAt, ...done } = yield* run({ events: dry.events, to: request.to })
        expect(done).toEqual(said)
        expect([dryRun, done.state, done.share, done.count]).toEqual([false, "finished", 1, model.length])
        expect(yield* above(head + 1)).toEqual(model)
        expect(done.groups.reduce((sum, { count }) => sum + count, 0)).toBe(
          model.reduce((sum, [, sinks]) => sum + sinks.split(",").length, 0),
        )
        const ids = model.map(([id]) => id)
        expect(done.first.map(({ id }) => id)).toEqual(ids.slice(0, 5))
        expect(done.last.map(({ id }) => id)).toEqual(ids.slice(5).slice(-5))
      }
    }).pipe(Effect.provide(memory)),
  )

  it.live("sends each event to the sinks that it was routed to, as the config calls them now", () =>
    Effect.gen(function* () {
      yield* eachState
      const sinks = [sink("pond", { renamedFrom: "lake" })]
      const done = yield* run({ events: {}, to: "routed" }, sinks)
      expect(yield* above(6)).toEqual(["a", "b", "c", "d"].map((id) => [id, "pond", true] as const))
      expect(done.removedSinks).toEqual([{ sink: "audit", count: 4 }])
      expect(done.leftOut).toEqual({ copies: 0, quarantined: 1, erased: 0, unrouted: 1, gone: 0 })
    }).pipe(Effect.provide(memory)),
  )

  it.live("by outcome sends to the sinks where the event has it, and names events that arrive twice", () =>
    Effect.gen(function* () {
      yield* eachState
      const of = (outcome: "delivered" | "retrying" | "dead" | "pending" | "unrouted", to: ReplayRequest["to"]) =>
        run({ events: { outcome }, to, dryRun: true })
      const groups = (replay: Replay) => replay.groups.map(({ sink, count }) => `${sink} ${count}`)
      expect(groups(yield* of("delivered", "routed"))).toEqual(["audit 4", "lake 1"])
      const dead = yield* of("dead", "routed")
      expect([dead.first.map(({ id }) => id), dead.undelivered]).toEqual([["c"], 0])
      expect((yield* of("dead", { sink: "audit" })).undelivered).toBe(0)
      const all = yield* run({ events: {}, to: { sink: "lake" }, dryRun: true })
      // b waits for a retry, d is pending; c is a dead letter, which does not arrive by itself.
      expect([all.count, all.undelivered]).toEqual([5, 2])
      expect((yield* of("unrouted", { sink: "lake" })).first.map(({ id }) => id)).toEqual(["e"])
      yield* (yield* whole).append(event("g"), ["lake", "audit"])
      const both = yield* run({ events: { id: "g" }, to: "routed", dryRun: true })
      expect([both.groups.length, both.undelivered]).toEqual([2, 1])
    }).pipe(Effect.provide(memory)),
  )

  it.live("leaves out copies, so it never replays its own events; a copy that is named is sent", () =>
    Effect.gen(function* () {
      yield* eachState
      for (const round of [0, 1, 2]) {
        const { count, leftOut } = yield* run({ events: { id: "a" }, to: "routed" })
        expect([count, leftOut.copies]).toEqual([1, round])
      }
      expect(yield* run({ events: { id: "seq_8" }, to: { sink: "audit" } })).toMatchObject({ count: 1 })
      expect((yield* above(9)).at(-1)).toEqual(["a", "audit", true])
    }).pipe(Effect.provide(memory)),
  )

  it.effect("waits while the journal can't append, and ends with the sent events if the failure is final", () =>
    Effect.gen(function* () {
      const journal = yield* whole
      for (const id of ["a", "b"]) yield* journal.append(event(id), [])
      let failures = [unavailable("The disk is full."), unavailable("The disk is full.")]
      const failing = Archive.of({
        ...journal,
        replay: (targets) => Effect.suspend(() => failures.shift() ?? journal.replay(targets.slice(0, 1))),
      })
      const request = { events: {}, to: { sink: "lake" } } as const
      const passing = yield* Effect.forkChild(run(request).pipe(Effect.provideService(Archive, failing)))
      yield* TestClock.adjust("1 second")
      expect(yield* Fiber.join(passing)).toMatchObject({ state: "finished", count: 2, message: "" })
      failures = [broken("fsync failed")]
      const ended = yield* run(request).pipe(Effect.provideService(Archive, failing))
      expect(ended).toMatchObject({ state: "failed", count: 0, message: "fsync failed", reached: "" })
      const bug = Archive.of({ ...journal, events: () => Effect.die(new Error("a value of a body")) })
      const buggy = yield* run(request).pipe(Effect.provideService(Archive, bug))
      expect(buggy).toMatchObject({
        state: "failed",
        message: "internal error; the log has the cause, please report it",
      })
      expect(buggy.endedAt).toBeDefined()
      let sent = 0
      const breaking = Archive.of({
        ...journal,
        replay: (targets) => (sent++ === 0 ? journal.replay(targets.slice(0, 1)) : broken("fsync failed")),
      })
      const halfway = yield* Effect.forkChild(run(request).pipe(Effect.provideService(Archive, breaking)))
      yield* TestClock.adjust("1 second")
      expect(yield* Fiber.join(halfway)).toMatchObject({ state: "failed", count: 1, reached: "1" })
    }).pipe(Effect.provide(memory)),
  )

  it.effect("with a rate never exceeds that rate, and sends no burst", () =>
    Effect.gen(function* () {
      const journal = yield* whole
      yield* journal.openLane("lake")
      for (let n = 0; n < 20; n++) yield* journal.append(event(`evt_${n}`), [])
      const running = yield* Effect.forkChild(run({ events: {}, to: { sink: "lake" }, rate: 8 }))
      const sent = Effect.map(journal.head, (head) => head - 20)
      yield* TestClock.adjust("10 millis")
      expect(yield* sent).toBe(2)
      yield* TestClock.adjust("980 millis")
      expect(yield* sent).toBe(8)
      yield* TestClock.adjust("2 seconds")
      expect(yield* Fiber.join(running)).toMatchObject({ state: "finished", count: 20 })
    }).pipe(Effect.provide(memory)),
  )

  it.live("finds a page of events at a time, however many there are", () =>
    Effect.gen(function* () {
      const journal = yield* whole
      for (let n = 0; n < 1_000; n++) yield* journal.append(event(`evt_${n}`), ["lake"])
      const pages: Array<number> = []
      const watched = Archive.of({
        ...journal,
        events: (query) =>
          Effect.tap(journal.events(query), ({ events }) => Effect.sync(() => pages.push(events.length))),
      })
      const done = yield* run({ events: {}, to: "routed" }).pipe(Effect.provideService(Archive, watched))
      expect([done.count, Math.max(...pages) <= 256, pages.length > 3]).toEqual([1_000, true, true])
    }).pipe(Effect.provide(memory)),
  )
})

describe("over the admin API", () => {
  const setup = { config: { sinks: [sink("lake", { backlog: { max: 20, whenFull: "refuse" as const } })] } }
  const filled = Effect.fnUntraced(function* (count: number) {
    const admin = yield* start(setup)
    yield* admin.journal.openLane("lake")
    for (let n = 0; n < count; n++) yield* admin.journal.append(event(`evt_${n}`), [])
    const tell = (path: string, body?: object) =>
      Effect.map(Effect.flatMap(admin.post(`/api/v1${path}`, body), json), decode)
    const until = Effect.fnUntraced(function* (id: string, holds: (replay: Replay) => boolean) {
      for (;;) {
        const replay = decode(yield* Effect.flatMap(admin.ask(`/api/v1/replays/${id}`), json))
        if (holds(replay)) return replay
        yield* Effect.sleep(5)
      }
    })
    return { ...admin, tell, until }
  })
  const everything = { events: {}, to: { sink: "lake" } }

  it.live(
    "it is started, waits while the sink has enough pending events, is cancelled, and another continues",
    function* () {
      const { journal, tell, until, ...admin } = yield* filled(30)
      const { id } = yield* tell("/replays", everything)
      const waiting = yield* until(id, ({ state }) => state === "waiting")
      // The replay takes half of the sink's maximum backlog, so that deliveries still have room.
      expect(waiting).toMatchObject({ count: 10, reached: "10", message: "10 events wait for the sink lake" })
      const status = yield* Effect.flatMap(admin.ask("/api/v1/status"), json)
      expect(status).toMatchObject({ work: [{ what: "replay to lake", share: 0 }] })
      const cancelled = yield* tell(`/replays/${id}/cancel`)
      expect(cancelled).toMatchObject({ state: "cancelled", count: 10, reached: "10" })
      expect(yield* tell(`/replays/${id}/cancel`)).toEqual(cancelled)
      yield* journal.settle([settlement("lake", yield* journal.head)])
      const rest = yield* tell("/replays", { ...everything, events: { after: "10", through: "30" } })
      yield* until(rest.id, ({ state }) => state === "waiting")
      yield* journal.settle([settlement("lake", yield* journal.head)])
      const done = yield* until(rest.id, ({ state }) => state === "finished")
      expect(done).toMatchObject({ count: 20, share: 1, events: { after: "10", through: "30" } })
      const again = (yield* journal.read(30, 100)).map(({ event }) => event.id)
      expect(again).toEqual(Array.from({ length: 30 }, (_, n) => `evt_${n}`))
      const list = yield* Effect.flatMap(admin.ask("/api/v1/replays"), json)
      expect(list).toMatchObject([{ id: rest.id }, { id, state: "cancelled" }])
    },
  )

  it.live("impossible requests are refused with a reason", function* () {
    const { post, tell } = yield* filled(30)
    const refused = Effect.fnUntraced(function* (status: number, request: object, words: string) {
      const response = yield* post("/api/v1/replays", request)
      const answer = [response.status, yield* json(response)]
      expect(answer).toMatchObject([status, { message: expect.stringContaining(words) }])
    })
    yield* refused(404, { events: {}, to: { sink: "nope" } }, "no sink nope")
    yield* refused(409, { events: { types: ["block..x"] }, to: "routed" }, "empty segment")
    yield* refused(409, { events: { outcome: "unrouted" }, to: "routed" }, "went to no sink")
    yield* refused(400, { events: { acount: "acct_1" }, to: "routed" }, "does not match")
    yield* refused(400, { to: "routed" }, "does not match")
    for (let n = 0; n < 4; n++) yield* tell("/replays", everything)
    yield* refused(409, everything, "4 replays are running")
    expect((yield* post("/api/v1/replays/none/cancel")).status).toBe(404)
  })
})
