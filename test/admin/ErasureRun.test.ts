/** Erasing events through the admin API. */
import { describe, expect } from "bun:test"
import { Effect, Fiber, Layer, Schema } from "effect"
import { TestClock } from "effect/testing"
import { Erasure, erase } from "../../src/admin/api/ErasureApi.ts"
import { EventPage, EventReports } from "../../src/admin/api/EventApi.ts"
import { type JournalError, unavailable } from "../../src/journal/JournalError.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { event, letter, settlement } from "../journal/samples.ts"
import { whole } from "../journal/whole.ts"
import { it } from "../lib/effect.ts"
import { json, start, text } from "./fixture.ts"

const whileStopped = <A>(_: ReadonlyArray<string>, work: Effect.Effect<A, JournalError>) => work

/**
 * Five events of two accounts: `a` is a dead letter, `b` was replayed, and `c` is pending. `d` is of another account,
 * and the last event has no id.
 */
const kept = Effect.gen(function* () {
  const admin = yield* start()
  const { journal } = admin
  yield* journal.openLane("lake")
  for (const id of ["a", "b", "c"]) yield* journal.append(event(id), ["lake"])
  yield* journal.append(event("d", { accountId: "acct_2" }), [])
  yield* journal.append(event("", { accountId: "" }), [])
  yield* journal.settle([settlement("lake", 2, { deadLetter: [letter(1)] })])
  yield* journal.replay([{ sequence: 2, sinks: [] }])
  const erase = (request: object) =>
    Effect.flatMap(admin.post("/api/v1/events/erase", request), json).pipe(
      Effect.map(Schema.decodeUnknownSync(Erasure)),
    )
  const erased = Effect.flatMap(admin.ask("/api/v1/events?limit=100"), json).pipe(
    Effect.map(Schema.decodeUnknownSync(EventPage)),
    Effect.map(({ events }) =>
      events.flatMap(({ erased, sequence }) => (erased === undefined ? [] : [sequence])).sort(),
    ),
  )
  return { ...admin, erase, erased }
})

describe("erasing events", () => {
  it.live(
    "erases an account's events with their copies, and lists the events that it leaves, with reasons",
    function* () {
      const { erase, erased } = yield* kept
      const counts = { count: 3, deadLetters: 1, givenUp: 0, before: 0, undelivered: 1 }
      const first = [{ sequence: 3, id: "c", sinks: ["lake"] }]
      expect(yield* erase({ account: "acct_1", dryRun: true })).toEqual({ ...counts, first, notReached: [] })
      expect(yield* erased).toEqual([])
      expect(yield* erase({ account: "acct_1" })).toEqual({ ...counts, first, notReached: [] })
      expect(yield* erased).toEqual([1, 2, 6])
      expect(yield* erase({ account: "acct_1", giveUp: true })).toMatchObject({
        ...{ count: 1, givenUp: 1, before: 3, undelivered: 0 },
      })
      expect(yield* erased).toEqual([1, 2, 3, 6])
    },
  )

  it.live("erases every event of an object, and lists others that have its id elsewhere in the body", function* () {
    const { journal, erase, erased } = yield* kept
    const body = (object: unknown) => new TextEncoder().encode(JSON.stringify({ data: { object } }))
    const append = (id: string, object: unknown, sinks: ReadonlyArray<string> = []) =>
      journal.append(event(id, { body: body(object), accountId: "acct_2" }), sinks)
    yield* append("own", { id: "cli_1", name: "Ann" })
    yield* append("hers", { id: "app_1", client_id: "cli_1" })
    yield* append("waits", { id: "app_2", client_id: "cli_1" }, ["lake"])
    yield* append("note", { id: "app_3", client_id: "cli_2", note: "instead of cli_1" })
    yield* append("alike", { id: "cli_12", note: "xcli_1" })
    yield* journal.replay([{ sequence: 7, sinks: [] }])
    const first = [{ sequence: 9, id: "waits", sinks: ["lake"] }]
    const mentions = { count: 1, first: [{ sequence: 10, id: "note", type: "appointment.created" }] }
    const result = { count: 3, undelivered: 1, first, mentions }
    expect(yield* erase({ object: "cli_1", dryRun: true })).toMatchObject(result)
    expect(yield* erased).toEqual([])
    expect(yield* erase({ object: "cli_1" })).toMatchObject(result)
    expect(new Set(yield* erased)).toEqual(new Set([7, 8, 12]))
    expect(yield* erase({ object: "cli_1", giveUp: true })).toMatchObject({ count: 1, givenUp: 1, mentions })
    yield* erase({ event: "note" })
    expect(yield* erase({ object: "cli_1" })).toMatchObject({ count: 0, mentions: { count: 0, first: [] } })
    expect(yield* erase({ event: "alike" })).not.toHaveProperty("mentions")
  })

  it.live("finds an event's copies from any of its names, and no other event", function* () {
    for (const request of [{ event: "b" }, { place: "seq_2" }, { place: "seq_6" }]) {
      const { erase, erased } = yield* kept
      expect(yield* erase(request)).toMatchObject({ count: 2, undelivered: 0 })
      expect(yield* erased).toEqual([2, 6])
    }
    const { erase, erased, journal } = yield* kept
    yield* journal.replay([{ sequence: 5, sinks: [] }])
    expect(yield* erase({ place: "seq_7" })).toMatchObject({ count: 2 })
    expect(yield* erased).toEqual([5, 7])
  })

  it.live("erases the events of a selection with their copies at other sinks, and no event outside it", function* () {
    for (const [request, places] of [
      [{ sink: "lake", outcome: "dead" }, [1]],
      // Its copy went to no sink.
      [{ sink: "lake", outcome: "delivered" }, [2, 6]],
      [{ account: "acct_1", endedSince: 10 }, [2, 6]],
      [{ account: "acct_1", until: 1_000 }, []],
      [{ account: "acct_2", since: 1_000, until: 1_001 }, [4]],
      [{ types: ["client.*"] }, []],
    ] as const) {
      const { erase, erased } = yield* kept
      expect(yield* erase(request)).toMatchObject({ count: places.length, undelivered: 0 })
      expect(yield* erased).toEqual([...places])
    }
    const { post } = yield* kept
    expect((yield* post("/api/v1/events/erase", { outcome: "unrouted", sink: "lake" })).status).toBe(409)
  })

  it.live("takes an id for an id and a place for a place, also if an event's id looks like a place", function* () {
    const named = Effect.gen(function* () {
      const admin = yield* kept
      yield* admin.journal.append(event("seq_2", { accountId: "acct_2" }), [])
      yield* admin.journal.append(event("b", { accountId: "acct_2" }), [])
      return admin
    })
    const byId = yield* named
    expect(yield* byId.erase({ event: "seq_2" })).toMatchObject({ count: 1 })
    expect(yield* byId.erased).toEqual([7])
    const byPlace = yield* named
    expect(yield* byPlace.erase({ place: "seq_2" })).toMatchObject({ count: 2 })
    expect(yield* byPlace.erased).toEqual([2, 6])
    expect((yield* byPlace.post("/api/v1/events/erase", { place: "evt_2" })).status).toBe(400)
  })

  it.live("requires exactly one of a selection, an id and a place", function* () {
    const { post } = yield* kept
    for (const request of [{}, { account: "acct_1", event: "a" }, { event: "a", place: "seq_1" }]) {
      const response = yield* post("/api/v1/events/erase", request)
      expect([response.status, yield* text(response)]).toEqual([
        409,
        expect.stringContaining("either an event's id, a place"),
      ])
    }
    expect((yield* post("/api/v1/events/erase", { account: "" })).status).toBe(400)
  })

  it.live("is shown by explain, and replays refuse the event with the date of its erasure", function* () {
    const { erase, ask, post } = yield* kept
    yield* erase({ account: "acct_1" })
    const { events } = yield* Effect.flatMap(ask("/api/v1/events/a?reveal=true"), json).pipe(
      Effect.map(Schema.decodeUnknownSync(EventReports)),
    )
    expect(events[0]).toMatchObject({ id: "a", size: 0, signature: "", erased: expect.any(Number) })
    expect(events[0]?.timeline.at(-1)?.what).toBe("erased: body, signature and answers are gone")
    expect(events[0]?.sinks[0]).toMatchObject({ outcome: "dead", note: expect.stringContaining("was erased on 20") })
    const refused = yield* post("/api/v1/replays", { events: { id: "a" }, to: "routed" })
    expect([refused.status, yield* text(refused)]).toEqual([409, expect.stringMatching(/of a was erased on 20/)])
    const letters = yield* Effect.flatMap(post("/api/v1/dead-letters/replay", { ids: ["lake:1"] }), json)
    expect(letters).toEqual({ count: 0, stayed: [], erased: 1 })
  })

  it.live("ends while events of the account keep arriving, and finds copies made meanwhile", function* () {
    let arrived = 0
    const journal = MemoryJournal.layerWith((memory) => ({
      // Each search lets three more events arrive. The first three searches also append a copy of an event that was
      // just erased.
      events: (query) =>
        Effect.gen(function* () {
          const page = yield* memory.events(query)
          for (let more = 0; more < 3; more++) {
            arrived++
            yield* memory.append(event(`late_${arrived}`, { receivedAt: Date.now() + 3_600_000 }), [])
          }
          if (arrived <= 9) yield* memory.append(event(`copy_${arrived}`, { receivedAt: 1_000 }), [])
          return page
        }),
    }))
    yield* Effect.gen(function* () {
      const archive = yield* whole
      for (const id of ["a", "b"]) yield* archive.append(event(id), [])
      expect(yield* erase({ archive, whileStopped }, { account: "acct_1" })).toMatchObject({ count: 5 })
      expect(arrived).toBe(15)
    }).pipe(Effect.provide(Layer.fresh(journal)))
  })

  for (const [seconds, isAnswered] of [
    [50, true],
    [70, false],
  ] as const) {
    it.effect(`${isAnswered ? "continues" : "fails"} when the journal is unavailable for ${seconds} seconds`, () => {
      let left = seconds * 4
      const silent = unavailable("PostgreSQL has not answered")
      const journal = MemoryJournal.layerWith((memory) => ({
        events: (query) =>
          Effect.suspend(() =>
            query.mentioned === undefined || left-- <= 0 ? memory.events(query) : Effect.fail(silent),
          ),
      }))
      const shares: Array<number> = []
      return Effect.gen(function* () {
        const archive = yield* whole
        for (const id of ["cli_1", "cli_2"]) {
          const body = new TextEncoder().encode(JSON.stringify({ data: { object: { id, note: "not cli_1" } } }))
          yield* archive.append(event(id, { body }), [])
        }
        const options = { archive, whileStopped, onProgress: (share: number) => shares.push(share) }
        const erasing = yield* Effect.forkChild(Effect.exit(erase(options, { object: "cli_1", dryRun: true })))
        yield* TestClock.adjust("2 minutes")
        const first = [{ sequence: 2, id: "cli_2", type: "appointment.created" }]
        const result = { count: 1, mentions: { count: 1, first } }
        const exit = yield* Fiber.join(erasing)
        expect(exit).toMatchObject(isAnswered ? { _tag: "Success", value: result } : { _tag: "Failure" })
        expect(shares).toEqual(isAnswered ? [1, 1] : [1])
      }).pipe(Effect.provide(Layer.fresh(journal)))
    })
  }
})
