/** Duplicates, altered events, and what could not be routed. */
import { describe, expect } from "bun:test"
import { Effect, Exit } from "effect"
import type { Entry } from "../../../src/event/Event.ts"
import { idempotencyKey } from "../../../src/event/IdempotencyKey.ts"
import { event, letter, retrying, settlement } from "../../journal/samples.ts"
import { type Create, testWith } from "./sessions.ts"

const utf8 = new TextEncoder()

export const duplicatesContract = (name: string, create: Create): void => {
  const test = testWith(create)

  describe(`${name}: duplicates`, () => {
    test("keeps the same webhook, id and bytes once", function* (journal) {
      expect(yield* journal.append(event("a"), ["lake"])).toBe("appended")
      expect(yield* journal.append(event("a", { receivedAt: 2_000 }), ["lake"])).toBe("duplicate")
      expect(yield* journal.head).toBe(1)
      expect((yield* journal.status).counters).toMatchObject({ appended: 1, duplicates: 1, altered: 0 })
    })

    test("answers a duplicate only when the event it repeats is kept", function* (journal) {
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
    })

    test("keeps the same id with other bytes, and counts it", function* (journal) {
      yield* journal.append(event("a"), ["lake"])
      expect(yield* journal.append(event("a", { body: utf8.encode("other") }), ["lake"])).toBe("appended")
      expect(yield* journal.append(event("a", { body: utf8.encode("other") }), ["lake"])).toBe("duplicate")
      expect((yield* journal.status).counters.altered).toBe(1)
    })

    test("marks the same id with other bytes permanently: the event keeps its own key everywhere", function* (journal) {
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
      const [returned] = (yield* journal.readRetries("new", [2])).entries
      expect(returned && idempotencyKey(returned)).toBe(keys[1] ?? "")
      yield* journal.replay([{ sequence: 2, sinks: ["new"] }])
      const [copy] = yield* journal.read(4, 10)
      expect(copy && idempotencyKey(copy)).toBe(`${keys[1]}:replay:5`)
    })

    test("keeps a delivery that couldn't be routed and now can; one that still can't is kept once", function* (journal) {
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
    })

    test("does not take events of two webhooks for one", function* (journal) {
      yield* journal.append(event("a"), ["lake"])
      expect(yield* journal.append(event("a", { webhook: "platform" }), ["lake"])).toBe("appended")
    })

    test("distinguish events without an id by their bytes", function* (journal) {
      const one = event("", { body: utf8.encode("not json") })
      const two = event("", { body: utf8.encode("not json either") })
      expect(yield* journal.append(one, ["_quarantine"])).toBe("appended")
      expect(yield* journal.append(two, ["_quarantine"])).toBe("appended")
      expect(yield* journal.append(one, ["_quarantine"])).toBe("duplicate")
    })
  })
}
