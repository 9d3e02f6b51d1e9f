/** The log: append, read, and waiting for more. */
import { describe, expect } from "bun:test"
import { Effect, Exit, Fiber } from "effect"
import { event } from "../../journal/samples.ts"
import { appendAll, type Create, testWith } from "./sessions.ts"

export const logContract = (name: string, create: Create): void => {
  const test = testWith(create)

  describe(`${name}: the log`, () => {
    test("gives back the bytes and facts of an event as they came", function* (journal) {
      const body = Uint8Array.from({ length: 300 }, (_, index) => index % 256)
      const odd = event('evt_"ü\u0000\n', { type: "", problem: "the body is not UTF-8", body })
      yield* journal.append(odd, ["lake", "audit"])
      const [entry] = yield* journal.read(0, 10)
      expect(entry).toEqual({ sequence: 1, event: odd, sinks: ["lake", "audit"], replayed: false })
    })

    test("numbers entries from one, without gaps, in the order they were appended", function* (journal) {
      yield* appendAll(journal, ["a", "b", "c"], ["lake"])
      const entries = yield* journal.read(0, 10)
      expect(entries.map((entry) => [entry.sequence, entry.event.id])).toEqual([
        [1, "a"],
        [2, "b"],
        [3, "c"],
      ])
      expect(yield* journal.head).toBe(3)
    })

    test("reads above a place, at most as many as asked for, and nothing at the head", function* (journal) {
      yield* appendAll(journal, ["a", "b", "c", "d"], ["lake"])
      expect((yield* journal.read(1, 2)).map((entry) => entry.sequence)).toEqual([2, 3])
      expect(yield* journal.read(4, 10)).toEqual([])
    })

    test("stores all concurrent appends", function* (journal) {
      const ids = Array.from({ length: 700 }, (_, index) => `evt_${index}`)
      const results = yield* Effect.forEach(ids, (id) => journal.append(event(id), ["lake"]), {
        concurrency: "unbounded",
      })
      expect(new Set(results)).toEqual(new Set(["appended"]))
      expect((yield* journal.read(0, 1000)).map((entry) => entry.event.id)).toEqual(ids)
    })

    test("gives the events of one commit the same promise, so that one timer serves all of them", function* (journal) {
      const results = ["a", "b", "c"].map((id) => journal.appendUnsafe(event(id), ["lake"]))
      // A journal in memory knows the exit immediately.
      expect(new Set(results.filter((result) => result instanceof Promise)).size).toBeLessThan(2)
      expect(yield* Effect.promise(async () => results[0])).toEqual(Exit.succeed("appended"))
    })

    test("wakes who waits for something new, and does not let wait who need not", function* (journal) {
      yield* appendAll(journal, ["a"], ["lake"])
      yield* journal.awaitBeyond(0)
      const waiting = yield* Effect.forkChild(Effect.andThen(journal.awaitBeyond(1), journal.head), {
        startImmediately: true,
      })
      yield* appendAll(journal, ["b"], ["lake"])
      expect(yield* Fiber.join(waiting)).toBe(2)
    })

    test("wakes a lane for its next event, and skips none", function* (journal) {
      yield* journal.openLane("lake")
      yield* journal.openLane("audit")
      const waiting = yield* Effect.forkChild(journal.awaitBeyond(0, "lake"), { startImmediately: true })
      yield* appendAll(journal, ["a", "b"], ["audit"])
      yield* appendAll(journal, ["c"], ["lake"])
      const through = yield* Fiber.join(waiting)
      const [first] = (yield* journal.read(through, 10)).filter(({ sinks }) => sinks.includes("lake"))
      expect(first?.event.id).toBe("c")
    })
  })
}
