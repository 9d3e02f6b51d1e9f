/** Lanes: cursors, backlogs, pauses and retries. */
import { describe, expect } from "bun:test"
import { Effect } from "effect"
import { event, letter, retrying, settlement, waiting } from "../../journal/samples.ts"
import { seeded } from "../../lib/seeded.ts"
import { appendAll, type Create, lane, testWith } from "./sessions.ts"

export const lanesContract = (name: string, create: Create): void => {
  const test = testWith(create)

  describe(`${name}: lanes`, () => {
    test("opens a new lane at the head, and a known lane at its cursor", function* (journal) {
      yield* appendAll(journal, ["a"], [])
      expect((yield* journal.openLane("lake")).cursor).toEqual({ sequence: 1, settled: [] })
      yield* appendAll(journal, ["b", "c", "d"], ["lake"])
      yield* journal.settle([settlement("lake", 2, { cursor: { sequence: 2, settled: [[4, 4]] } })])
      const state = yield* journal.openLane("lake")
      expect(state.cursor).toEqual({ sequence: 2, settled: [[4, 4]] })
      expect(state.backlog).toBe(1)
    })

    test("keeps the events that are routed to a closed lane", function* (journal) {
      yield* appendAll(journal, ["a", "b"], ["late"])
      const state = yield* journal.openLane("late")
      expect(state.cursor.sequence).toBe(0)
      expect(state.backlog).toBe(2)
    })

    test("counts in a lane's backlog the events that are routed to it and not settled", function* (journal) {
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
    })

    test("never moves a cursor back", function* (journal) {
      yield* journal.openLane("lake")
      yield* appendAll(journal, ["a", "b", "c"], ["lake"])
      yield* journal.settle([settlement("lake", 3)])
      yield* journal.settle([settlement("lake", 1)])
      expect((yield* lane(journal, "lake"))?.cursor.sequence).toBe(3)
    })

    test("refuses the whole of a settlement that can't be stored, and stores the settlements of other lanes", function* (journal) {
      for (const name of ["audit", "chat", "lake"]) yield* journal.openLane(name)
      yield* appendAll(journal, ["a", "b", "c"], ["lake", "chat", "audit"])
      const poisoned = (due: number) =>
        settlement("chat", 3, {
          deadLetter: [letter(1)],
          retry: [retrying(2), { ...retrying(3), due }],
        })
      const others = [settlement("audit", 2), settlement("lake", 3, { retry: [retrying(1)] })] as const
      const refused = yield* journal.settle([others[0], poisoned(0.5), others[1]])
      expect(refused.map(({ lane, error }) => [lane, error.message])).toEqual([
        ["chat", "The lane chat settled a number that is not an integer."],
      ])
      const backlogs = Effect.map(journal.lanes, (lanes) =>
        lanes.map(({ name, cursor, backlog, retrying, deadLetters }) => [
          ...[name, cursor.sequence, backlog, retrying, deadLetters],
        ]),
      )
      expect(yield* backlogs).toEqual([
        ["audit", 2, 1, 0, 0],
        ["chat", 0, 3, 0, 0],
        ["lake", 3, 1, 1, 0],
      ])
      expect(yield* journal.settle([poisoned(1)])).toEqual([])
      expect((yield* backlogs)[1]).toEqual(["chat", 3, 2, 2, 1])
      expect((yield* journal.readRetries("chat", [2, 3])).entries.map(({ sequence }) => sequence)).toEqual([2, 3])
    })

    test("refuses appends of a webhook that keeps as many bytes as it leaves free, and of no other", function* (journal) {
      const large = (id: string) => event(id, { body: new Uint8Array(10_000) })
      yield* journal.openLane("lake")
      yield* journal.openLane("audit")
      yield* journal.limitBacklog("lake", undefined, 30_000)
      for (const id of ["a", "b"]) yield* journal.append(large(id), ["lake"])
      const refuse = Effect.orDie(Effect.flip(journal.append(large("c"), ["lake"])))
      expect((yield* refuse).reason).toMatchObject({ _tag: "JournalFull", cause: "backlog" })
      expect(yield* journal.append(event("d"), ["audit"])).toBe("appended")
      const other = { ...large("e"), webhook: "other", body: new Uint8Array(100) }
      expect(yield* journal.append(other, ["lake"])).toBe("appended")
      yield* journal.settle([settlement("lake", 2, { deadLetter: [letter(1), letter(2)] })])
      // A journal on a server counts them only now and then.
      yield* journal.lanes
      expect((yield* refuse).message).toContain("webhook")
      yield* journal.dropDeadLetters(["lake:1"])
      yield* journal.lanes
      expect(yield* journal.append(large("c"), ["lake"])).toBe("appended")
    })

    test("refuses appends for a lane whose backlog is at its limit, and takes them again after", function* (journal) {
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
    })

    test("remembers that a person paused a lane", function* (journal) {
      yield* journal.openLane("lake")
      yield* journal.setPaused("lake", true)
      expect((yield* journal.openLane("lake")).paused).toBe(true)
      yield* journal.setPaused("lake", false)
      expect((yield* journal.openLane("lake")).paused).toBe(false)
    })

    test("remembers when a pause ends, and ends it unless a person has changed it since", function* (journal) {
      const paused = Effect.map(lane(journal, "lake"), (info) => info?.paused)
      yield* journal.openLane("lake")
      yield* journal.setPaused("lake", 1_800_000_000_000)
      expect(yield* paused).toBe(1_800_000_000_000)
      yield* journal.setPaused("lake", 1_800_000_000_001)
      yield* journal.endPause("lake", 1_800_000_000_000)
      expect(yield* paused).toBe(1_800_000_000_001)
      yield* journal.endPause("lake", 1_800_000_000_001)
      expect(yield* paused).toBe(false)
      yield* journal.setPaused("lake", true)
      yield* journal.endPause("lake", 1_800_000_000_001)
      expect((yield* journal.openLane("lake")).paused).toBe(true)
    })

    test("remembers the rule for events received during a pause, also after its end, until a person changes it", function* (journal) {
      const until = 1_800_000_000_000
      const mute = { from: until - 1_000, until, ending: "drop", by: "alice" } as const
      const pause = Effect.map(lane(journal, "lake"), (info) => [info?.paused, info?.mute])
      yield* journal.openLane("lake")
      yield* journal.setPaused("lake", until, mute)
      expect(yield* pause).toEqual([until, mute])
      yield* journal.endPause("lake", until)
      expect(yield* pause).toEqual([false, mute])
      expect((yield* journal.openLane("lake")).mute).toEqual(mute)
      yield* journal.setPaused("lake", false)
      expect(yield* pause).toEqual([false, undefined])
    })

    test("keeps retries with their bytes, changes them, and removes them", function* (journal) {
      yield* journal.openLane("lake")
      yield* appendAll(journal, ["a", "b", "c"], ["lake"])
      yield* journal.settle([settlement("lake", 3, { retry: [retrying(1, "k"), retrying(3)] })])
      const read = yield* journal.readRetries("lake", [3, 1, 2])
      expect(read.entries.map((entry) => entry.event.id)).toEqual(["c", "a"])
      expect((yield* journal.openLane("lake")).retries).toEqual([waiting(1, "k"), waiting(3)])
      expect(yield* lane(journal, "lake")).toMatchObject({ retrying: 2, backlog: 2 })
      yield* journal.settle([settlement("lake", 3, { retry: [{ ...retrying(1), due: 9_000 }], endRetry: [3] })])
      const state = yield* journal.openLane("lake")
      expect(state).toMatchObject({ retries: [{ ...waiting(1), due: 9_000, attempts: 2 }], retrying: 1, backlog: 1 })
    })

    test("keeps of an event's attempts the first and the newest, however often it was tried", function* (journal) {
      yield* journal.openLane("lake")
      yield* appendAll(journal, ["a"], ["lake"])
      for (let tried = 1; tried <= 30; tried++) {
        const failed = [{ at: tried, reason: "DeliveryFailed", message: `attempt ${tried}`, number: tried }]
        yield* journal.settle([settlement("lake", 1, { retry: [{ ...retrying(1), tried, failed }] })])
      }
      expect((yield* journal.openLane("lake")).retries).toEqual([{ ...waiting(1), tried: 30, attempts: 30 }])
      yield* journal.settle([settlement("lake", 1, { deadLetter: [letter(1)] })])
      const [dead] = yield* journal.deadLetters({ limit: 1 })
      expect(dead?.attempts.map(({ at }) => at)).toEqual([1, 23, 24, 25, 26, 27, 28, 29, 30, 5])
    })
  })
}
