import { describe, expect } from "bun:test"
import { Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import * as Quarantine from "../../src/delivery/Quarantine.ts"
import { quarantine } from "../../src/event/Event.ts"
import * as SqliteJournal from "../../src/journal/sqlite/SqliteJournal.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { event, letter, settlement } from "../journal/samples.ts"
import { options } from "../journal/temporary.ts"
import { whole } from "../journal/whole.ts"
import { it } from "../lib/effect.ts"
import { settable } from "../lib/wallClock.ts"

describe("the quarantine", () => {
  it.live("deletes deliveries older than its age, and none that are younger or in another lane", () =>
    Effect.gen(function* () {
      const journal = yield* whole
      for (const lane of [quarantine, "lake"]) yield* journal.openLane(lane)
      const count = 250
      for (let index = 1; index <= count; index++) yield* journal.append(event(`evt_${index}`), [quarantine, "lake"])
      const letters = Array.from({ length: count }, (_, index) => ({ ...letter(index + 1), at: index + 1 }))
      for (const lane of [quarantine, "lake"]) yield* journal.settle([settlement(lane, count, { deadLetter: letters })])
      expect(yield* Quarantine.expire(journal, 1)).toBe(0)
      expect(yield* Quarantine.expire(journal, 211)).toBe(210)
      const [dropped] = (yield* journal.events({ sequence: 210, limit: 1 })).events
      expect(dropped?.deliveries).toMatchObject([
        { sink: quarantine, outcome: "dropped", by: 'the relay, for "quarantine.maxAge"' },
        { sink: "lake", outcome: "dead" },
      ])
      const left = yield* journal.deadLetters({ lane: quarantine, limit: 1_000 })
      expect(left.map(({ at }) => at)).toEqual(Array.from({ length: 40 }, (_, index) => count - index))
      expect(yield* Quarantine.expire(journal, 1_000)).toBe(40)
      expect((yield* journal.lanes).map(({ name, deadLetters }) => [name, deadLetters])).toEqual([
        [quarantine, 0],
        ["lake", count],
      ])
    }).pipe(Effect.provide(SqliteJournal.layer(options()))),
  )

  it.effect("deletes nothing by age while the wall clock is set ahead, and old deliveries once it is right again", () =>
    Effect.gen(function* () {
      const { wall, withWall } = yield* settable
      const journal = yield* whole
      yield* journal.openLane(quarantine)
      yield* Effect.forkChild(journal.append(event("evt_1"), [quarantine]), { startImmediately: true })
      yield* TestClock.adjust("1 second")
      yield* journal.settle([settlement(quarantine, 1, { deadLetter: [letter(1)] })])
      const expiring = Quarantine.expiring(journal, Duration.days(30))
      yield* Effect.forkScoped(withWall(expiring))
      yield* TestClock.adjust("1 minute")
      const left = Effect.map(journal.deadLetters({ limit: 9 }), ({ length }) => length)
      wall.ahead = Duration.toMillis(Duration.days(500))
      yield* TestClock.adjust("1 hour")
      expect(yield* left).toBe(1)
      wall.ahead = 0
      yield* TestClock.adjust("31 days")
      expect(yield* left).toBe(0)
    }).pipe(Effect.provide(MemoryJournal.layer)),
  )
})
