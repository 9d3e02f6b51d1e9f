/**
 * A rename to the name of another lane, which a journal on a file can't make in one step. The running lane adopts the
 * former one.
 */
import { describe, expect } from "bun:test"
import { Effect, Layer } from "effect"
import { Lanes } from "../../src/delivery/Lanes.ts"
import { full } from "../../src/journal/Journal.ts"
import { servicesOf } from "../../src/journal/JournalType.ts"
import * as SqliteJournal from "../../src/journal/sqlite/SqliteJournal.ts"
import { options } from "../journal/temporary.ts"
import { whole } from "../journal/whole.ts"
import { it } from "../lib/effect.ts"
import { append, failed, lanesOf, scripted, spec, statusOf } from "./fixture.ts"

const until = (isSo: Effect.Effect<boolean, unknown, Lanes>) =>
  Effect.orDie(Effect.repeat(Effect.delay(isSo, "20 millis"), { until: (so) => so }))

describe("a rename on SQLite to the name of another lane", () => {
  it.live("that fails moves pending and retrying events once it can, and sends each event once", () =>
    Effect.gen(function* () {
      const journal = yield* whole
      let isFull = true
      const openLane: typeof journal.openLane = (name, options) =>
        Effect.suspend(() =>
          isFull && options?.renamedFrom !== undefined
            ? Effect.fail(full("disk", "the disk is full"))
            : journal.openLane(name, options),
        )
      // The second event fails at first. The lane is paused before the event's next attempt, and before the other
      // events arrive.
      const before = scripted(({ sequence }) => (sequence === 2 ? failed : "pass"))
      const after = scripted(({ sequence }, attempt) => (sequence === 5 && attempt === 1 ? failed : "pass"))
      yield* Effect.gen(function* () {
        const { pause, change } = yield* Lanes
        yield* journal.createLanes(["after"])
        yield* append(2, ["before"])
        yield* until(Effect.map(statusOf("before"), (lane) => lane?.retrying === 1 && lane.attempts.delivered === 1))
        yield* pause("before")
        yield* append(2, ["before"])
        const notes = yield* change([spec("after", after.sink, { renamedFrom: "before" })], Effect.void)
        expect(notes).toEqual([expect.stringContaining("which is tried again each second: the disk is full")])
        yield* append(2, ["after"])
        yield* until(Effect.sync(() => after.delivered.includes(6)))
        isFull = false
        const { resume } = yield* Lanes
        yield* until(Effect.map(statusOf("after"), (lane) => lane?.condition === "paused"))
        yield* resume("after")
        yield* until(Effect.map(statusOf("after"), (lane) => lane?.backlog === 0))
        // Pending events are appended again. An event that is retrying keeps its place.
        expect(after.delivered.toSorted((a, b) => a - b)).toEqual([2, 5, 6, 7, 8])
        expect((yield* journal.lanes).map(({ name }) => name)).toEqual(["_quarantine", "after"])
      }).pipe(
        Effect.provide(
          lanesOf([spec("before", before.sink)]).pipe(
            Layer.provideMerge(Layer.succeedContext(servicesOf({ ...journal, openLane }))),
          ),
        ),
      )
    }).pipe(Effect.provide(SqliteJournal.layer(options()))),
  )
})
