/** Lanes that are dropped, or moved to another lane. */
import { describe, expect } from "bun:test"
import { Effect, Fiber } from "effect"
import { idempotencyKey } from "../../../src/event/IdempotencyKey.ts"
import { collect } from "../../../src/journal/EventQuery.ts"
import { event, letter, retrying, settlement, waiting } from "../../journal/samples.ts"
import { appendAll, type Create, lane, type Service, testWith } from "./sessions.ts"

/** More than are moved at once. */
const many = 1_500

/** Fills a lane with pending events and two dead letters. */
const fill = Effect.fnUntraced(function* (journal: Service, name: string) {
  yield* Effect.forEach(
    Array.from({ length: many }, (_, at) => `evt_${at}`),
    (id) => journal.append(event(id), [name]),
    {
      concurrency: "unbounded",
      discard: true,
    },
  )
  yield* journal.settle([settlement(name, 2, { delivered: [], deadLetter: [letter(1), letter(2)] })])
})

/** How many events and dead letters all lanes hold. */
const held = (journal: Service) =>
  Effect.map(journal.lanes, (lanes) => lanes.reduce((sum, { backlog, deadLetters }) => sum + backlog + deadLetters, 0))

export const movedLanesContract = (name: string, create: Create): void => {
  const test = testWith(create)

  describe(`${name}: lanes that move`, () => {
    test("ignores the progress of a lane that was dropped", function* (journal) {
      yield* journal.openLane("lake")
      yield* appendAll(journal, ["a", "b"], ["lake"])
      expect(yield* journal.dropLane("lake")).toBe(2)
      yield* journal.settle([settlement("lake", 2)])
      expect(yield* journal.lanes).toEqual([])
    })

    test("hands everything pending of a lane to another, in order", function* (journal) {
      // The lane of a removed sink was open before.
      for (const name of ["old", "new"]) yield* journal.openLane(name)
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
    })

    test("has a retry's outcome at the other lane, also if its first attempt there delivered it", (journal) =>
      Effect.gen(function* () {
        for (const name of ["old", "new"]) yield* journal.openLane(name)
        yield* appendAll(journal, ["a"], ["old"])
        yield* journal.settle([settlement("old", 1, { delivered: [], retry: [retrying(1)] })])
        yield* journal.moveLane("old", "new")
        const ended = { cursor: { sequence: 1, settled: [] }, retry: [], deadLetter: [], endRetry: [1] }
        const delivered = [{ from: 1, to: 1, at: 2_000, took: 7 }]
        yield* journal.settle([settlement("new", 1, { ...ended, delivered })])
        const [found] = (yield* collect({ sequence: 1, limit: 1 }, journal.events)).events
        expect(found?.deliveries).toMatchObject([
          { sink: "old", outcome: "moved", to: "new" },
          { sink: "new", outcome: "delivered", at: 2_000, took: 7 },
        ])
      }))

    test("loses no dead letter that is replayed into a lane while that is moved", function* (journal) {
      yield* journal.openLane("new")
      yield* fill(journal, "old")
      const move = yield* Effect.forkChild(journal.moveLane("old", "new"), { startImmediately: true })
      yield* Effect.yieldNow
      // The replay may be refused, because the dead letters have changed lanes by then.
      yield* Effect.result(journal.replayDeadLetters(["old:1", "old:2"]))
      yield* Fiber.join(move)
      expect(yield* held(journal)).toBe(many)
    })

    test("loses no event that reaches a lane while its events are moved", function* (journal) {
      for (const name of ["old", "new"]) yield* journal.openLane(name)
      yield* fill(journal, "old")
      const move = yield* Effect.forkChild(journal.moveLane("old", "new"), { startImmediately: true })
      let late = 0
      while (move.pollUnsafe() === undefined && late < 100) {
        yield* journal.append(event(`late_${late++}`), ["old"])
        yield* Effect.yieldNow
      }
      yield* Fiber.join(move)
      expect(yield* held(journal)).toBe(many + late)
    })

    test("counts the events that reach a lane while it is dropped", function* (journal) {
      yield* journal.openLane("lake")
      yield* fill(journal, "lake")
      const drop = yield* Effect.forkChild(journal.dropLane("lake"), { startImmediately: true })
      let late = 0
      while (drop.pollUnsafe() === undefined) {
        yield* journal.append(event(`late_${late++}`), ["lake"])
        yield* Effect.yieldNow
      }
      expect((yield* Fiber.join(drop)) + (yield* held(journal))).toBe(many + late)
    })

    test("leaves no retry of a dead letter that is replayed while its lane is dropped", function* (journal) {
      yield* journal.openLane("lake")
      yield* fill(journal, "lake")
      const letters = Array.from({ length: many }, (_, at) => letter(at + 1))
      yield* journal.settle([settlement("lake", many, { delivered: [], deadLetter: letters })])
      const drop = yield* Effect.forkChild(journal.dropLane("lake"), { startImmediately: true })
      yield* Effect.yieldNow
      // It may be refused or find nothing, because the lane is gone by then.
      yield* Effect.result(journal.replayDeadLetters([`lake:${many}`]))
      yield* Fiber.join(drop)
      yield* journal.openLane("lake")
      expect(yield* journal.returned("lake")).toEqual([])
      expect(yield* journal.deadLetters({ limit: 1 })).toEqual([])
    })

    test("keeps the idempotency key of a replay that moves, and gives a replay of it another", function* (journal) {
      for (const name of ["new", "newest"]) yield* journal.openLane(name)
      yield* appendAll(journal, ["a"], ["old"])
      yield* journal.replay([{ sequence: 1, sinks: ["old"] }])
      const keys = (sink: string, from: number) =>
        Effect.map(journal.read(from, 10), (entries) =>
          entries.filter(({ sinks }) => sinks.includes(sink)).map(idempotencyKey),
        )
      const own = yield* keys("old", 0)
      expect(new Set(own).size).toBe(2)
      yield* journal.moveLane("old", "new")
      expect(yield* keys("new", 0)).toEqual(own)
      yield* journal.moveLane("new", "newest")
      expect(yield* keys("newest", 0)).toEqual(own)
      const head = yield* journal.head
      yield* journal.replay([{ sequence: head, sinks: ["newest"] }])
      const [again] = yield* keys("newest", head)
      expect([own.includes(again ?? ""), again?.endsWith(`:replay:${head + 1}`)]).toEqual([false, true])
    })

    test("moves the events of a renamed sink if its new name is a lane already", function* (journal) {
      yield* journal.openLane("new")
      yield* appendAll(journal, ["a", "b"], ["new"])
      yield* journal.settle([settlement("new", 1)])
      yield* appendAll(journal, ["c", "d"], ["old"])
      yield* journal.settle([settlement("old", 2, { deadLetter: [letter(3)], cursor: { sequence: 3, settled: [] } })])
      expect(yield* journal.openLane("new", { renamedFrom: "old" })).toMatchObject({ backlog: 2, deadLetters: 1 })
      expect((yield* journal.lanes).map((lane) => lane.name)).toEqual(["new"])
      expect((yield* journal.read(1, 9)).filter(({ sinks }) => sinks.includes("new")).map((e) => e.event.id)).toEqual([
        "b",
        "d",
      ])
    })
  })
}
