/** The state of a journal after it was closed and opened again. */
import { describe, expect } from "bun:test"
import { Effect } from "effect"
import type { JournalError } from "../../../src/journal/JournalError.ts"
import { event, healthOf, letter, retrying, settlement, waiting } from "../../journal/samples.ts"
import { it, type Steps } from "../../lib/effect.ts"
import { appendAll, type Create, lane, type Service, type Session, sessionsOf } from "./sessions.ts"

const ids = (count: number, prefix = "evt"): ReadonlyArray<string> =>
  Array.from({ length: count }, (_, index) => `${prefix}_${index}`)

export const durabilityContract = (name: string, create: Create): void => {
  const test = (title: string, body: (session: Session) => Steps<void, JournalError>): void =>
    it.live(title, () => body(sessionsOf(create())))

  const mute = { from: 1, until: 1_800_000_000_000, ending: "drop", by: "alice" } as const

  describe(`${name}: opened again`, () => {
    test("has the log, the lanes, retries and dead letters as they were", function* (session) {
      const before = yield* session(function* (journal) {
        yield* journal.openLane("lake")
        yield* appendAll(journal, ids(200), ["lake"])
        yield* appendAll(journal, ids(5, "other"), ["audit"])
        yield* journal.settle([
          settlement("lake", 20, {
            cursor: { sequence: 20, settled: [[25, 30]] },
            retry: [retrying(3, "k")],
            deadLetter: [letter(4)],
          }),
        ])
        yield* journal.setPaused("lake", 1_800_000_000_000, mute)
        return { lanes: yield* journal.lanes, log: yield* journal.read(0, 1000) }
      })
      yield* session(function* (journal) {
        expect(yield* journal.lanes).toEqual(before.lanes)
        expect(yield* journal.read(0, 1000)).toEqual(before.log)
        expect((yield* journal.deadLetters({ limit: 9 })).map((letter) => letter.entry)).toEqual(before.log.slice(3, 4))
        expect((yield* journal.readRetries("lake", [3])).entries).toEqual(before.log.slice(2, 3))
        expect((yield* journal.lanes).map((lane) => lane.backlog)).toEqual([5, 175])
        expect(yield* journal.openLane("lake")).toMatchObject({
          paused: 1_800_000_000_000,
          mute,
          retries: [waiting(3, "k")],
        })
        expect(yield* healthOf(journal)).toBe("ok")
      })
    })

    test("has the counts of the last hour that it was given last", function* (session) {
      yield* session(function* ({ hour }) {
        expect(yield* hour.read).toBeUndefined()
        yield* hour.replace("1 received")
        yield* hour.replace("2 received")
      })
      yield* session(({ hour }) => Effect.map(hour.read, (text) => expect(text).toBe("2 received")))
    })

    test("continues the log at its end", function* (session) {
      yield* session((journal) => appendAll(journal, ["a", "b"], ["lake"]))
      yield* session(function* (journal) {
        expect(yield* journal.head).toBe(2)
        yield* appendAll(journal, ["c"], ["lake"])
        expect((yield* journal.read(0, 9)).map(({ event }) => event.id)).toEqual(["a", "b", "c"])
      })
    })

    test("still recognizes duplicates, and events with the same id and other bytes", function* (session) {
      const now = Date.now()
      const one = event("a", { receivedAt: now })
      const other = { ...one, body: new TextEncoder().encode("other") }
      yield* session((journal) => journal.append(one, ["lake"]))
      yield* session(function* (journal) {
        expect(yield* journal.append(one, ["lake"])).toBe("duplicate")
        expect(yield* journal.append(other, ["lake"])).toBe("appended")
        expect((yield* journal.read(1, 9)).map(({ event }) => event.altered)).toEqual([true])
      })
      yield* session((journal) =>
        Effect.map(journal.append(other, ["lake"]), (appended) => expect(appended).toBe("duplicate")),
      )
    })

    test("does not take a replayed event for a delivery", function* (session) {
      yield* session(function* (journal) {
        yield* journal.append(event("a", { receivedAt: Date.now() }), ["lake"])
        yield* journal.replay([{ sequence: 1, sinks: ["lake"] }])
      })
      yield* session(function* (journal) {
        expect((yield* journal.read(0, 9)).map((entry) => entry.replayed)).toEqual([false, true])
        expect(yield* journal.append(event("b", { receivedAt: Date.now() }), ["lake"])).toBe("appended")
      })
    })

    test("has forgotten the retries and dead letters that ended", function* (session) {
      yield* session(function* (journal) {
        yield* journal.openLane("lake")
        yield* appendAll(journal, ids(4), ["lake"])
        yield* journal.settle([
          settlement("lake", 4, { retry: [retrying(1), retrying(2)], deadLetter: [letter(3), letter(4)] }),
        ])
      })
      yield* session(function* (journal) {
        yield* journal.settle([settlement("lake", 4, { endRetry: [1], deadLetter: [letter(2)] })])
        yield* journal.dropDeadLetters(["lake:3"])
        expect(yield* journal.replayDeadLetters(["lake:4"])).toBe(1)
      })
      yield* session(function* (journal) {
        expect((yield* journal.openLane("lake")).retries).toEqual([])
        expect((yield* journal.deadLetters({ limit: 9 })).map(({ id }) => id)).toEqual(["lake:2"])
        const counts = { returned: 1, retrying: 0, deadLetters: 1, backlog: 1 }
        expect(yield* lane(journal, "lake")).toMatchObject(counts)
        expect(yield* journal.returned("lake")).toEqual([{ sequence: 4, attempts: 1 }])
      })
    })

    test("has the states of alerts with the events that they count, also after a rename and not after a drop", function* (session) {
      const key = "type/acct\u0000_1"
      const alertsOf = (journal: Service, lane: string) =>
        Effect.map(journal.openLane(lane), ({ alerts }) => alerts ?? [])
      yield* session(function* (journal) {
        yield* journal.openLane("old")
        yield* journal.openLane("lake")
        yield* appendAll(journal, ids(2), ["old", "lake"])
        const counted = [{ sequence: 2, at: 2_000, alert: 1 }]
        const alerts = ["one", "other"].map((state) => ({ key: `${key} ${state}`, state }))
        yield* journal.settle([settlement("old", 2, { counted, alerts }), settlement("lake", 2, { alerts })])
        const gone = [
          { key: `${key} other`, state: undefined },
          { key: `${key} one`, state: "newer" },
        ]
        yield* journal.settle([settlement("old", 2, { delivered: [], alerts: gone })])
      })
      yield* session(function* (journal) {
        expect(yield* alertsOf(journal, "old")).toEqual([{ key: `${key} one`, state: "newer" }])
        const [found] = (yield* journal.events({ sequence: 2, limit: 1 })).events
        const status = { sink: "old", outcome: "counted", at: 2_000, alert: 1, attempts: [] } as const
        expect(found?.deliveries).toContainEqual(status)
        const counted = (yield* journal.events({ outcome: "counted", limit: 9 })).events
        expect(counted.map(({ sequence }) => sequence)).toEqual([2])
        for (const [alert, found] of [
          [1, [2]],
          [2, []],
        ] as const) {
          const { events } = yield* journal.events({ sink: "old", alert, limit: 9 })
          expect(events.map(({ sequence }) => sequence)).toEqual([...found])
        }
        yield* journal.openLane("new", { renamedFrom: "old" })
        yield* journal.dropLane("lake")
      })
      yield* session(function* (journal) {
        expect(yield* alertsOf(journal, "new")).toEqual([{ key: `${key} one`, state: "newer" }])
        expect(yield* alertsOf(journal, "lake")).toEqual([])
        expect(yield* alertsOf(journal, "old")).toEqual([])
      })
    })

    test("still has a lane that moved, and not the one that was dropped", function* (session) {
      yield* session(function* (journal) {
        yield* appendAll(journal, ["a", "b"], ["old", "away"])
        yield* journal.settle([settlement("old", 1, { retry: [retrying(1)] })])
        yield* journal.openLane("new", { renamedFrom: "old" })
        yield* journal.dropLane("away")
      })
      yield* session(function* (journal) {
        expect((yield* journal.lanes).map(({ name, backlog, retrying }) => [name, backlog, retrying])).toEqual([
          ["new", 2, 1],
        ])
        expect((yield* journal.openLane("new")).retries).toEqual([waiting(1)])
      })
    })

    test("imports nothing twice", function* (session) {
      const undelivered = [1, 2].map((sequence) => ({
        sequence,
        event: event(`evt_${sequence}`, { problem: "not in the catalogue" }),
        replayed: false,
        pending: ["lake"],
      }))
      yield* session((journal) => journal.import("other", undelivered.slice(0, 1)))
      yield* session(function* (journal) {
        expect(yield* journal.import("other", undelivered)).toEqual({ pending: 1, deadLetters: 0, known: 1 })
        expect((yield* lane(journal, "lake"))?.backlog).toBe(2)
      })
    })
  })
}
