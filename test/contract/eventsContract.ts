/** The contract of the events that a journal keeps. `create` makes a new, empty journal. */
import { describe, expect } from "bun:test"
import { Effect, Layer } from "effect"
import { NewerEvents } from "../../src/admin/replay/NewerEvents.ts"
import type { Event } from "../../src/event/Event.ts"
import { collect, type EventQuery } from "../../src/journal/EventQuery.ts"
import { Operator } from "../../src/journal/JournalContext.ts"
import { servicesOf, type WholeJournal } from "../../src/journal/JournalType.ts"
import { scripted, spec } from "../delivery/fixture.ts"
import { startIngest } from "../ingest/lastDeliveries.ts"
import { attempts, letter, event as old, retrying, settlement } from "../journal/samples.ts"
import { bytes, envelope } from "../sinks/samples.ts"
import { type Create, testWith } from "./journal/sessions.ts"

/** Events are received now, because old events that every lane has passed may be pruned. */
const now = Date.now()
const event = (id: string, more: Partial<Event> = {}): Event => old(id, { receivedAt: now, ...more })

/** Tests a journal's events: `name` is in the titles. */
export const eventsContract = (name: string, create: Create): void => {
  const test = testWith(create)

  /** Repeats the search until it is complete, because a busy machine may need several slices. */
  const look = (journal: WholeJournal, query: Partial<EventQuery> = {}) =>
    collect({ limit: 10, ...query }, journal.events)
  /** Returns all pages, with one event on each. */
  const pages = Effect.fnUntraced(function* (journal: WholeJournal, query: Partial<EventQuery>) {
    const found = [yield* look(journal, { ...query, limit: 1 })]
    for (let before = found[0]?.next; before !== undefined; before = found.at(-1)?.next) {
      found.push(yield* look(journal, { ...query, limit: 1, before }))
    }
    return found
  })
  const sequences = (journal: WholeJournal, query: Partial<EventQuery>) =>
    Effect.map(look(journal, query), ({ events }) => events.map(({ sequence }) => sequence))

  /**
   * Appends an event in each state of the lane `lake`: delivered, retrying, dead, pending. The fifth event has no sink.
   */
  const eachState = Effect.fnUntraced(function* (journal: WholeJournal) {
    yield* journal.openLane("lake")
    for (const id of ["a", "b", "c", "d"]) yield* journal.append(event(id), ["lake"])
    yield* journal.append(event("e"), [])
    yield* journal.settle([settlement("lake", 3, { retry: [retrying(2)], deadLetter: [letter(3)] })])
  })

  describe(`${name}: events`, () => {
    test("tell after a restart when each secret of a webhook last verified a delivery", (journal) =>
      Effect.gen(function* () {
        for (const [id, secret, ago] of [
          ["a", "main", 3_000],
          ["b", "old", 2_000],
          ["c", "main", 1_000],
        ] as const) {
          yield* journal.append(event(id, { secret, receivedAt: now - ago }), ["lake"])
        }
        yield* journal.append(event("d", { webhook: "other" }), ["lake"])
        yield* journal.replay([{ sequence: 1, sinks: ["lake"] }])
        const started = yield* startIngest(Layer.succeedContext(servicesOf(journal)))
        yield* started.ready
        expect(started.signed("scheduling")).toEqual({ main: now - 1_000, old: now - 2_000 })
        expect(started.of("scheduling")).toBe(now - 1_000)
      }).pipe(Effect.scoped))

    test("are listed newest first, in pages, without their bodies", function* (journal) {
      for (const id of ["a", "b", "c"]) yield* journal.append(event(id), ["lake"])
      const page = yield* look(journal, { limit: 2 })
      const { body: _, ...facts } = event("c")
      expect(page.events[0]).toEqual({
        sequence: 3,
        place: expect.any(String),
        origin: "delivered",
        event: facts,
        deliveries: [{ sink: "lake", outcome: "pending", attempts: [] }],
      })
      expect(page.events.map(({ sequence }) => sequence)).toEqual([3, 2])
      expect(page.next).toBeString()
      const rest = yield* look(journal, { limit: 2, ...(page.next !== undefined && { before: page.next }) })
      expect(rest.events.map(({ sequence }) => sequence)).toEqual([1])
      expect(rest.next).toBeUndefined()
    })

    test("are listed oldest first, from the beginning or a place, as far as another", function* (journal) {
      for (const id of ["a", "b", "c"]) yield* journal.append(event(id), ["lake"])
      const through = yield* journal.end
      yield* journal.append(event("d"), ["lake"])
      const page = yield* look(journal, { limit: 2, after: "" })
      expect(page.events.map(({ sequence }) => sequence)).toEqual([1, 2])
      expect(page.next).toBe(page.events[1]?.place ?? "")
      expect(yield* sequences(journal, { after: page.next ?? "" })).toEqual([3, 4])
      expect(yield* sequences(journal, { after: page.events[0]?.place ?? "", through })).toEqual([2, 3])
      expect(yield* look(journal, { after: yield* journal.end })).toEqual({ events: [], looked: 0, lookedTo: 0 })
    })

    test("are refused from an invalid place", function* (journal) {
      for (const query of [{ before: "nonsense" }, { after: "1e400" }, { after: "", through: "-1" }]) {
        const told = Effect.match(look(journal, query), {
          onSuccess: () => "found",
          onFailure: ({ reason }) => reason._tag,
        })
        expect(yield* told).toBe("JournalRefused")
      }
    })

    test("are found by type, account, webhook and time, also combined", function* (journal) {
      yield* journal.append(event("a", { receivedAt: now + 10 }), ["lake"])
      yield* journal.append(event("b", { type: "client.created", accountId: "acct_2", receivedAt: now + 20 }), ["lake"])
      yield* journal.append(event("c", { webhook: "platform", accountId: "acct_2", receivedAt: now + 30 }), ["lake"])
      yield* journal.append(event("d", { type: "relay.dead_letter", webhook: "relay", receivedAt: now + 40 }), ["lake"])
      expect(yield* sequences(journal, { types: ["client.*", "block.*"] })).toEqual([2])
      // As in a route, `**` doesn't match the relay's own events.
      expect(yield* sequences(journal, { types: ["**"] })).toEqual([3, 2, 1])
      expect(yield* sequences(journal, { account: "acct_2" })).toEqual([3, 2])
      expect(yield* sequences(journal, { account: "acct_2", webhook: "scheduling" })).toEqual([2])
      expect(yield* sequences(journal, { since: now + 20, until: now + 40 })).toEqual([3, 2])
      expect(yield* sequences(journal, { account: "acct" })).toEqual([])
    })

    test("are found by the id of an object at one of the JSON Pointers, combined with all other filters", function* (journal) {
      const of = (object: unknown) => new TextEncoder().encode(JSON.stringify({ data: { object } }))
      yield* journal.openLane("lake")
      yield* journal.append(event("a", { body: of({ id: "app_1", client_id: "cli_1" }) }), ["lake"])
      yield* journal.append(event("b", { body: of({ id: "cli_1", name: "Ann" }), accountId: "acct_2" }), ["lake"])
      yield* journal.append(event("c", { body: of({ id: "app_2", note: "cli_1", client: { id: "cli_1" } }) }), [])
      yield* journal.append(event("d", { body: of({ id: 17 }) }), [])
      yield* journal.append(event("e", { body: new TextEncoder().encode("cli_1 app_1") }), [])
      yield* journal.settle([settlement("lake", 2, { deadLetter: [letter(2)] })])
      yield* journal.replay([{ sequence: 1, sinks: ["lake"] }])
      expect(yield* sequences(journal, { object: "cli_1" })).toEqual([6, 2, 1])
      expect(yield* sequences(journal, { object: "cli_1", after: "" })).toEqual([1, 2, 6])
      expect(yield* sequences(journal, { object: "app_1" })).toEqual([6, 1])
      expect(yield* sequences(journal, { object: "17" })).toEqual([4])
      for (const object of ["cli_", "cli_2", "a", "Ann", "acct_1"]) {
        expect([object, yield* sequences(journal, { object })]).toEqual([object, []])
      }
      expect(yield* sequences(journal, { object: "cli_1", account: "acct_2" })).toEqual([2])
      expect(yield* sequences(journal, { object: "cli_1", outcome: "dead" })).toEqual([2])
      expect(yield* sequences(journal, { object: "cli_1", id: "b" })).toEqual([2])
      expect((yield* pages(journal, { object: "cli_1" })).flatMap(({ events }) => events).length).toBe(3)
      // Anywhere in the body.
      expect(yield* sequences(journal, { mentioned: "cli_1" })).toEqual([6, 5, 3, 2, 1])
      yield* journal.erase([2], false)
      expect(yield* sequences(journal, { object: "cli_1" })).toEqual([6, 1])
    })

    test("are found by their id with their bytes: every copy, and every delivery with the same id", function* (journal) {
      const other = new TextEncoder().encode("other")
      yield* journal.openLane("lake")
      yield* journal.append(event("a"), ["lake"])
      yield* journal.append(event("b"), ["lake"])
      yield* journal.append(event("a", { webhook: "platform", body: other }), ["lake"])
      yield* journal.replay([1, 2, 3].map((sequence) => ({ sequence, sinks: ["lake"] })))
      yield* journal.moveLane("lake", "audit")
      const { events } = yield* look(journal, { id: "a" })
      expect(events.map(({ sequence, origin }) => [sequence, origin])).toEqual([
        [12, "moved"],
        [10, "moved"],
        [9, "moved"],
        [7, "moved"],
        [6, "replayed"],
        [4, "replayed"],
        [3, "delivered"],
        [1, "delivered"],
      ])
      expect(events.at(-2)?.body).toEqual(other)
      expect(yield* sequences(journal, { id: "nope" })).toEqual([])
      const [one] = (yield* look(journal, { sequence: 2 })).events
      expect(one?.body).toEqual(event("b").body)
    })

    test("have their outcome at each sink, with the failed attempts", function* (journal) {
      yield* eachState(journal)
      const { events } = yield* look(journal)
      const lake = { sink: "lake", attempts: [] }
      expect(events.map((found) => found.deliveries)).toEqual([
        [],
        [{ ...lake, outcome: "pending" }],
        [{ ...lake, outcome: "dead", at: 9, tries: 1, attempts }],
        [{ ...lake, outcome: "retrying", due: 2_000, tries: 1, attempts }],
        [{ ...lake, outcome: "delivered", at: 2_000, tries: 1, took: 7, code: 200 }],
      ])
    })

    test("are found by their outcome", function* (journal) {
      yield* eachState(journal)
      for (const [outcome, found] of [
        ["delivered", 1],
        ["retrying", 2],
        ["dead", 3],
        ["pending", 4],
        ["unrouted", 5],
      ] as const) {
        expect(yield* sequences(journal, { outcome })).toEqual([found])
        expect((yield* pages(journal, { outcome })).flatMap(({ events }) => events).length).toBe(1)
        expect(yield* sequences(journal, { outcome, types: ["nope.*"] })).toEqual([])
      }
    })

    test("are found at one sink, with the outcome that they have there and when they came to it", function* (journal) {
      for (const lane of ["lake", "crm"]) yield* journal.openLane(lane)
      for (const id of ["a", "b"]) yield* journal.append(event(id), ["lake", "crm"])
      yield* journal.append(event("c"), ["crm"])
      yield* journal.settle([settlement("lake", 2, { delivered: [], deadLetter: [letter(1), letter(2)] })])
      const died = { ...letter(3), at: 5_000 }
      yield* journal.settle([settlement("crm", 3, { deadLetter: [died] })])
      expect(yield* sequences(journal, { sink: "lake" })).toEqual([2, 1])
      expect(yield* sequences(journal, { sink: "crm", outcome: "dead" })).toEqual([3])
      expect(yield* sequences(journal, { sink: "crm", outcome: "delivered" })).toEqual([2, 1])
      expect(yield* sequences(journal, { sink: "lake", outcome: "delivered" })).toEqual([])
      // Dead at lake since 9, delivered at crm at 2,000, dead there since 5,000.
      expect(yield* sequences(journal, { endedSince: 2_001 })).toEqual([3])
      expect(yield* sequences(journal, { endedSince: 2_000, endedUntil: 5_000 })).toEqual([2, 1])
      expect(yield* sequences(journal, { sink: "lake", endedSince: 10 })).toEqual([])
      expect(yield* sequences(journal, { outcome: "dead", endedUntil: 10 })).toEqual([2, 1])
      expect(yield* sequences(journal, { sink: "nope" })).toEqual([])
      // A dead letter is at the sink that it was moved to.
      yield* journal.moveLane("lake", "audit")
      expect(yield* sequences(journal, { sink: "audit", outcome: "dead" })).toEqual([2, 1])
      expect(yield* sequences(journal, { sink: "lake", outcome: "moved" })).toEqual([2, 1])
    })

    test("that have not ended at a sink match no time of an end", function* (journal) {
      yield* eachState(journal)
      expect(yield* sequences(journal, { sink: "lake", endedSince: 0 })).toEqual([3, 1])
      expect(yield* sequences(journal, { sink: "lake", endedUntil: 9_999_999_999_999 })).toEqual([3, 1])
    })

    test("distinguish a removed lane from a new lane that holds them", function* (journal) {
      yield* journal.openLane("audit")
      for (const id of ["a", "b"]) yield* journal.append(event(id), ["lake"])
      yield* journal.settle([settlement("lake", 2, { deadLetter: [letter(1)] })])
      yield* journal.moveLane("lake", "audit")
      const { events } = yield* look(journal)
      expect(events.map((found) => found.deliveries.map(({ sink, outcome }) => `${sink} ${outcome}`))).toEqual([
        ["lake delivered"],
        ["lake moved", "audit dead"],
      ])
      expect(yield* sequences(journal, { outcome: "dead" })).toEqual([1])
    })

    test("are counted if a sink already got them and they are newer than replayed events of their keys", function* (journal) {
      const { config } = spec("lake", scripted(() => "pass").sink, { order: "key", key: "{{/data/object/id}}" })
      const body = (id: string) => bytes(JSON.stringify(envelope(1, { id })))
      yield* journal.openLane("lake")
      const replayed = event("first", { body: body("x") })
      yield* journal.append(replayed, ["lake"])
      yield* Effect.forEach(
        Array.from({ length: 300 }, (_, n) => event(`evt_${n}`, { body: body(n % 2 === 0 ? "x" : "y") })),
        (later) => journal.append(later, ["lake"]),
        { concurrency: "unbounded" },
      )
      const sequence = (yield* look(journal, { id: "first" })).events[0]?.sequence ?? 0
      yield* journal.settle([settlement("lake", sequence + 300, { deadLetter: [letter(sequence)] })])
      const newer = new NewerEvents([config])
      newer.add(sequence, replayed, ["lake"])
      expect(yield* newer.count(journal)).toEqual([{ sink: "lake", count: 150 }])
      const [some] = yield* newer.count(journal, 100)
      expect(some).toMatchObject({ sink: "lake", atLeast: true })
      expect(some?.count).toBeLessThan(150)
    })

    test("show who had muted the sink at which they were dropped, and are found by it", function* (journal) {
      yield* journal.openLane("lake")
      for (const id of ["a", "b", "c"]) yield* journal.append(event(id), ["lake"])
      const dropped = [{ sequence: 2, at: 2_000, by: "alice" }]
      yield* journal.settle([settlement("lake", 3, { dropped })])
      const { events } = yield* look(journal)
      expect(events.map(({ deliveries: [delivery] }) => delivery?.outcome)).toEqual([
        "delivered",
        "dropped",
        "delivered",
      ])
      const [found] = (yield* look(journal, { outcome: "dropped" })).events
      expect(found?.deliveries).toEqual([{ sink: "lake", outcome: "dropped", at: 2_000, by: "alice", attempts: [] }])
    })

    test("show who dropped a dead letter and when, with its attempts, and are found by it", function* (journal) {
      yield* eachState(journal)
      const before = Date.now()
      yield* Effect.provideService(journal.dropDeadLetters(["lake:3"]), Operator, "the page")
      const [found] = (yield* look(journal, { outcome: "dropped" })).events
      expect(found?.sequence).toBe(3)
      expect(found?.deliveries).toEqual([
        { sink: "lake", outcome: "dropped", at: expect.any(Number), by: "the page", deadAt: 9, tries: 1, attempts },
      ])
      expect(found?.deliveries[0]?.at).toBeGreaterThanOrEqual(before)
      expect(yield* sequences(journal, { outcome: "delivered" })).toEqual([1])
    })

    test("show when a dead letter that moved to another lane died, who moved it, and where to", function* (journal) {
      yield* journal.openLane("new")
      yield* journal.append(event("a"), ["old"])
      yield* journal.settle([settlement("old", 1, { delivered: [], deadLetter: [letter(1)] })])
      yield* Effect.provideService(journal.moveLane("old", "new"), Operator, "the page")
      const [found] = (yield* look(journal, { sequence: 1 })).events
      expect(found?.deliveries).toEqual([
        { sink: "old", outcome: "moved", at: expect.any(Number), by: "the page", to: "new", deadAt: 9, attempts: [] },
        { sink: "new", outcome: "dead", at: 9, tries: 1, attempts },
      ])
    })

    test("show that a replayed dead letter is retrying, who replayed it and when, and are found by it", function* (journal) {
      yield* eachState(journal)
      const before = Date.now()
      yield* Effect.provideService(journal.replayDeadLetters(["lake:3"]), Operator, "the page")
      const replays = [{ at: expect.any(Number), by: "the page", deadAt: 9 }]
      const [found] = (yield* look(journal, { sequence: 3 })).events
      expect(found?.deliveries).toEqual([
        { sink: "lake", outcome: "retrying", due: expect.any(Number), tries: 1, replays, attempts },
      ])
      expect(found?.deliveries[0]?.due).toBeGreaterThanOrEqual(before)
      expect(yield* sequences(journal, { outcome: "retrying" })).toEqual([3, 2])
      expect(yield* sequences(journal, { outcome: "dead" })).toEqual([])
    })

    test("show that they were delivered although they were replayed since, by whom, with both links", function* (journal) {
      yield* eachState(journal)
      yield* Effect.provideService(journal.replay([{ sequence: 1, sinks: ["lake"] }]), Operator, "ann")
      const [copy, original] = (yield* look(journal, { id: "a" })).events
      expect(original?.deliveries).toMatchObject([{ outcome: "delivered" }])
      expect(original?.copies).toMatchObject([{ sequence: copy?.sequence ?? 0, by: "ann" }])
      expect(copy?.copyOf).toMatchObject({ sequence: 1, by: "ann" })
    })

    test("show when they were delivered, after how many attempts and by which, and are found by it", function* (journal) {
      yield* eachState(journal)
      const late = { sequence: 2, at: 3_000, took: 12, code: 204, attempts: 2, refunded: 0, failed: [] }
      yield* journal.settle([settlement("lake", 3, { delivered: [], endRetry: [2], late: [late] })])
      const [found] = (yield* look(journal, { sequence: 2 })).events
      expect(found?.deliveries).toEqual([
        { sink: "lake", outcome: "delivered", at: 3_000, tries: 2, took: 12, code: 204, attempts },
      ])
      expect(yield* sequences(journal, { attemptsOver: 1 })).toEqual([2])
      expect(yield* sequences(journal, { attemptsOver: 0 })).toEqual([3, 2, 1])
      expect(yield* sequences(journal, { deliveredAfter: 2_001 })).toEqual([2])
      expect(yield* sequences(journal, { deliveredAfter: 2_000 })).toEqual([2, 1])
      expect(yield* sequences(journal, { deliveredAfter: 2_000, attemptsOver: 2 })).toEqual([])
    })

    test("never count as delivered without a record", function* (journal) {
      yield* journal.openLane("lake")
      for (let at = 1; at <= 300; at++) yield* journal.append(event(`evt_${at}`), ["lake"])
      const range = { took: 1, at: 5 }
      const delivered = [
        { ...range, from: 1, to: 127 },
        { ...range, from: 129, to: 260, at: 4 },
        { ...range, from: 262, to: 300 },
      ]
      yield* journal.settle([settlement("lake", 300, { delivered })])
      expect(yield* sequences(journal, { outcome: "unrecorded" })).toEqual([261, 128])
    })

    test("show the events of a removed lane, and who removed it", function* (journal) {
      yield* eachState(journal)
      yield* Effect.provideService(journal.dropLane("lake"), Operator, "the page")
      const { events } = yield* look(journal)
      const told = events.map(({ deliveries }) => deliveries.map(({ outcome, by }) => `${outcome} ${by}`))
      const gone = "dropped the page"
      expect(told).toEqual([[], ["laneRemoved the page"], [gone], [gone], ["delivered undefined"]])
    })

    test("show that a lane was removed, and are found by it, even if a lane has that name again", function* (journal) {
      yield* journal.openLane("lake")
      for (const id of ["a", "b"]) yield* journal.append(event(id), ["lake"])
      yield* journal.settle([settlement("lake", 1)])
      yield* Effect.provideService(journal.dropLane("lake"), Operator, "the page")
      yield* journal.openLane("lake")
      const { events } = yield* look(journal)
      const told = events.map(({ deliveries }) => deliveries.map(({ outcome, by }) => `${outcome} ${by}`))
      expect(told).toEqual([["laneRemoved the page"], ["delivered undefined"]])
      expect(yield* sequences(journal, { outcome: "laneRemoved" })).toEqual([2])
      expect(yield* sequences(journal, { outcome: "unrecorded" })).toEqual([])
    })

    test("keep their outcomes in a lane that was moved to another", function* (journal) {
      yield* eachState(journal)
      yield* journal.openLane("audit", { renamedFrom: "lake" })
      const { events } = yield* look(journal, { after: "" })
      const told = events.map(({ deliveries }) => deliveries.find(({ outcome }) => outcome === "delivered"))
      expect(told[0]).toMatchObject({ at: 2_000, took: 7, code: 200 })
      expect(events[2]?.deliveries.find(({ sink }) => sink === "audit")).toMatchObject({ outcome: "dead", attempts })
    })

    test("show how far the search went", function* (journal) {
      for (const at of [10, 20, 30]) yield* journal.append(event(`evt_${at}`, { receivedAt: now + at }), ["lake"])
      expect(yield* look(journal, { account: "nobody" })).toEqual({ events: [], looked: 3, lookedTo: now + 10 })
      const all = yield* pages(journal, {})
      expect(all.flatMap(({ events }) => events.map(({ sequence }) => sequence))).toEqual([3, 2, 1])
    })
  })
}
