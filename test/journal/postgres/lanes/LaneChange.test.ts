import { expect } from "bun:test"
import { Effect, Fiber, Schedule } from "effect"
import type { Database } from "../../../../src/journal/postgres/connection/Database.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip } from "../../../parts/Postgres.ts"
import { event, letter, retrying, settlement } from "../../samples.ts"
import { meanwhile, relays, seconds } from "../relays.ts"

suiteUnless(reasonToSkip(), "a change of lanes", () => {
  it.effect("that was committed without a received answer is found by the relay that made it", function* () {
    const { start } = yield* relays
    const { journal, fails } = yield* start("a")
    yield* journal.openLane("old")
    yield* Effect.forEach(["one", "two", "three"], (id) => journal.append(event(id), ["old"]))
    fails("lost")
    yield* Effect.flip(journal.openLane("new", { renamedFrom: "old" }))
    fails(undefined)
    yield* seconds(2)
    expect(yield* journal.openLane("new", { renamedFrom: "old" })).toMatchObject({ backlog: 3 })
    expect((yield* journal.lanes).map(({ name, backlog }) => [name, backlog])).toEqual([["new", 3]])
  })

  it.effect("that drops a lane lasts, although a late settlement stores the lane's place after it", function* () {
    const { start, sql } = yield* relays
    const { journal, stop } = yield* start("a")
    yield* journal.openLane("lake")
    yield* journal.dropLane("lake")
    yield* sql(`UPDATE relay.progress SET changed = '{"lake": {"sequence": 0, "settled": [], "pausedFor": 0}}'`)
    yield* stop
    expect(yield* (yield* start("a")).journal.lanes).toEqual([])
  })

  it.effect("that drops a lane counts what other relays have added to the shared stream since", function* () {
    const { start, sql } = yield* relays
    const { journal: a } = yield* start("a")
    const { journal: b } = yield* start("b")
    for (const { knowSinks } of [a, b]) knowSinks?.([{ name: "removed", exclusive: true }])
    const append = (journal: typeof a, ids: ReadonlyArray<string>) =>
      Effect.forEach(ids, (id) => journal.append(event(id), ["removed"]), { discard: true })
    yield* append(b, ["one", "two", "three"])
    yield* seconds(3)
    // No time passes from here on, so no relay reads the shared stream again.
    yield* append(b, ["four", "five"])
    const pending = (journal: typeof a) => Effect.map(journal.lanes, (lanes) => lanes.map(({ backlog }) => backlog))
    expect(yield* pending(a)).toEqual([3])
    expect(yield* a.dropLane("removed")).toBe(5)
    const [dropped] = yield* sql("SELECT sequence, last FROM relay.ended WHERE outcome = 'laneRemoved'")
    expect(Number(dropped?.last) - Number(dropped?.sequence)).toBe(4)
  })

  it.effect("that drops a lane of another relay counts only what that relay has not settled", function* () {
    const { start } = yield* relays
    const { journal: a } = yield* start("a")
    const { journal: b } = yield* start("b")
    for (const id of ["one", "two", "three", "four"]) yield* b.append(event(id), ["removed"])
    const last = yield* b.head
    const changes = { delivered: [], deadLetter: [letter(last - 3)], retry: [retrying(last - 2)] }
    yield* b.settle([settlement("removed", last - 1, changes)])
    expect(yield* a.dropLane("removed")).toBe(3)
  })

  it.effect("that moves a lane to a sink that another relay has renamed moves it to the renamed lane", function* () {
    const { start } = yield* relays
    const { journal: a } = yield* start("a")
    const { journal: b } = yield* start("b")
    yield* b.openLane("before")
    for (const id of ["one", "two"]) yield* b.append(event(id), ["removed"])
    yield* b.openLane("after", { renamedFrom: "before" })
    expect(yield* a.moveLane("removed", "before")).toBe(2)
    yield* seconds(3)
    const found = (yield* b.lanes).filter(({ backlog }) => backlog > 0)
    expect(found.map(({ name, backlog }) => [name, backlog])).toEqual([["after", 2]])
  })

  // The relay stalls after one transaction of a move, a different one each time. Meanwhile the stream's own relay
  // accepts an event for the lane.
  it.effect("that moves a lane loses no event, whenever another relay opens the lane again", function* () {
    const { start, sql } = yield* relays
    let left = Number.POSITIVE_INFINITY
    const counted = (db: Database): Database => ({
      ...db,
      transact: (work) =>
        Effect.tap(db.transact(work), () =>
          Effect.sync(() => {
            left -= 1
            if (left === 0) a.freeze()
          }),
        ),
    })
    const a = yield* start("a", undefined, counted)
    const { journal: b } = yield* start("b")
    const found: Array<string> = []
    let step = 0
    for (let isOver = false; !isOver; step++) {
      const [from, to] = [`from_${step}`, `to_${step}`]
      yield* b.openLane(from)
      for (const id of ["one", "two"]) yield* b.append(event(`${id}_${step}`), [from])
      yield* seconds(2)
      left = step + 1
      const move = yield* Effect.forkChild(Effect.exit(a.journal.moveLane(from, to)))
      while (left > 0 && move.pollUnsafe() === undefined) yield* seconds(0.5)
      isOver = left > 0
      left = Number.POSITIVE_INFINITY
      // The move has changed the other relay's stream, so that relay reads it again.
      yield* seconds(2)
      const accept = Effect.andThen(b.openLane(from), b.append(event(`late_${step}`), [from]))
      if (!isOver) yield* meanwhile(Effect.retry(accept, { schedule: Schedule.spaced("1 second"), times: 20 }))
      a.thaw()
      const { _tag } = yield* meanwhile(Fiber.join(move))
      yield* seconds(3)
      const pending = (yield* b.lanes).filter(({ name }) => name === from || name === to)
      found.push(`${_tag}, ${pending.reduce((sum, { backlog }) => sum + backlog, 0)} pending`)
    }
    expect(found).toEqual([...found.slice(0, -1).map((one) => one.replace(/\d+/, "3")), "Success, 2 pending"])
    expect(found).toContain("Failure, 3 pending")
    expect(yield* sql("SELECT * FROM relay.ended WHERE outcome IN ('laneRemoved', 'dropped')")).toEqual([])
  })
})
