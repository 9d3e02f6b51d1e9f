/** Upkeep of a journal on disk: it deletes old events, reports how full it is, and reports losses. */
import { describe, expect } from "bun:test"
import { Duration, Effect, type Scope } from "effect"
import { TestClock } from "effect/testing"
import type { Event } from "../../../src/event/Event.ts"
import * as AlarmLines from "../../../src/journal/archive/AlarmLines.ts"
import { collect } from "../../../src/journal/EventQuery.ts"
import type { JournalError } from "../../../src/journal/JournalError.ts"
import { event, settlement } from "../../journal/samples.ts"
import { it } from "../../lib/effect.ts"
import { hour, settable } from "../../lib/wallClock.ts"
import type { Service } from "./sessions.ts"

/** Limits on the events that are kept. */
export interface Bounds {
  readonly retention: Duration.Duration
  /** In bytes. */
  readonly maxSize?: number
}

/** A journal on disk, under the test clock. */
export interface OnDisk {
  readonly open: Effect.Effect<{ readonly journal: Service; readonly stop: Effect.Effect<void> }, JournalError>
  /** Advances the clock and runs the tasks that become due. */
  readonly seconds: (count: number) => Effect.Effect<void>
  /** Damages the rows of the log that begin with an even sequence. */
  readonly damage: Effect.Effect<void>
}

/** Makes a new, empty journal. */
export type CreateOnDisk = (bounds: Bounds) => Effect.Effect<OnDisk, JournalError, Scope.Scope>

const maxSize = 4_000_000
const large = new Uint8Array(100_000)

/** Appends an event and delivers it. */
const deliver = Effect.fnUntraced(function* (journal: Service, id: string, more: Partial<Event>) {
  yield* journal.append(event(id, more), ["lake"])
  yield* journal.settle([settlement("lake", yield* journal.head)])
})

const keptIds = (journal: Service) =>
  Effect.map(collect({ limit: 100 }, journal.events), ({ events }) => events.map(({ event }) => event.id).reverse())

/** Tests a journal: `name` is in the titles. */
export const upkeepContract = (name: string, create: CreateOnDisk): void => {
  describe(`${name}: upkeep`, () => {
    it.effect("deletes events by age only while the wall clock agrees with the time that passes", function* () {
      const { wall, now, withWall } = yield* settable
      yield* Effect.gen(function* () {
        yield* TestClock.adjust("1 day")
        const started = now()
        const { open, seconds } = yield* create({ retention: Duration.hours(1) })
        const { journal } = yield* open
        yield* journal.openLane("lake")
        wall.ahead = 720 * hour
        // PostgreSQL seems silent until the next heartbeat.
        yield* seconds(2)
        for (const [id, age] of [
          ["old", 2],
          ["young", 0],
          ["last", 0],
        ] as const) {
          yield* deliver(journal, id, { receivedAt: started - age * hour })
        }
        yield* seconds(5)
        expect(yield* keptIds(journal)).toEqual(["old", "young", "last"])
        expect((yield* journal.status).message).toContain("The wall clock was set by 2592000 s")
        wall.ahead = 0
        yield* seconds(5)
        expect(yield* keptIds(journal)).toEqual(["young", "last"])
        expect(yield* journal.status).toMatchObject({ health: "ok", message: "" })
      }).pipe(withWall)
    })

    it.effect("reports a mark of filling until the events fall five percent below it", function* () {
      const { wall, now, withWall } = yield* settable
      yield* Effect.gen(function* () {
        yield* TestClock.adjust("1 day")
        const started = now()
        const { open, seconds } = yield* create({ retention: Duration.hours(1), maxSize })
        const { journal } = yield* open
        const filling = Effect.map(journal.status, ({ filling }) => filling)
        yield* journal.openLane("lake")
        for (let count = 0; (yield* filling) === 0; count++) {
          const dueAfter = count === 0 ? 30_000 : count < 5 ? 60_000 : hour
          yield* deliver(journal, `evt_${count}`, { body: large, receivedAt: started - hour + dueAfter })
          yield* seconds(0.5)
        }
        expect(yield* filling).toBe(50)
        wall.ahead = 30_000
        yield* seconds(2)
        const { usedBytes } = yield* journal.status
        expect(usedBytes).toBeLessThan(maxSize * 0.5)
        expect(yield* filling).toBe(50)
        wall.ahead = 55_000
        yield* seconds(2)
        expect((yield* journal.status).usedBytes).toBeLessThan(usedBytes - 3 * large.length)
        expect(yield* filling).toBe(0)
      }).pipe(withWall)
    })

    it.effect("shows 20 losses and refers to the audit log, which has all of them", function* () {
      const { open, seconds, damage } = yield* create({ retention: Duration.days(36_525) })
      const before = yield* open
      yield* before.journal.openLane("lake")
      for (let count = 1; count <= 51; count++) yield* before.journal.append(event(`evt_${count}`), ["lake"])
      yield* before.stop
      yield* damage
      const { journal } = yield* open
      const isReady = Effect.map(Effect.andThen(seconds(1), journal.status), ({ health }) => health !== "starting")
      yield* Effect.repeat(isReady, { until: (isReady) => isReady })
      for (let after = 0; after < 51; ) {
        const last = (yield* journal.read(after, 100)).at(-1)
        after = last?.sequence ?? (yield* journal.pastLost(after))
      }
      const recorded = Effect.andThen(seconds(1), journal.audit.list({ limit: 100 }))
      const records = yield* Effect.repeat(recorded, { until: (records) => records.length >= 25 })
      const { health, alarm } = yield* journal.status
      expect(health).toBe("red")
      expect(alarm.lines).toHaveLength(AlarmLines.maxLines + 1)
      expect(alarm.lines.at(-1)).toBe("There is more: `relay audit` lists every loss.")
      const losses = records.map(({ note }) => note)
      expect(losses).toHaveLength(25)
      expect(losses).toContainValues(alarm.lines.slice(0, -1))
    })
  })
}
