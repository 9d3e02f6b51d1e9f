/** Dead letters and replays. */
import { describe, expect } from "bun:test"
import { Effect } from "effect"
import type { Event } from "../../../src/event/Event.ts"
import { eventLoop } from "../../../src/event/EventLoop.ts"
import { attempts, event, letter, retrying, settlement, waiting } from "../../journal/samples.ts"
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

    test("keeps an event with the attempts that failed, newest first, in pages", function* (journal) {
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
    })

    test("makes a dead letter of a retrying event, which then is no longer retrying", function* (journal) {
      yield* withDeadLetters(journal)
      yield* journal.settle([settlement("lake", 3, { deadLetter: [letter(1)] })])
      const state = yield* lane(journal, "lake")
      expect(state).toMatchObject({ retrying: 0, deadLetters: 3, backlog: 0 })
      expect((yield* journal.deadLetters({ lane: "lake", limit: 9 })).at(-1)?.entry.event).toEqual(event("a"))
    })

    test("turns a replayed dead letter into a retry with its attempts, also if it is done twice", function* (journal) {
      yield* withDeadLetters(journal)
      const { failed: _, refunded: __, ...wait } = retrying(2, "acct_1")
      yield* journal.dropDeadLetters(["lake:3"])
      const takenBack = settlement("lake", 3, { takeBack: [wait, { ...wait, sequence: 3 }] })
      for (let time = 1; time <= 2; time++) {
        yield* journal.settle([takenBack])
        expect(yield* lane(journal, "lake")).toMatchObject({ retrying: 2, deadLetters: 0, backlog: 2 })
        expect((yield* lane(journal, "audit"))?.deadLetters).toBe(1)
      }
      const { entries } = yield* journal.readRetries("lake", [2, 3])
      expect(entries.map(({ sequence, event }) => [sequence, event])).toEqual([[2, event("b")]])
      const { retries } = yield* journal.openLane("lake")
      expect(retries.find(({ sequence }) => sequence === 2)).toEqual({
        ...wait,
        lastFailure: "DeliveryFailed",
        attempts: 1,
      })
      yield* journal.settle([settlement("lake", 3, { deadLetter: [{ ...letter(2), at: 10, failed: [] }] })])
      const [dead] = yield* journal.deadLetters({ lane: "lake", limit: 9 })
      expect(dead).toMatchObject({ sequence: 2, at: 10, attempts })
    })

    test("keeps a dead letter that its lane takes back and gives up in the same settlement", function* (journal) {
      yield* withDeadLetters(journal)
      const { failed: _, refunded: __, ...wait } = retrying(2)
      yield* journal.settle([settlement("lake", 3, { takeBack: [wait], deadLetter: [{ ...letter(2), at: 10 }] })])
      expect(yield* lane(journal, "lake")).toMatchObject({ retrying: 1, deadLetters: 2, backlog: 1 })
    })

    test("returns replayed dead letters to their lane, which takes them up at their old places", function* (journal) {
      yield* withDeadLetters(journal)
      expect(yield* journal.replayDeadLetters(["lake:2", "lake:2", "lake:99", "nonsense"])).toBe(1)
      expect(yield* journal.read(3, 10)).toEqual([])
      const counts = { returned: 1, retrying: 1, deadLetters: 1, backlog: 2 }
      expect(yield* lane(journal, "lake")).toMatchObject(counts)
      expect(yield* lane(journal, "audit")).toMatchObject({ returned: 0, deadLetters: 1, backlog: 0 })
      expect(yield* journal.returned("audit")).toEqual([])
      expect(yield* journal.returned("lake")).toEqual([{ sequence: 2, attempts: 1 }])
      expect((yield* journal.openLane("lake")).retries).toEqual([waiting(1)])
      expect((yield* journal.readRetries("lake", [2])).entries).toMatchObject([{ sequence: 2, event: event("b") }])
      expect(yield* journal.append(event("b"), ["lake"])).toBe("duplicate")
      const taken = { ...retrying(2, "key"), tried: 0, failed: [] }
      yield* journal.settle([settlement("lake", 3, { retry: [taken] })])
      expect(yield* journal.returned("lake")).toEqual([])
      expect(yield* lane(journal, "lake")).toMatchObject({ ...counts, returned: 0, retrying: 2 })
      const { retries } = yield* journal.openLane("lake")
      expect(retries).toEqual([waiting(1), { ...waiting(2, "key"), tried: 0 }])
      yield* journal.settle([settlement("lake", 3, { deadLetter: [{ ...letter(2), at: 10, failed: [] }] })])
      const [, dead] = yield* journal.deadLetters({ lane: "lake", limit: 9 })
      expect(dead).toMatchObject({ sequence: 2, at: 10, attempts })
    })

    test("returns dead letters oldest first, and takes one back that was given up before it was taken up", function* (journal) {
      yield* journal.openLane("lake")
      const all = Array.from({ length: 70 }, (_, index) => index + 1)
      yield* Effect.forEach(all, (at) => journal.append(event(`evt_${at}`), ["lake"]), { concurrency: "unbounded" })
      yield* journal.settle([settlement("lake", 70, { delivered: [], deadLetter: all.map(letter) })])
      expect(yield* journal.replayDeadLetters(all.toReversed().map((at) => `lake:${at}`))).toBe(70)
      const returned = Effect.map(journal.returned("lake"), (some) => some.map(({ sequence }) => sequence))
      expect(yield* returned).toEqual(all)
      yield* journal.settle([settlement("lake", 70, { delivered: [], deadLetter: [letter(1)], endRetry: [2] })])
      expect(yield* returned).toEqual(all.slice(2))
      expect(yield* lane(journal, "lake")).toMatchObject({ returned: 68, retrying: 0, deadLetters: 1, backlog: 68 })
      expect(yield* journal.moveLane("lake", "audit")).toBe(69)
      expect(yield* lane(journal, "audit")).toMatchObject({ returned: 68, retrying: 0, deadLetters: 1, backlog: 68 })
      expect(yield* journal.dropLane("audit")).toBe(69)
    })

    test("routes a quarantined delivery again, once, as a delivery, or leaves it there", function* (journal) {
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
    })

    test("drops dead letters", function* (journal) {
      yield* withDeadLetters(journal)
      expect(yield* journal.dropDeadLetters(["lake:2", "audit:3", "lake:7"])).toBe(2)
      expect((yield* journal.deadLetters({ limit: 9 })).map((letter) => letter.id)).toEqual(["lake:3"])
      expect(yield* lane(journal, "audit")).toMatchObject({ deadLetters: 0, deadLetterBytes: 0 })
    })

    test("replays entries for the named sinks, wherever they are stored, and names missing entries", function* (journal) {
      yield* withDeadLetters(journal)
      const targets = [1, 3, 99].map((sequence) => ({ sequence, sinks: ["audit", "new"] }))
      expect(yield* journal.replay(targets)).toEqual({ done: 3, gone: [99] })
      const copies = yield* journal.read(3, 10)
      expect(copies.map(({ sequence, event }) => [sequence, event.id])).toEqual([
        [4, "a"],
        [5, "c"],
      ])
      expect(copies.every(({ replayed, sinks }) => replayed && sinks.join() === "audit,new")).toBe(true)
      expect((yield* lane(journal, "new"))?.backlog).toBe(2)
      expect((yield* journal.deadLetters({ limit: 10 })).map(({ id }) => id)).toEqual(["lake:3", "audit:3", "lake:2"])
    })

    test("replays all entries in smaller parts while deliveries arrive", function* (journal) {
      const count = 40
      yield* appendAll(
        journal,
        Array.from({ length: count }, (_, at) => `evt_${at}`),
        ["lake"],
      )
      let targets = Array.from({ length: count }, (_, at) => ({ sequence: at + 1, sinks: ["lake"] }))
      while (targets.length > 0) {
        eventLoop.delivery()
        const { done, gone } = yield* journal.replay(targets)
        expect([done > 0, gone]).toEqual([true, []])
        targets = targets.slice(done)
      }
      expect(yield* journal.head).toBe(2 * count)
    })

    test("replays some megabytes at a time, at least one entry", function* (journal) {
      const large = new Uint8Array(9 * 1024 * 1024)
      for (const id of ["a", "b"]) yield* journal.append(event(id, { body: large }), ["lake"])
      let targets = [1, 2].map((sequence) => ({ sequence, sinks: ["lake"] }))
      while (targets.length > 0) {
        const { done, gone } = yield* journal.replay(targets)
        expect([done > 0, gone]).toEqual([true, []])
        targets = targets.slice(done)
      }
      expect(yield* journal.head).toBe(4)
    })
  })
}
