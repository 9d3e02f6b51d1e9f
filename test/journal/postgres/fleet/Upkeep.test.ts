import { expect } from "bun:test"
import { Duration, Effect } from "effect"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { hour, settable } from "../../../lib/wallClock.ts"
import { reasonToSkip } from "../../../parts/Postgres.ts"
import { event, settlement } from "../../samples.ts"
import { relays, seconds } from "../relays.ts"

suiteUnless(reasonToSkip(), "a relay that deletes old events on PostgreSQL", () => {
  for (const [what, wasSet, left] of [
    ["deletes nothing while its wall clock was set ahead", true, ["one", "two"]],
    ["deletes what is older than the config says", false, ["two"]],
  ] as const) {
    it.effect(what, () =>
      Effect.gen(function* () {
        const { wall, withWall } = yield* settable
        yield* Effect.gen(function* () {
          const month = 30 * 24 * hour
          if (!wasSet) wall.ahead = month
          const { start } = yield* relays
          const { journal } = yield* start("a", Duration.days(1))
          yield* journal.openLane("lake")
          for (const [at, id] of ["one", "two"].entries()) {
            yield* journal.append(event(id, { receivedAt: 0 }), ["lake"])
            yield* journal.settle([settlement("lake", at + 1)])
          }
          yield* seconds(2)
          if (wasSet) wall.ahead = month
          yield* seconds(5)
          const { events } = yield* journal.events({ limit: 10 })
          expect(events.map(({ event }) => event.id).sort()).toEqual([...left])
          const { message } = yield* journal.status
          expect(message.includes("The wall clock was set by 2592000 s")).toBe(wasSet)
        }).pipe(withWall)
      }).pipe(Effect.scoped),
    )
  }
})
