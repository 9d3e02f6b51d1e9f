/** Imports of another journal's undelivered events. */
import { describe, expect } from "bun:test"
import { idempotencyKey } from "../../../src/event/IdempotencyKey.ts"
import { attempts, event } from "../../journal/samples.ts"
import { type Create, lane, testWith } from "./sessions.ts"

export const importContract = (name: string, create: Create): void => {
  const test = testWith(create)

  describe(`${name}: import`, () => {
    const undelivered = (sequence: number, id: string, pending: ReadonlyArray<string>) => ({
      sequence,
      event: event(id),
      replayed: false,
      pending,
    })

    test("appends for just the lanes that an event waits for, dead letters as such, each once per lane", function* (journal) {
      for (const name of ["lake", "audit"]) yield* journal.openLane(name)
      yield* journal.append(event("before"), ["lake", "audit"])
      const dead = { at: 7, attempts }
      const all = [
        undelivered(900, "a", ["lake"]),
        undelivered(901, "b", ["lake", "audit"]),
        { ...undelivered(902, "c", ["audit"]), dead },
        undelivered(902, "c", ["lake"]),
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
      // Imports the same again, and then one event for another lane as well.
      expect(yield* journal.import("other", all)).toEqual({ pending: 0, deadLetters: 0, known: 5 })
      expect(yield* journal.import("other", [undelivered(900, "a", ["lake", "audit"])])).toMatchObject({
        pending: 1,
        known: 1,
      })
      expect(yield* journal.import("third", [undelivered(900, "d", ["lake"])])).toMatchObject({
        pending: 1,
        known: 0,
      })
      expect(yield* journal.replayDeadLetters(["audit:4"])).toBe(1)
    })

    test("leaves out events that the sender has sent again since, except replays", function* (journal) {
      yield* journal.openLane("lake")
      yield* journal.append(event("a"), ["lake"])
      const again = [undelivered(1, "a", ["lake"]), { ...undelivered(2, "a", ["lake"]), replayed: true }]
      expect(yield* journal.import("other", again)).toEqual({ pending: 1, deadLetters: 0, known: 1 })
      expect((yield* journal.status).counters.altered).toBe(0)
    })

    test("accepts many events at the same time", function* (journal) {
      yield* journal.openLane("lake")
      const many = Array.from({ length: 1_000 }, (_, index) => undelivered(index + 1, `evt_${index}`, ["lake"]))
      expect(yield* journal.import("other", many)).toEqual({ pending: 1_000, deadLetters: 0, known: 0 })
      expect((yield* lane(journal, "lake"))?.backlog).toBe(1_000)
      expect(yield* journal.import("other", many)).toEqual({ pending: 0, deadLetters: 0, known: 1_000 })
    })
  })
}
