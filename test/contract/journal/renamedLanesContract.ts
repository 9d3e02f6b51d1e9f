/** Sinks that are renamed: the lane gets the new name with everything that it has, and nothing moves. */
import { describe, expect } from "bun:test"
import { Effect, Fiber } from "effect"
import { collect } from "../../../src/journal/EventQuery.ts"
import type { JournalError } from "../../../src/journal/JournalError.ts"
import { attempts, event, letter, retrying, settlement, waiting } from "../../journal/samples.ts"
import { it, type Steps } from "../../lib/effect.ts"
import { appendAll, type Create, lane, type Service, type Session, sessionsOf, testWith } from "./sessions.ts"

/** Opens a lane as a relay does whose config has sinks with these names. */
const open = (journal: Service, name: string, config: ReadonlyArray<string>, renamedFrom?: string) =>
  journal.openLane(name, { isConfigured: (one) => config.includes(one), renamedFrom })

const rename = (journal: Service, from: string, to: string) => open(journal, to, [to], from)

const summary = (journal: Service) =>
  Effect.map(journal.lanes, (lanes) => lanes.map(({ name, backlog, deadLetters }) => [name, backlog, deadLetters]))

const entriesOf = (journal: Service, name: string) =>
  Effect.map(journal.read(0, 100), (entries) =>
    entries.filter(({ sinks }) => sinks.includes(name)).map(({ sequence, event }) => [sequence, event.id]),
  )

/** A lane with one event in each state. */
const fill = Effect.fnUntraced(function* (journal: Service) {
  yield* journal.openLane("old")
  yield* appendAll(journal, ["delivered", "retrying", "dead", "dropped", "returned", "pending"], ["old"])
  yield* journal.settle([
    settlement("old", 5, {
      delivered: [{ from: 1, to: 1, at: 2_000, took: 7, code: 200 }],
      retry: [retrying(2, "k")],
      deadLetter: [letter(3), letter(4), letter(5)],
    }),
  ])
  yield* journal.dropDeadLetters(["old:4"])
  yield* journal.replayDeadLetters(["old:5"])
})

/** More than are moved at once. */
const many = 1_200

const backlogOfA = (journal: Service) => Effect.map(lane(journal, "a"), (found) => found?.backlog ?? 0)

/** Renames a sink to the name of another lane, and ends while events are being moved. */
const cutShort = Effect.fnUntraced(function* (journal: Service) {
  for (const name of ["a", "b", "c"]) yield* journal.openLane(name)
  yield* appendAll(journal, ["b"], ["b"])
  const ids = Array.from({ length: many }, (_, index) => `a${String(index).padStart(4, "0")}`)
  yield* Effect.forEach(ids, (id) => journal.append(event(id), ["a"]), { concurrency: "unbounded", discard: true })
  const move = yield* Effect.forkChild(open(journal, "b", ["b"], "a"), { startImmediately: true })
  while (move.pollUnsafe() === undefined && (yield* backlogOfA(journal)) === many) yield* Effect.yieldNow
  yield* Fiber.interrupt(move)
  // The journal in memory moves all events at once.
  if (journal.knowSinks !== undefined) expect(yield* backlogOfA(journal)).toBeWithin(1, many)
})

/** The lanes that the next config opens, and the expected backlogs if `rest` events were not moved yet. */
const afterCut: ReadonlyArray<
  readonly [
    next: string,
    opens: ReadonlyArray<readonly [name: string, config: ReadonlyArray<string>, renamedFrom?: string]>,
    expected: (rest: number) => Readonly<Record<string, number>>,
  ]
> = [
  ["as it is repeated", [["b", ["b"], "a"]], () => ({ b: many + 1, c: 0 })],
  ["if the sink is renamed again", [["d", ["d"], "b"]], () => ({ c: 0, d: many + 1 })],
  ["if the sink is renamed to the name of a third lane", [["c", ["c"], "b"]], () => ({ c: many + 1 })],
  ["if the config no longer says that it was renamed", [["b", ["b"]]], () => ({ b: many + 1, c: 0 })],
  [
    "unless a sink has the former name again",
    [
      ["b", ["a", "b"]],
      ["a", ["a", "b"]],
      ["b", ["b"]],
    ],
    (rest) => ({ a: rest, b: many + 1 - rest, c: 0 }),
  ],
]

export const renamedLanesContract = (name: string, create: Create): void => {
  const test = testWith(create)
  const testSessions = (title: string, body: (session: Session) => Steps<void, JournalError>): void =>
    it.live(title, () => body(sessionsOf(create())))

  describe(`${name}: a sink that is renamed`, () => {
    test("keeps its events in place and in order, also new ones", function* (journal) {
      yield* journal.openLane("other")
      yield* journal.openLane("old")
      yield* appendAll(journal, ["a", "b", "c"], ["old", "other"])
      yield* journal.settle([settlement("old", 1)])
      expect(yield* rename(journal, "old", "new")).toMatchObject({ name: "new", backlog: 2, oldest: 2 })
      yield* appendAll(journal, ["d"], ["other", "new"])
      expect((yield* journal.read(0, 9)).map(({ sequence, event, sinks }) => [sequence, event.id, sinks])).toEqual([
        [1, "a", ["new", "other"]],
        [2, "b", ["new", "other"]],
        [3, "c", ["new", "other"]],
        [4, "d", ["other", "new"]],
      ])
      expect(yield* summary(journal)).toEqual([
        ["new", 3, 0],
        ["other", 4, 0],
      ])
      expect((yield* rename(journal, "old", "new")).backlog).toBe(3)
      yield* journal.settle([settlement("new", 4)])
      expect(yield* lane(journal, "new")).toMatchObject({ backlog: 0, cursor: { sequence: 4 } })
    })

    test("stays paused, with the rule for the end of its pause", function* (journal) {
      yield* journal.openLane("old")
      const until = 1_800_000_000_000
      const mute = { from: 1, until, ending: "digest", by: "alice" } as const
      yield* journal.setPaused("old", until, mute)
      expect(yield* rename(journal, "old", "new")).toMatchObject({ paused: until, mute })
      expect(yield* lane(journal, "new")).toMatchObject({ paused: until, mute })
      yield* journal.endPause("new", until)
      expect((yield* lane(journal, "new"))?.paused).toBe(false)
    })

    test("keeps its retries and dead letters, which have the new name", function* (journal) {
      yield* fill(journal)
      expect(yield* rename(journal, "old", "new")).toMatchObject({ retries: [waiting(2, "k")], deadLetters: 1 })
      expect((yield* journal.readRetries("new", [2])).entries).toMatchObject([{ sequence: 2 }])
      expect(yield* journal.returned("new")).toMatchObject([{ sequence: 5 }])
      const letters = [{ id: "new:3", lane: "new", sequence: 3, attempts }]
      expect(yield* journal.deadLetters({ limit: 9 })).toMatchObject(letters)
      expect(yield* journal.deadLetters({ lane: "new", limit: 9 })).toMatchObject(letters)
      expect(yield* journal.deadLetters({ lane: "old", limit: 9 })).toEqual([])
      expect(yield* journal.deadLetters({ before: "new:3", limit: 9 })).toEqual([])
      expect(yield* journal.replayDeadLetters(["old:3"])).toBe(0)
      expect(yield* journal.replayDeadLetters(["new:3"])).toBe(1)
      expect(yield* lane(journal, "new")).toMatchObject({ returned: 2, deadLetters: 0 })
    })

    test("is found by its new name, with the earlier outcomes of its events", function* (journal) {
      yield* fill(journal)
      const outcomes = ["delivered", "retrying", "dead", "dropped", "retrying", "pending"]
      const told = (sink: string) =>
        Effect.map(collect({ sink, after: "", limit: 9 }, journal.events), ({ events }) =>
          events.flatMap(({ deliveries }) => deliveries.map(({ sink, outcome }) => `${sink} ${outcome}`)),
        )
      expect(yield* told("old")).toEqual(outcomes.map((outcome) => `old ${outcome}`))
      yield* rename(journal, "old", "new")
      expect(yield* told("old")).toEqual([])
      expect(yield* told("new")).toEqual(outcomes.map((outcome) => `new ${outcome}`))
      const [delivered] = (yield* collect({ sequence: 1, limit: 1 }, journal.events)).events
      expect(delivered?.deliveries).toMatchObject([{ sink: "new", took: 7, code: 200 }])
    })

    test("gets events that are still routed to its former name, until a new sink has that name", function* (journal) {
      yield* journal.openLane("old")
      yield* appendAll(journal, ["a"], ["old"])
      yield* rename(journal, "old", "new")
      yield* appendAll(journal, ["b"], ["old"])
      yield* appendAll(journal, ["c"], ["old", "new"])
      expect(yield* summary(journal)).toEqual([["new", 3, 0]])
      expect((yield* open(journal, "old", ["old", "new"])).backlog).toBe(0)
      yield* appendAll(journal, ["d"], ["old"])
      yield* appendAll(journal, ["e"], ["new", "old"])
      expect(yield* entriesOf(journal, "old")).toEqual([
        [4, "d"],
        [5, "e"],
      ])
      expect((yield* entriesOf(journal, "new")).map(([, id]) => id)).toEqual(["a", "b", "c", "e"])
      yield* journal.dropLane("new")
      expect(yield* summary(journal)).toEqual([["old", 2, 0]])
    })

    test("gets its former name back if no sink has the new one", function* (journal) {
      yield* journal.openLane("old")
      yield* appendAll(journal, ["a"], ["old"])
      yield* rename(journal, "old", "new")
      yield* appendAll(journal, ["b"], ["new"])
      expect((yield* open(journal, "old", ["old"])).backlog).toBe(2)
      expect(yield* summary(journal)).toEqual([["old", 2, 0]])
      expect(yield* entriesOf(journal, "old")).toEqual([
        [1, "a"],
        [2, "b"],
      ])
    })

    test("can be renamed again, and swap its name with another sink", function* (journal) {
      for (const sink of ["one", "two"]) {
        yield* journal.openLane(sink)
        yield* appendAll(journal, [`of ${sink}`], [sink])
      }
      for (const [from, to] of [
        ["one", "third"],
        ["two", "one"],
        ["third", "two"],
      ] as const) {
        yield* open(journal, to, [to], from)
      }
      yield* appendAll(journal, ["new one"], ["one"])
      yield* appendAll(journal, ["new two"], ["two"])
      expect(yield* summary(journal)).toEqual([
        ["one", 2, 0],
        ["two", 2, 0],
      ])
      expect((yield* entriesOf(journal, "one")).map(([, id]) => id)).toEqual(["of two", "new one"])
      expect((yield* entriesOf(journal, "two")).map(([, id]) => id)).toEqual(["of one", "new two"])
    })

    test("gets events that are routed to its new name just before", function* (journal) {
      // Skips the journal in memory, which appends the events again for a lane of the new name.
      if (journal.knowSinks === undefined) return
      yield* journal.openLane("old")
      yield* appendAll(journal, ["a"], ["old"])
      journal.knowSinks([{ name: "new", renamedFrom: "old" }])
      yield* appendAll(journal, ["b"], ["new"])
      yield* rename(journal, "old", "new")
      expect(yield* summary(journal)).toEqual([["new", 2, 0]])
      expect(yield* entriesOf(journal, "new")).toEqual([
        [1, "a"],
        [2, "b"],
      ])
    })

    test("gets no event again that was imported under its former name", function* (journal) {
      yield* journal.openLane("old")
      const imported = (sink: string) => ({
        ...{ sequence: 900, event: event("a"), replayed: false, pending: [sink] },
      })
      expect(yield* journal.import("other", [imported("old")])).toMatchObject({ pending: 1 })
      yield* rename(journal, "old", "new")
      expect(yield* journal.import("other", [imported("new")])).toMatchObject({ pending: 0, known: 1 })
      expect(yield* summary(journal)).toEqual([["new", 1, 0]])
    })

    test("can be moved to another sink, under its new name", function* (journal) {
      for (const sink of ["old", "target"]) yield* journal.openLane(sink)
      yield* appendAll(journal, ["a", "b"], ["old"])
      yield* journal.settle([settlement("old", 1, { deadLetter: [letter(1)] })])
      yield* rename(journal, "old", "new")
      yield* rename(journal, "target", "goal")
      const refusal = yield* Effect.match(journal.moveLane("old", "goal"), {
        onFailure: ({ message }) => message,
        onSuccess: () => "",
      })
      expect(refusal).toContain("There is no lane old in the journal")
      expect(yield* journal.moveLane("new", "goal")).toBe(2)
      const told = (sequence: number) =>
        Effect.map(collect({ sequence, limit: 1 }, journal.events), ({ events: [event] }) =>
          event?.deliveries.map(({ sink, outcome, to }) => [sink, outcome, to]),
        )
      expect(yield* told(1)).toEqual([
        ["new", "moved", "goal"],
        ["goal", "dead", undefined],
      ])
      expect(yield* told(2)).toEqual([["new", "moved", "goal"]])
      expect(yield* lane(journal, "goal")).toMatchObject({ backlog: 1, deadLetters: 1 })
    })

    test("loses no event that is appended or replayed during the rename", function* (journal) {
      yield* journal.openLane("old")
      const ids = Array.from({ length: 300 }, (_, index) => `evt_${index}`)
      const appending = yield* Effect.forkChild(
        Effect.forEach(ids, (id, index) => journal.append(event(id), [index < 150 ? "old" : "new"]), {
          concurrency: 20,
          discard: true,
        }),
        { startImmediately: true },
      )
      journal.knowSinks?.([{ name: "new", renamedFrom: "old" }])
      yield* rename(journal, "old", "new")
      yield* journal.append(event("last"), ["old"])
      yield* journal.replay([{ sequence: 1, sinks: ["old"] }])
      yield* Fiber.join(appending)
      expect((yield* journal.lanes).reduce((sum, { backlog }) => sum + backlog, 0)).toBe(302)
    })

    testSessions("has its name when the journal is opened again, and a new sink the former one", function* (session) {
      yield* session(function* (journal) {
        yield* fill(journal)
        yield* rename(journal, "old", "new")
        yield* open(journal, "old", ["old", "new"])
        yield* appendAll(journal, ["both"], ["old", "new"])
      })
      yield* session(function* (journal) {
        expect(yield* open(journal, "new", ["old", "new"], "gone")).toMatchObject({
          ...{ backlog: 4, deadLetters: 1, retries: [waiting(2, "k")] },
        })
        expect((yield* open(journal, "old", ["old", "new"])).backlog).toBe(1)
        yield* appendAll(journal, ["more"], ["old", "new"])
        expect(yield* summary(journal)).toEqual([
          ["new", 5, 1],
          ["old", 2, 0],
        ])
        expect((yield* journal.read(6, 9)).map(({ sinks }) => sinks)).toEqual([
          ["old", "new"],
          ["old", "new"],
        ])
      })
    })

    for (const [next, opens, expected] of afterCut) {
      testSessions(`to the name of another lane completes a move that was cut short, ${next}`, function* (session) {
        yield* session(cutShort)
        yield* session(function* (journal) {
          // An interrupted relay may not know of its last commit.
          const rest = yield* backlogOfA(journal)
          for (const [name, config, renamedFrom] of opens) yield* open(journal, name, config, renamedFrom)
          const lanes = yield* summary(journal)
          expect(Object.fromEntries(lanes.map(([lane, backlog]) => [lane, backlog]))).toEqual(expected(rest))
          const moved = (yield* journal.read(0, 3 * many)).filter(({ sinks }) =>
            sinks.includes(opens.at(-1)?.[0] ?? ""),
          )
          const ids = moved.map(({ event }) => event.id)
          expect(new Set(ids).size).toBe(ids.length)
          const ofA = ids.filter((id) => id.startsWith("a"))
          expect(ofA).toEqual(ofA.toSorted())
        })
      })
    }
  })
}
