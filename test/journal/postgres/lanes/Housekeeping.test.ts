import { expect } from "bun:test"
import { Duration, Effect } from "effect"
import type { Queries } from "../../../../src/journal/postgres/connection/Database.ts"
import { databaseError } from "../../../../src/journal/postgres/connection/DatabaseError.ts"
import { prune } from "../../../../src/journal/postgres/lanes/Housekeeping.ts"
import type { OwnedStream } from "../../../../src/journal/postgres/lanes/OwnedStream.ts"
import { KnownRows } from "../../../../src/journal/postgres/tables/KnownRows.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip } from "../../../parts/Postgres.ts"
import { event, settlement } from "../../samples.ts"
import { relays, seconds } from "../relays.ts"

const rowAt = (first: number) => ({ first, count: 1, received_to: 0, void: 0, bytes: 1 })

it.effect("rows whose deletion was never answered are not taken for lost", () =>
  Effect.gen(function* () {
    const known = new KnownRows()
    for (const first of [1, 2, 3, 4]) known.push({ first, events: 1, mark: "" })
    known.confirmed = 4
    const lost = databaseError("unavailable", "the connection was lost", { isLost: true })
    const query = (sql: string) =>
      sql.includes("DELETE") ? Effect.fail(lost) : Effect.succeed({ rows: [1, 2, 3].map(rowAt), count: 3 })
    // A lane waits for the first.
    const isPending = (first: number) => first === 1
    const stream = { id: 0, epoch: 1, prunedTo: 0, kept: 4, bytes: 4, owner: { db: { query } }, known, isPending }
    expect(yield* Effect.flip(prune(stream as unknown as OwnedStream, 1_000, 0))).toBe(lost)
    const there = [1, 4].map((first) => ({ first, mark: "" }))
    const answering = { query: () => Effect.succeed({ rows: [{ head: 0, there }], count: 1 }) } as unknown as Queries
    expect(yield* known.takeMissing(answering)).toMatchObject({ events: 0 })
  }),
)

suiteUnless(reasonToSkip(), "what a relay keeps in the database", () => {
  it.effect("rows are deleted when they are old and every lane has passed them, but for the newest", () =>
    Effect.gen(function* () {
      const { start, sql } = yield* relays
      const { journal } = yield* start("a", Duration.seconds(1))
      const firsts = Effect.map(sql("SELECT first::int AS first FROM relay.log ORDER BY first"), (rows) =>
        rows.map(({ first }) => Number(first)),
      )
      for (const lane of ["lake", "audit"]) yield* journal.openLane(lane)
      for (const id of ["a", "b", "c", "d"]) {
        yield* journal.append(event(id, { receivedAt: 1 }), id === "b" ? ["lake", "audit"] : ["lake"])
      }
      yield* journal.append(event("e", { receivedAt: 1 }), ["lake"])
      yield* seconds(3)
      expect(yield* firsts).toEqual([1, 2, 3, 4, 5])
      yield* journal.settle([settlement("lake", 5)])
      yield* seconds(3)
      expect(yield* firsts).toEqual([2, 5])
      yield* journal.settle([settlement("audit", 5)])
      yield* seconds(3)
      expect(yield* firsts).toEqual([5])
      expect(yield* journal.append(event("f"), ["lake"])).toBe("appended")
      expect(yield* journal.head).toBe(6)
    }).pipe(Effect.scoped),
  )

  it.effect("deliveries are forgotten after the window, by the relay that delivers the shared stream", () =>
    Effect.gen(function* () {
      const { start, sql } = yield* relays
      const { journal } = yield* start("a")
      yield* journal.append(event("old"), ["lake"])
      yield* sql("UPDATE relay.seen SET at = at - 25 * 3600 * 1000")
      yield* journal.append(event("new"), ["lake"])
      yield* seconds(62)
      expect(yield* journal.append(event("new"), ["lake"])).toBe("duplicate")
      expect(yield* journal.append(event("old"), ["lake"])).toBe("appended")
    }).pipe(Effect.scoped),
  )
})
