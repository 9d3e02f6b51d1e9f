import { expect } from "bun:test"
import { Effect } from "effect"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip } from "../../../parts/Postgres.ts"
import { event } from "../../samples.ts"
import { relays, seconds } from "../relays.ts"

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
})
