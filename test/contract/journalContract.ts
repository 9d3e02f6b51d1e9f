/**
 * What every journal must hold to. `open` makes a new, empty journal.
 *
 * Tests use only the contract, so they say nothing about how it is done.
 */
import { describe, expect } from "bun:test"
import { Effect, Exit, Fiber, type Layer } from "effect"
import type { Entry } from "../../src/event/Entry.ts"
import type { Event } from "../../src/event/Event.ts"
import { idempotencyKey } from "../../src/event/IdempotencyKey.ts"
import { Journal, type JournalError } from "../../src/journal/Journal.ts"
import { attempts, event, letter, retrying, settlement, waiting } from "../journal/samples.ts"
import { it } from "../lib/effect.ts"
import { seeded } from "../lib/seeded.ts"

const utf8 = new TextEncoder()

export const journalContract = (name: string, open: () => Layer.Layer<Journal, JournalError>): void => {
  const test = (title: string, body: (journal: Journal["Service"]) => Effect.Effect<void, JournalError>): void =>
    it.live(title, () => Effect.flatMap(Journal, body).pipe(Effect.provide(open())))

  const appendAll = (journal: Journal["Service"], ids: ReadonlyArray<string>, sinks: ReadonlyArray<string>) =>
    Effect.forEach(ids, (id) => journal.append(event(id), sinks), { discard: true })
  const lane = (journal: Journal["Service"], name: string) =>
    Effect.map(journal.lanes, (lanes) => lanes.find((lane) => lane.name === name))

  describe(`${name}: the log`, () => {
    test("gives back the bytes and facts of an event as they came", (journal) =>
      Effect.gen(function* () {
        const body = Uint8Array.from({ length: 300 }, (_, index) => index % 256)
        const odd = event('evt_"ü\u0000\n', { type: "", problem: "the body is not UTF-8", body })
        yield* journal.append(odd, ["lake", "audit"])
        const [entry] = yield* journal.read(0, 10)
        expect(entry).toEqual({ sequence: 1, event: odd, sinks: ["lake", "audit"], replayed: false })
      }))

    test("numbers entries from one, without holes, in the order they were appended", (journal) =>
      Effect.gen(function* () {
        yield* appendAll(journal, ["a", "b", "c"], ["lake"])
        const entries = yield* journal.read(0, 10)
        expect(entries.map((entry) => [entry.sequence, entry.event.id])).toEqual([
          [1, "a"],
          [2, "b"],
          [3, "c"],
        ])
        expect(yield* journal.head).toBe(3)
      }))

    test("reads above a place, at most as many as asked for, and nothing at the head", (journal) =>
      Effect.gen(function* () {
        yield* appendAll(journal, ["a", "b", "c", "d"], ["lake"])
        expect((yield* journal.read(1, 2)).map((entry) => entry.sequence)).toEqual([2, 3])
        expect(yield* journal.read(4, 10)).toEqual([])
      }))

    test("keeps everything that is appended at once", (journal) =>
      Effect.gen(function* () {
        const ids = Array.from({ length: 700 }, (_, index) => `evt_${index}`)
        const results = yield* Effect.forEach(ids, (id) => journal.append(event(id), ["lake"]), {
          concurrency: "unbounded",
        })
        expect(new Set(results)).toEqual(new Set(["appended"]))
        expect((yield* journal.read(0, 1000)).map((entry) => entry.event.id)).toEqual(ids)
      }))

    test("wakes who waits for something new, and does not let wait who need not", (journal) =>
      Effect.gen(function* () {
        yield* appendAll(journal, ["a"], ["lake"])
        yield* journal.awaitBeyond(0)
        const waiting = yield* Effect.forkChild(Effect.andThen(journal.awaitBeyond(1), journal.head), {
          startImmediately: true,
        })
        yield* appendAll(journal, ["b"], ["lake"])
        expect(yield* Fiber.join(waiting)).toBe(2)
      }))
  })

  describe(`${name}: duplicates`, () => {
    test("keeps the same webhook, id and bytes once", (journal) =>
      Effect.gen(function* () {
        expect(yield* journal.append(event("a"), ["lake"])).toBe("appended")
        expect(yield* journal.append(event("a", { receivedAt: 2_000 }), ["lake"])).toBe("duplicate")
        expect(yield* journal.head).toBe(1)
        expect((yield* journal.status).counters).toMatchObject({ appended: 1, duplicates: 1, altered: 0 })
      }))

    test("answers a duplicate only when the event it repeats is kept", (journal) =>
      Effect.gen(function* () {
        const first = journal.appendUnsafe(event("a"), ["lake"])
        const second = journal.appendUnsafe(event("a"), ["lake"])
        const order: Array<string> = []
        const watch = async (exit: typeof first, name: string): Promise<void> => {
          if (Exit.isSuccess(await exit)) order.push(name)
        }
        yield* Effect.promise(() => Promise.all([watch(first, "first"), watch(second, "second")]))
        expect(order).toEqual(["first", "second"])
        expect(yield* Effect.promise(async () => await second)).toEqual(Exit.succeed("duplicate"))
        expect(yield* journal.head).toBe(1)
      }))

    test("keeps the same id with other bytes, and counts it", (journal) =>
      Effect.gen(function* () {
        yield* journal.append(event("a"), ["lake"])
        expect(yield* journal.append(event("a", { body: utf8.encode("other") }), ["lake"])).toBe("appended")
        expect(yield* journal.append(event("a", { body: utf8.encode("other") }), ["lake"])).toBe("duplicate")
        expect((yield* journal.status).counters.altered).toBe(1)
      }))

    test("marks the same id with other bytes for good: its key is its own wherever it goes", (journal) =>
      Effect.gen(function* () {
        yield* journal.openLane("new")
        const bodies = ["one", "two", "three"].map((text) => utf8.encode(text))
        for (const body of bodies) yield* journal.append(event("a", { body }), ["old"])
        const marks = (entries: ReadonlyArray<Entry>) => entries.map((entry) => entry.event.altered === true)
        const entries = yield* journal.read(0, 10)
        expect(marks(entries)).toEqual([false, true, true])
        const keys = entries.map(idempotencyKey)
        expect(new Set(keys).size).toBe(3)
        yield* journal.settle([settlement("old", 2, { retry: [retrying(1)], deadLetter: [letter(2)] })])
        expect(yield* journal.moveLane("old", "new")).toBe(3)
        const letters = yield* journal.deadLetters({ limit: 9 })
        const found = [
          ...(yield* journal.readRetries("new", [1])).entries,
          ...letters.map(({ entry }) => entry),
          ...(yield* journal.read(3, 10)),
        ]
        expect(found.map(idempotencyKey)).toEqual(keys)
        yield* journal.replayDeadLetters(letters.map(({ id }) => id))
        const [copy] = yield* journal.read(4, 10)
        expect(copy && idempotencyKey(copy)).toBe(`${keys[1]}:replay:5`)
      }))

    test("keeps what could not be routed and now can be, and what still can't be once", (journal) =>
      Effect.gen(function* () {
        const quarantined = event("a", { problem: "the event type is not in the catalogue" })
        expect(yield* journal.append(quarantined, ["_quarantine"])).toBe("appended")
        expect(yield* journal.append(quarantined, ["_quarantine"])).toBe("duplicate")
        expect(yield* journal.append(event("a"), ["lake"])).toBe("appended")
        expect(yield* journal.append(event("a"), ["lake"])).toBe("duplicate")
        const entries = yield* journal.read(0, 10)
        expect(entries.map(({ sinks, event }) => [...sinks, event.altered])).toEqual([
          ["_quarantine", undefined],
          ["lake", undefined],
        ])
      }))

    test("does not take events of two webhooks for one", (journal) =>
      Effect.gen(function* () {
        yield* journal.append(event("a"), ["lake"])
        expect(yield* journal.append(event("a", { webhook: "platform" }), ["lake"])).toBe("appended")
      }))

    test("tells events without an id apart by their bytes", (journal) =>
      Effect.gen(function* () {
        const one = event("", { body: utf8.encode("not json") })
        const two = event("", { body: utf8.encode("not json either") })
        expect(yield* journal.append(one, ["_quarantine"])).toBe("appended")
        expect(yield* journal.append(two, ["_quarantine"])).toBe("appended")
        expect(yield* journal.append(one, ["_quarantine"])).toBe("duplicate")
      }))
  })

  describe(`${name}: lanes`, () => {
    test("opens a new lane at the head, and a known one where it stood", (journal) =>
      Effect.gen(function* () {
        yield* appendAll(journal, ["a"], [])
        expect((yield* journal.openLane("lake")).cursor).toEqual({ sequence: 1, settled: [] })
        yield* appendAll(journal, ["b", "c", "d"], ["lake"])
        yield* journal.settle([settlement("lake", 2, { cursor: { sequence: 2, settled: [[4, 4]] } })])
        const state = yield* journal.openLane("lake")
        expect(state.cursor).toEqual({ sequence: 2, settled: [[4, 4]] })
        expect(state.backlog).toBe(1)
      }))

    test("holds for a lane that is not open what was routed to it", (journal) =>
      Effect.gen(function* () {
        yield* appendAll(journal, ["a", "b"], ["late"])
        const state = yield* journal.openLane("late")
        expect(state.cursor.sequence).toBe(0)
        expect(state.backlog).toBe(2)
      }))

    test("counts a lane's backlog as what was routed to it and is not settled", (journal) =>
      Effect.gen(function* () {
        const random = seeded(7)
        yield* journal.openLane("lake")
        const routed: Array<number> = []
        for (let sequence = 1; sequence <= 60; sequence++) {
          const isRouted = random() < 0.6
          if (isRouted) routed.push(sequence)
          yield* journal.append(event(`evt_${sequence}`), isRouted ? ["lake"] : ["other"])
        }
        let cursor = 0
        for (let round = 0; round < 12; round++) {
          cursor = Math.min(60, cursor + Math.floor(random() * 8))
          const settled: Array<readonly [number, number]> = []
          for (let from = cursor + 2; from < 60 && settled.length < 3; from += 2 + Math.floor(random() * 9)) {
            const to = Math.min(60, from + Math.floor(random() * 4))
            settled.push([from, to])
            from = to + 1
          }
          yield* journal.settle([settlement("lake", cursor, { cursor: { sequence: cursor, settled } })])
          const open = routed.filter((s) => s > cursor && !settled.some(([from, to]) => from <= s && s <= to))
          expect((yield* lane(journal, "lake"))?.backlog).toBe(open.length)
        }
      }))

    test("never moves a cursor back", (journal) =>
      Effect.gen(function* () {
        yield* journal.openLane("lake")
        yield* appendAll(journal, ["a", "b", "c"], ["lake"])
        yield* journal.settle([settlement("lake", 3)])
        yield* journal.settle([settlement("lake", 1)])
        expect((yield* lane(journal, "lake"))?.cursor.sequence).toBe(3)
      }))

    test("refuses appends for a lane whose backlog is at its limit, and takes them again after", (journal) =>
      Effect.gen(function* () {
        yield* journal.openLane("lake")
        yield* journal.openLane("audit")
        yield* journal.limitBacklog("lake", 2)
        yield* appendAll(journal, ["a", "b"], ["lake", "audit"])
        const refused = yield* Effect.orDie(Effect.flip(journal.append(event("c"), ["lake", "audit"])))
        expect(refused.reason).toMatchObject({ _tag: "JournalFull", cause: "backlog" })
        expect(refused.message).toContain("lake")
        expect(yield* journal.append(event("d"), ["audit"])).toBe("appended")
        yield* journal.settle([settlement("lake", 1)])
        expect(yield* journal.append(event("c"), ["lake"])).toBe("appended")
        yield* journal.limitBacklog("lake", undefined)
        yield* appendAll(journal, ["e", "f"], ["lake"])
      }))

    test("remembers that a person paused a lane", (journal) =>
      Effect.gen(function* () {
        yield* journal.openLane("lake")
        yield* journal.setPaused("lake", true)
        expect((yield* journal.openLane("lake")).paused).toBe(true)
        yield* journal.setPaused("lake", false)
        expect((yield* journal.openLane("lake")).paused).toBe(false)
      }))

    test("parks events with their bytes, changes them, and lets them go", (journal) =>
      Effect.gen(function* () {
        yield* journal.openLane("lake")
        yield* appendAll(journal, ["a", "b", "c"], ["lake"])
        yield* journal.settle([settlement("lake", 3, { retry: [retrying(1, "k"), retrying(3)] })])
        const read = yield* journal.readRetries("lake", [3, 1, 2])
        expect(read.entries.map((entry) => entry.event.id)).toEqual(["c", "a"])
        expect((yield* journal.openLane("lake")).retries).toEqual([waiting(1, "k"), waiting(3)])
        expect(yield* lane(journal, "lake")).toMatchObject({ retrying: 2, backlog: 2 })
        yield* journal.settle([settlement("lake", 3, { retry: [{ ...retrying(1), due: 9_000 }], endRetry: [3] })])
        const state = yield* journal.openLane("lake")
        expect(state).toMatchObject({ retries: [{ ...waiting(1), due: 9_000 }], retrying: 1, backlog: 1 })
      }))

    test("keeps of an event's attempts the first and the newest, however often it was tried", (journal) =>
      Effect.gen(function* () {
        yield* journal.openLane("lake")
        yield* appendAll(journal, ["a"], ["lake"])
        for (let tried = 1; tried <= 30; tried++) {
          const failed = [{ at: tried, reason: "DeliveryFailed", message: `attempt ${tried}` }]
          yield* journal.settle([settlement("lake", 1, { retry: [{ ...retrying(1), tried, failed }] })])
        }
        expect((yield* journal.openLane("lake")).retries).toEqual([{ ...waiting(1), tried: 30 }])
        yield* journal.settle([settlement("lake", 1, { deadLetter: [letter(1)] })])
        const [dead] = yield* journal.deadLetters({ limit: 1 })
        expect(dead?.attempts.map(({ at }) => at)).toEqual([1, 23, 24, 25, 26, 27, 28, 29, 30, 5])
      }))

    test("ignores the progress of a lane that was dropped", (journal) =>
      Effect.gen(function* () {
        yield* journal.openLane("lake")
        yield* appendAll(journal, ["a", "b"], ["lake"])
        expect(yield* journal.dropLane("lake")).toBe(2)
        yield* journal.settle([settlement("lake", 2)])
        expect(yield* journal.lanes).toEqual([])
      }))

    test("hands everything pending of a lane to another, in order", (journal) =>
      Effect.gen(function* () {
        yield* journal.openLane("new")
        yield* appendAll(journal, ["a", "b", "c", "d", "e"], ["old"])
        yield* journal.settle([
          settlement("old", 2, {
            cursor: { sequence: 2, settled: [[4, 4]] },
            retry: [retrying(1)],
            deadLetter: [letter(2)],
          }),
        ])
        expect(yield* journal.moveLane("old", "new")).toBe(4)
        expect((yield* journal.lanes).map((lane) => lane.name)).toEqual(["new"])
        expect(yield* lane(journal, "new")).toMatchObject({ backlog: 3, deadLetters: 1, retrying: 1 })
        expect((yield* journal.openLane("new")).retries).toEqual([waiting(1)])
        const moved = yield* journal.read(5, 10)
        expect(moved.map((entry) => [entry.event.id, entry.sinks, entry.replayed])).toEqual([
          ["c", ["new"], false],
          ["e", ["new"], false],
        ])
      }))

    test("keeps a lane paused when its sink changes its name", (journal) =>
      Effect.gen(function* () {
        yield* journal.openLane("old")
        yield* journal.setPaused("old", true)
        expect((yield* journal.openLane("new", "old")).paused).toBe(true)
        expect((yield* lane(journal, "new"))?.paused).toBe(true)
      }))

    test("adopts the lane that a sink had under its former name", (journal) =>
      Effect.gen(function* () {
        yield* appendAll(journal, ["a", "b"], ["old"])
        yield* journal.settle([settlement("old", 1)])
        const state = yield* journal.openLane("new", "old")
        expect(state.backlog).toBe(1)
        expect((yield* journal.lanes).map((lane) => lane.name)).toEqual(["new"])
        expect((yield* journal.openLane("new", "old")).backlog).toBe(1)
      }))

    test("adopts it also where the new name was a lane before, and what an earlier take-over has left", (journal) =>
      Effect.gen(function* () {
        yield* journal.openLane("new")
        yield* appendAll(journal, ["a", "b"], ["new"])
        yield* journal.settle([settlement("new", 1)])
        yield* appendAll(journal, ["c", "d"], ["old"])
        yield* journal.settle([settlement("old", 2, { deadLetter: [letter(3)], cursor: { sequence: 3, settled: [] } })])
        expect(yield* journal.openLane("new", "old")).toMatchObject({ backlog: 2, deadLetters: 1 })
        expect((yield* journal.lanes).map((lane) => lane.name)).toEqual(["new"])
        expect((yield* journal.read(1, 9)).filter(({ sinks }) => sinks.includes("new")).map((e) => e.event.id)).toEqual(
          ["b", "d"],
        )
      }))
  })

  describe(`${name}: dead letters and replay`, () => {
    const buried = Effect.fnUntraced(function* (journal: Journal["Service"]) {
      yield* journal.openLane("lake")
      yield* journal.openLane("audit")
      yield* appendAll(journal, ["a", "b", "c"], ["lake", "audit"])
      yield* journal.settle([
        settlement("lake", 3, { retry: [retrying(1)], deadLetter: [letter(2), letter(3)] }),
        settlement("audit", 3, { deadLetter: [letter(3)] }),
      ])
    })

    test("keeps an event with the attempts that failed, newest first, in pages", (journal) =>
      Effect.gen(function* () {
        yield* buried(journal)
        const all = yield* journal.deadLetters({ limit: 10 })
        expect(all.map((letter) => letter.id)).toEqual(["lake:3", "audit:3", "lake:2"])
        expect(all[0]).toMatchObject({ lane: "lake", at: 9, attempts, entry: { event: event("c") } })
        const ids = (query: { lane?: string; type?: string; before?: string; limit: number }) =>
          Effect.map(journal.deadLetters(query), (letters) => letters.map((letter) => letter.id))
        expect(yield* ids({ limit: 1 })).toEqual(["lake:3"])
        expect(yield* ids({ limit: 1, before: "lake:3" })).toEqual(["audit:3"])
        expect(yield* ids({ limit: 9, before: "audit:3", lane: "lake" })).toEqual(["lake:2"])
        expect(yield* ids({ limit: 9, type: "client.created" })).toEqual([])
        expect(yield* ids({ limit: 9, type: "appointment.*", before: "lake:3" })).toEqual(["audit:3", "lake:2"])
      }))

    test("makes a dead letter of a retrying event, which then is no longer retrying", (journal) =>
      Effect.gen(function* () {
        yield* buried(journal)
        yield* journal.settle([settlement("lake", 3, { deadLetter: [letter(1)] })])
        const state = yield* lane(journal, "lake")
        expect(state).toMatchObject({ retrying: 0, deadLetters: 3, backlog: 0 })
        expect((yield* journal.deadLetters({ lane: "lake", limit: 9 })).at(-1)?.entry.event).toEqual(event("a"))
      }))

    test("appends replayed dead letters for their lane only, and forgets them", (journal) =>
      Effect.gen(function* () {
        yield* buried(journal)
        expect(yield* journal.replayDeadLetters(["lake:2", "lake:2", "lake:99", "nonsense"])).toBe(1)
        const [entry] = yield* journal.read(3, 10)
        expect(entry).toEqual({ sequence: 4, event: event("b"), sinks: ["lake"], replayed: true })
        const state = yield* lane(journal, "lake")
        expect(state).toMatchObject({ deadLetters: 1, backlog: 2 })
        expect((yield* lane(journal, "audit"))?.backlog).toBe(0)
        expect(yield* journal.append(event("b"), ["lake"])).toBe("duplicate")
      }))

    test("routes what is in quarantine anew, once, as the delivery that it came by, or leaves it there", (journal) =>
      Effect.gen(function* () {
        const quarantine = "_quarantine"
        const problem = "the event type is not in the catalogue"
        const bodies = ["still", "now", "sent again"]
        yield* journal.openLane(quarantine)
        for (const id of bodies) yield* journal.append(event(id, { problem }), [quarantine])
        yield* journal.settle([settlement(quarantine, 3, { deadLetter: [letter(1), letter(2), letter(3)] })])
        yield* journal.append(event("sent again"), ["lake"])
        const letters = ["_quarantine:1", "_quarantine:2", "_quarantine:3"]
        const reroute = ({ problem: _, ...event }: Event) =>
          event.id === "still" ? undefined : { event, sinks: ["lake", "audit"] }
        expect(yield* journal.replayDeadLetters(letters, reroute)).toBe(2)
        expect((yield* journal.deadLetters({ limit: 9 })).map(({ id }) => id)).toEqual(["_quarantine:1"])
        expect(yield* journal.read(3, 10)).toEqual([
          { sequence: 4, event: event("sent again"), sinks: ["lake"], replayed: false },
          { sequence: 5, event: event("now"), sinks: ["lake", "audit"], replayed: false },
        ])
        expect((yield* lane(journal, "lake"))?.backlog).toBe(2)
        expect(yield* lane(journal, quarantine)).toMatchObject({ deadLetters: 1, backlog: 0 })
        expect(yield* journal.append(event("now"), ["lake"])).toBe("duplicate")
        expect(yield* journal.replayDeadLetters(letters, reroute)).toBe(0)
      }))

    test("drops dead letters", (journal) =>
      Effect.gen(function* () {
        yield* buried(journal)
        expect(yield* journal.dropDeadLetters(["lake:2", "audit:3", "lake:7"])).toBe(2)
        expect((yield* journal.deadLetters({ limit: 9 })).map((letter) => letter.id)).toEqual(["lake:3"])
        expect(yield* lane(journal, "audit")).toMatchObject({ deadLetters: 0, deadLetterBytes: 0 })
      }))

    test("replays the log by time and type for one sink, without the copies of earlier replays", (journal) =>
      Effect.gen(function* () {
        const at = (id: string, receivedAt: number, type: string) => event(id, { receivedAt, type })
        yield* journal.append(at("a", 10, "client.created"), ["lake"])
        yield* journal.append(at("b", 20, "client.created"), ["lake"])
        yield* journal.append(at("c", 20, "block.created"), ["lake"])
        yield* journal.append(at("d", 30, "client.created"), ["lake"])
        const query = { since: 20, until: 30, types: (type: string) => type.startsWith("client."), sink: "audit" }
        expect(yield* journal.replay(query)).toBe(1)
        expect(yield* journal.replay({ ...query, until: 31, types: () => true })).toBe(3)
        const copies = yield* journal.read(4, 10)
        expect(copies.map((entry) => entry.event.id)).toEqual(["b", "b", "c", "d"])
        expect(copies.every((entry) => entry.replayed && entry.sinks.join() === "audit")).toBe(true)
        expect((yield* lane(journal, "audit"))?.backlog).toBe(4)
      }))
  })

  describe(`${name}: import`, () => {
    const owed = (sequence: number, id: string, pending: ReadonlyArray<string>) => ({
      sequence,
      event: event(id),
      replayed: false,
      pending,
    })

    test("appends for just the lanes that it was owed to, dead letters as such, each once a lane", (journal) =>
      Effect.gen(function* () {
        for (const name of ["lake", "audit"]) yield* journal.openLane(name)
        yield* journal.append(event("before"), ["lake", "audit"])
        const dead = { at: 7, attempts }
        const all = [
          owed(900, "a", ["lake"]),
          owed(901, "b", ["lake", "audit"]),
          { ...owed(902, "c", ["audit"]), dead },
          owed(902, "c", ["lake"]),
        ]
        expect(yield* journal.import("other", all)).toEqual({ pending: 4, deadLetters: 1, known: 0 })
        const entries = yield* journal.read(1, 10)
        expect(entries.map(({ event, sinks }) => [event.id, sinks])).toEqual([
          ["a", ["lake"]],
          ["b", ["lake", "audit"]],
          ["c", []],
          ["c", ["lake"]],
        ])
        expect(entries.map(idempotencyKey)).toEqual(["a", "b", "c", "c"])
        expect(yield* lane(journal, "lake")).toMatchObject({ backlog: 4, deadLetters: 0 })
        expect(yield* lane(journal, "audit")).toMatchObject({ backlog: 2, deadLetters: 1 })
        expect(yield* journal.deadLetters({ limit: 9 })).toMatchObject([
          { id: "audit:4", lane: "audit", at: 7, attempts, entry: { event: event("c"), sinks: ["audit"] } },
        ])
        // Again, and for one lane more.
        expect(yield* journal.import("other", all)).toEqual({ pending: 0, deadLetters: 0, known: 5 })
        expect(yield* journal.import("other", [owed(900, "a", ["lake", "audit"])])).toMatchObject({
          pending: 1,
          known: 1,
        })
        expect(yield* journal.import("third", [owed(900, "d", ["lake"])])).toMatchObject({ pending: 1, known: 0 })
        expect(yield* journal.replayDeadLetters(["audit:4"])).toBe(1)
      }))

    test("leaves out what the sender has sent again since, but for replays", (journal) =>
      Effect.gen(function* () {
        yield* journal.openLane("lake")
        yield* journal.append(event("a"), ["lake"])
        const again = [owed(1, "a", ["lake"]), { ...owed(2, "a", ["lake"]), replayed: true }]
        expect(yield* journal.import("other", again)).toEqual({ pending: 1, deadLetters: 0, known: 1 })
        expect((yield* journal.status).counters.altered).toBe(0)
      }))

    test("takes many at once", (journal) =>
      Effect.gen(function* () {
        yield* journal.openLane("lake")
        const many = Array.from({ length: 1_000 }, (_, index) => owed(index + 1, `evt_${index}`, ["lake"]))
        expect(yield* journal.import("other", many)).toEqual({ pending: 1_000, deadLetters: 0, known: 0 })
        expect((yield* lane(journal, "lake"))?.backlog).toBe(1_000)
        expect(yield* journal.import("other", many)).toEqual({ pending: 0, deadLetters: 0, known: 1_000 })
      }))
  })
}
