/** Dead letters and replays. */
import { describe, expect } from "bun:test"
import { Effect } from "effect"
import type { Event } from "../../../src/event/Event.ts"
import { attempts, event, letter, retrying, settlement } from "../../journal/samples.ts"
import { appendAll, type Create, lane, type Service, testWith } from "./sessions.ts"

export const deadLettersContract = (name: string, create: Create): void => {
  const test = testWith(create)

  describe(`${name}: dead letters and replay`, () => {
    const withDeadLetters = Effect.fnUntraced(function* (journal: Service) {
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
        yield* withDeadLetters(journal)
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
        yield* withDeadLetters(journal)
        yield* journal.settle([settlement("lake", 3, { deadLetter: [letter(1)] })])
        const state = yield* lane(journal, "lake")
        expect(state).toMatchObject({ retrying: 0, deadLetters: 3, backlog: 0 })
        expect((yield* journal.deadLetters({ lane: "lake", limit: 9 })).at(-1)?.entry.event).toEqual(event("a"))
      }))

    test("appends replayed dead letters for their lane only, and forgets them", (journal) =>
      Effect.gen(function* () {
        yield* withDeadLetters(journal)
        expect(yield* journal.replayDeadLetters(["lake:2", "lake:2", "lake:99", "nonsense"])).toBe(1)
        const [entry] = yield* journal.read(3, 10)
        expect(entry).toEqual({ sequence: 4, event: event("b"), sinks: ["lake"], replayed: true })
        const state = yield* lane(journal, "lake")
        expect(state).toMatchObject({ deadLetters: 1, backlog: 2 })
        expect((yield* lane(journal, "audit"))?.backlog).toBe(0)
        expect(yield* journal.append(event("b"), ["lake"])).toBe("duplicate")
      }))

    test("routes what is in quarantine again, once, as a delivery, or leaves it there", (journal) =>
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
        yield* withDeadLetters(journal)
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
}
