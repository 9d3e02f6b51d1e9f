/** Erasing events. */
import { describe, expect } from "bun:test"
import { Effect } from "effect"
import { withoutAnswers } from "../../../src/journal/archive/Erasure.ts"
import type { FoundEvent } from "../../../src/journal/EventQuery.ts"
import { encode } from "../../../src/journal/stream/Record.ts"
import { allEvents, allThatIsRead, play } from "../../journal/histories.ts"
import { markersOf } from "../../journal/markers.ts"
import { answer, event, letter, retrying, settlement } from "../../journal/samples.ts"
import { it } from "../../lib/effect.ts"
import { sample } from "../../lib/tries.ts"
import { appendAll, type Create, lane, type Service, sessionsOf, testWith } from "./sessions.ts"

const isWaiting = ({ deliveries }: FoundEvent): boolean =>
  deliveries.some(({ outcome }) => outcome === "pending" || outcome === "retrying")

/** Returns the expected report of an event after its erasure. */
const erasedOf = ({ event, deliveries, ...found }: FoundEvent): FoundEvent => {
  const { trace: _, problem, ...facts } = event
  const words = problem === undefined ? {} : { problem: "it was erased" }
  return {
    ...found,
    body: new Uint8Array(),
    event: { ...facts, ...words, signature: "", erased: { at: expect.any(Number), key: expect.any(Array) } },
    deliveries: deliveries.map((one) => ({ ...one, attempts: withoutAnswers(one.attempts) })),
  }
}

/** The lanes without the bytes of their dead letters, which an erasure reduces. */
const lanesOf = (journal: Service) =>
  Effect.map(journal.lanes, (lanes) => lanes.map(({ deadLetterBytes: _, ...lane }) => lane))

/** Tests a journal: `name` is in the titles. */
export const erasureContract = (name: string, create: Create): void => {
  const test = testWith(create)

  describe(`${name}: erasing events`, () => {
    for (const seed of sample([1, 2, 3, 4])) {
      it.live(`leaves nothing to read of them, and everything else unchanged (history ${seed})`, function* () {
        const session = sessionsOf(create())
        const look = yield* session(function* (journal) {
          yield* play(journal, seed, 60)
          const before = yield* allEvents(journal)
          const lanes = yield* lanesOf(journal)
          const wanted = before.filter(({ event }) => event.accountId === "anna")
          const isErased = (one: FoundEvent) => wanted.includes(one) && !isWaiting(one)
          const sequences = (some: ReadonlyArray<FoundEvent>) => some.map(({ sequence }) => sequence)
          const { erased, undelivered } = yield* journal.erase(sequences(wanted), false)
          expect(erased).toEqual(sequences(wanted.filter(isErased)))
          expect(undelivered.map(({ sequence }) => sequence)).toEqual(sequences(wanted.filter(isWaiting)))
          const expected = before.map((one) => (isErased(one) ? erasedOf(one) : one))
          // A pending copy has the same body.
          const left = new Set(before.filter((one) => !isErased(one)).map(({ event }) => event.id))
          const gone = wanted.map(({ event }) => event.id).filter((id) => !left.has(id))
          expect(gone.length).toBeGreaterThan(0)
          const look = Effect.fnUntraced(function* (journal: Service) {
            expect(yield* allEvents(journal)).toEqual(expected)
            expect(yield* lanesOf(journal)).toEqual(lanes)
            const read = yield* allThatIsRead(journal)
            expect(gone.filter((id) => markersOf(id).some((marker) => read.includes(marker)))).toEqual([])
          })
          // Checks the state in memory. The next session checks the state that a start reads from disk.
          yield* look(journal)
          return look
        })
        yield* session(look)
      })
    }

    test("keeps the redelivery of an erased event a duplicate, also one without an id", function* (journal) {
      const nameless = event("", { body: new TextEncoder().encode("nobody") })
      yield* journal.append(event("a"), [])
      yield* journal.append(nameless, [])
      expect(yield* journal.erase([1, 2], false)).toEqual({ erased: [1, 2], undelivered: [] })
      expect(yield* journal.append(event("a"), [])).toBe("duplicate")
      expect(yield* journal.append(nameless, [])).toBe("duplicate")
      expect(yield* journal.append(event("b"), [])).toBe("appended")
    })

    test("refuses events that a lane has not delivered yet, and names them", function* (journal) {
      yield* journal.openLane("lake")
      yield* appendAll(journal, ["a", "b", "c"], ["lake"])
      yield* journal.settle([settlement("lake", 2, { retry: [retrying(2)] })])
      expect(yield* journal.erase([1, 2, 3, 99], false)).toEqual({
        erased: [1],
        undelivered: [
          { sequence: 2, lanes: ["lake"] },
          { sequence: 3, lanes: ["lake"] },
        ],
      })
      expect(yield* lane(journal, "lake")).toMatchObject({ backlog: 2, retrying: 1 })
      expect((yield* journal.readRetries("lake", [2])).entries[0]?.event).toEqual(event("b"))
    })

    test("gives up events that a lane has not delivered yet if requested", function* (journal) {
      yield* journal.openLane("lake")
      yield* appendAll(journal, ["a", "b", "c", "d"], ["lake"])
      yield* journal.settle([settlement("lake", 2, { retry: [retrying(2)] })])
      expect(yield* journal.erase([2, 4], true)).toEqual({ erased: [2, 4], undelivered: [] })
      expect(yield* lane(journal, "lake")).toMatchObject({ backlog: 1, retrying: 0, oldest: 3 })
      const told = (yield* allEvents(journal)).map(({ deliveries }) => deliveries[0]?.outcome)
      expect(told).toEqual(["delivered", "dropped", "pending", "dropped"])
      const entries = yield* journal.read(2, 10)
      expect(entries.flatMap(({ event, sinks }) => (sinks.length === 0 ? [] : [event.id]))).toEqual(["c"])
      yield* journal.settle([settlement("lake", 4, { delivered: [{ from: 3, to: 3, at: 5, took: 1 }] })])
      expect(yield* lane(journal, "lake")).toMatchObject({ backlog: 0 })
    })

    test("leaves an erased dead letter in its lane, and never sends it again", function* (journal) {
      yield* journal.openLane("lake")
      yield* journal.append(event("a"), ["lake"])
      yield* journal.settle([settlement("lake", 1, { deadLetter: [letter(1)] })])
      yield* journal.erase([1], false)
      const [found] = yield* journal.deadLetters({ limit: 9 })
      expect(found?.entry.event).toMatchObject({ id: "a", signature: "", erased: { at: expect.any(Number) } })
      expect(found?.attempts.map(({ answer, message }) => [answer, message])).toEqual([
        [undefined, "the sink answered 500"],
      ])
      expect(yield* journal.replayDeadLetters(["lake:1"])).toBe(0)
      expect(yield* journal.replay([{ sequence: 1, sinks: ["lake"] }])).toEqual({ done: 1, gone: [1] })
      expect(yield* journal.head).toBe(1)
      expect(yield* journal.dropDeadLetters(["lake:1"])).toBe(1)
    })

    test("counts the bytes of a dead letter with its attempts, and fewer once it is erased", function* (journal) {
      yield* journal.openLane("lake")
      yield* journal.append(event("a"), ["lake"])
      yield* journal.settle([settlement("lake", 1, { deadLetter: [letter(1)] })])
      const bytes = Effect.map(lane(journal, "lake"), (lane) => lane?.deadLetterBytes ?? 0)
      const stored = Effect.map(journal.deadLetters({ limit: 9 }), (letters) =>
        letters.map(({ entry, attempts }) => encode(entry).length + Buffer.byteLength(JSON.stringify(attempts))),
      )
      const before = yield* bytes
      expect(yield* stored).toEqual([before])
      yield* journal.erase([1], false)
      const after = yield* bytes
      expect(yield* stored).toEqual([after])
      expect(after).toBeLessThan(before - answer.length)
    })

    test("does nothing the second time, and takes the date of the first", function* (journal) {
      yield* journal.append(event("a"), [])
      yield* journal.erase([1], false)
      const first = (yield* allEvents(journal))[0]?.event.erased
      expect(first).toBeDefined()
      expect(yield* journal.erase([1], true)).toEqual({ erased: [], undelivered: [] })
      expect((yield* allEvents(journal))[0]?.event.erased).toEqual(first ?? { at: 0, key: [0, 0, 0] })
    })

    test("makes the storage overwrite the old bytes, and names the copies that it can't reach", function* (journal) {
      yield* journal.append(event("a"), [])
      yield* journal.erase([1], false)
      expect((yield* journal.scrub).every((place) => place !== "")).toBe(true)
    })
  })
}
