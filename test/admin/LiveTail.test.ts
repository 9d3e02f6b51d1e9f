import { describe, expect } from "bun:test"
import { Clock, Effect, Exit, Fiber, Latch, Stream } from "effect"
import { TestClock } from "effect/testing"
import type { Tap, TapLine } from "../../src/admin/api/LiveTail.ts"
import * as LiveTail from "../../src/admin/api/LiveTail.ts"
import type { Event } from "../../src/event/Event.ts"
import type { RefusalReason } from "../../src/ingest/Answers.ts"
import * as RecentRefusals from "../../src/ingest/RecentRefusals.ts"
import * as Pattern from "../../src/routing/Pattern.ts"
import { inMemory } from "../journal/inMemory.ts"
import { event } from "../journal/samples.ts"
import { whole } from "../journal/whole.ts"
import { it } from "../lib/effect.ts"
import { json, start, text } from "./fixture.ts"

type Line = typeof TapLine.Type

const append = (id: string, sinks: ReadonlyArray<string> = ["lake"], more: Partial<Event> = {}) =>
  Effect.flatMap(whole, (journal) => journal.append(event(id, more), sinks))

const burst = (count: number, prefix: string) =>
  Effect.flatMap(whole, (journal) => {
    const appends = Array.from({ length: count }, (_, index) =>
      journal.appendUnsafe(event(`${prefix}_${index}`), ["lake"]),
    )
    return Effect.promise(() => Promise.all(appends))
  })

/** Taps into `lines`. Nothing is read while the latch is closed. */
const tapping = (filter: LiveTail.Filter, reading = Latch.makeUnsafe(true)) =>
  Effect.gen(function* () {
    const lines: Array<Line> = []
    const refusals = RecentRefusals.make(yield* Clock.Clock)
    const stream = yield* LiveTail.tapStream(filter, refusals)
    const take = (line: Line) => reading.whenOpen(Effect.sync(() => lines.push(line)))
    yield* Effect.forkScoped(Stream.runForEach(stream, take), { startImmediately: true })
    return {
      ids: () => lines.flatMap(({ events }) => events.map(({ id }) => id)),
      skipped: () => lines.reduce((sum, line) => sum + line.skipped, 0),
      lines,
      refuse: (reason: RefusalReason, webhook = "scheduling", detail = "") =>
        refusals.add({ webhook, reason, requestId: "abc-1", from: "203.0.113.7", detail }),
      refused: () => lines.flatMap(({ refused }) => refused),
    }
  })

/** Advances the clock in small steps, so that each wait starts at its own time. */
const pass = (seconds: number) => Effect.repeat(TestClock.adjust("50 millis"), { times: seconds * 20 - 1 })

describe("a tap", () => {
  inMemory("shows from now on who and where, and nothing of what", function* () {
    yield* append("evt_before")
    const { lines } = yield* tapping({})
    yield* append("evt_1", ["lake", "chat"], { type: "client.created", accountId: "acct_7", receivedAt: 5 })
    yield* pass(1)
    const shown = {
      at: 5,
      id: "evt_1",
      type: "client.created",
      account: "acct_7",
      webhook: "scheduling",
      sinks: ["lake", "chat"],
      replayed: false,
    }
    expect(lines).toEqual([
      { events: [], refused: [], skipped: 0 },
      { events: [shown], refused: [], skipped: 0 },
    ])
  })

  inMemory("takes what its pattern, webhook and sink say", function* () {
    const failures = yield* tapping({ match: Pattern.make("**.*_failed") })
    const chat = yield* tapping({ sink: "chat" })
    const billing = yield* tapping({ webhook: "billing", sink: "lake" })
    yield* append("evt_1", ["lake"], { type: "appointment.meeting.create_failed" })
    yield* append("evt_2", ["lake", "chat"], { type: "client.created" })
    yield* append("evt_3", ["lake"], { type: "client.created", webhook: "billing" })
    yield* append("evt_4", ["chat"], { type: "client.created", webhook: "billing" })
    yield* pass(1)
    expect([failures.ids(), chat.ids(), billing.ids()]).toEqual([["evt_1"], ["evt_2", "evt_4"], ["evt_3"]])
  })

  inMemory("shows a hundred a second and counts the others", function* () {
    const { ids, skipped } = yield* tapping({})
    yield* burst(250, "a")
    yield* pass(1)
    expect([ids().length, skipped()]).toEqual([100, 150])
    yield* burst(250, "b")
    yield* pass(1)
    expect([ids().length, skipped()]).toEqual([200, 300])
    yield* burst(50, "c")
    yield* pass(1)
    expect([ids().length, skipped()]).toEqual([250, 300])
  })

  inMemory("shows what is refused as it comes, with the reason and the id in its answer", function* () {
    const { refuse, refused, ids } = yield* tapping({})
    refuse("signatureMismatch")
    yield* pass(1)
    refuse("unknownPath", "", "/nowhere")
    yield* append("evt_1")
    yield* pass(1)
    expect([ids(), refused()]).toEqual([
      ["evt_1"],
      [
        {
          at: 0,
          webhook: "scheduling",
          refused: "signatureMismatch",
          status: 401,
          what: "the signature does not match",
          detail: "",
          requestId: "abc-1",
          from: "203.0.113.7",
        },
        {
          at: 1_000,
          webhook: "",
          refused: "unknownPath",
          status: 404,
          what: "no webhook has this path",
          detail: "/nowhere",
          requestId: "abc-1",
          from: "203.0.113.7",
        },
      ],
    ])
  })

  inMemory("shows refusals of its webhook, and none by type or sink: a refused request has neither", function* () {
    const taps = yield* Effect.forEach(
      [{ webhook: "billing" }, { sink: "lake" }, { match: Pattern.make("**") }],
      (filter) => tapping(filter),
    )
    for (const { refuse } of taps) for (const name of ["scheduling", "billing", ""]) refuse("method", name)
    yield* pass(1)
    expect(taps.map(({ refused }) => refused().map(({ webhook }) => webhook))).toEqual([["billing"], [], []])
  })

  inMemory("shows a hundred refusals a second and counts the others, also those that nobody kept", function* () {
    const { refuse, refused, skipped } = yield* tapping({})
    for (let n = 0; n < 5_000; n++) refuse("unknownPath", "", `/${n}`)
    yield* pass(1)
    expect([refused().length, skipped()]).toEqual([100, 4_900])
    refuse("unknownPath", "", "/later")
    yield* pass(1)
    expect(refused().at(-1)?.detail).toBe("/later")
  })

  inMemory("whose reader is slow holds nothing back, and goes on near the head", function* () {
    const reading = Latch.makeUnsafe(true)
    const { ids, skipped } = yield* tapping({}, reading)
    yield* append("first")
    yield* pass(1)
    yield* reading.close
    yield* append("second")
    yield* pass(1)
    // All events are kept immediately, although nothing reads the tap.
    const kept = yield* burst(8_300, "many")
    expect(kept.every(Exit.isSuccess)).toBe(true)
    yield* reading.open
    yield* pass(1)
    expect(ids().slice(0, 2)).toEqual(["first", "second"])
    // Events too far behind are skipped without a check.
    expect(ids()).not.toContain("many_0")
    expect(ids().length + skipped()).toBe(8_302)
  })

  inMemory("says at once that it listens, and every ten seconds that it lives", function* () {
    const { lines } = yield* tapping({})
    yield* pass(1)
    expect(lines).toEqual([{ events: [], refused: [], skipped: 0 }])
    yield* pass(25)
    expect(lines).toHaveLength(3)
  })
})

describe("a tap over the admin API", () => {
  it.live("prints one line of JSON per event, without any byte of its body", function* () {
    const { ask, journal } = yield* start()
    const response = yield* ask("/api/v1/tap?sink=lake")
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "application/x-ndjson"])
    const reader = (response.body ?? new ReadableStream<Uint8Array>()).getReader()
    const next = Effect.map(
      Effect.promise(() => reader.read()),
      ({ value }) => new TextDecoder().decode(value),
    )
    expect(JSON.parse(yield* next)).toEqual({ events: [], refused: [], skipped: 0 })
    const reading = yield* Effect.forkChild(next, { startImmediately: true })
    const body = new TextEncoder().encode('{"first_name":"Ada"}')
    yield* journal.append(event("evt_1", { body, signature: "sha256=AB" }), ["lake"])
    const line = yield* Fiber.join(reading)
    expect(JSON.parse(line)).toMatchObject({ events: [{ id: "evt_1", sinks: ["lake"] }], skipped: 0 })
    expect(line).not.toMatch(/Ada|sha256/)
    yield* Effect.promise(() => reader.cancel())
  })

  it.live("polls, and each answer has the events since the last one", function* () {
    const { ask, journal } = yield* start({
      refused: [{ webhook: "", reason: "method", requestId: "1", from: "203.0.113.7", detail: "" }],
    })
    const since = (next: Tap["next"] | undefined) => {
      const query = new URLSearchParams(next && { sequence: `${next.sequence}`, refusals: `${next.refusals}` })
      return Effect.map(Effect.flatMap(ask(`/api/v1/tap/since?${query}`), json), (tap) => tap as Tap)
    }
    yield* journal.append(event("evt_before"), ["lake"])
    const { next, ...begun } = yield* since(undefined)
    expect([begun, next]).toEqual([
      { events: [], refused: [], skipped: 0 },
      { sequence: 1, refusals: 1 },
    ])
    for (let n = 1; n <= 102; n++) yield* journal.append(event(`evt_${n}`), ["lake"])
    const found = yield* since(next)
    expect([found.events[0]?.id, found.events.length, found.skipped]).toEqual(["evt_1", 100, 2])
    expect(yield* since(found.next)).toEqual({ events: [], refused: [], skipped: 0, next: found.next })
    // Positions from before the relay's last start, or of another journal.
    expect(yield* since({ sequence: 9_999, refusals: 9_999 })).toMatchObject({ skipped: 0, next: found.next })
    const { refused } = yield* since({ sequence: 0, refusals: 0 })
    expect(refused).toEqual([])
    const none = yield* since({ sequence: 102, refusals: 0 })
    expect(none).toMatchObject({ events: [{ id: "evt_102" }], refused: [{ refused: "method" }] })
  })

  it.live("refuses an invalid pattern, and names that don't exist", function* () {
    const { ask } = yield* start()
    const statuses: Array<number> = []
    for (const query of ["type=a..b", "sink=nope", "webhook=nope"]) {
      const response = yield* ask(`/api/v1/tap?${query}`)
      statuses.push(response.status)
      expect((yield* text(response)).length).toBeGreaterThan(20)
    }
    expect(statuses).toEqual([409, 404, 404])
  })
})
