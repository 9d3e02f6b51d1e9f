import { expect } from "bun:test"
import { Effect, Fiber, SubscriptionRef } from "effect"
import type { Log } from "../../../../src/journal/Journal.ts"
import type { WholeJournal } from "../../../../src/journal/JournalType.ts"
import type { Database } from "../../../../src/journal/postgres/connection/Database.ts"
import { columns } from "../../../../src/journal/postgres/tables/StreamRows.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip } from "../../../parts/Postgres.ts"
import { event, settlement } from "../../samples.ts"
import { meanwhile, relays, seconds } from "../relays.ts"

const append = (journal: WholeJournal, count: number, sinks: ReadonlyArray<string>) =>
  Effect.forEach(
    Array.from({ length: count }, (_, n) => n),
    (n) => journal.append(event(`${sinks.join()} ${n}`), sinks),
    { discard: true },
  )

const owned = ({ streams }: WholeJournal): ReadonlyArray<Log & { readonly id?: number }> =>
  streams === undefined ? [] : SubscriptionRef.getUnsafe(streams)

/** Counts reads of the log's events. */
const counting = () => {
  const reads = { count: 0 }
  const over = (db: Database): Database => ({
    ...db,
    query: <Row>(...all: Parameters<Database["query"]>) => {
      if (all[0].includes(`SELECT ${columns} FROM log`)) reads.count += 1
      return db.query<Row>(...all)
    },
  })
  return { reads, over }
}

suiteUnless(reasonToSkip(), "idle lanes on PostgreSQL", () => {
  it.effect("are not woken for the events of others, and begin behind these after a stop", function* () {
    const { start } = yield* relays
    const { journal, stop } = yield* start("a")
    for (const lane of ["lake", "audit"]) yield* journal.openLane(lane)
    const waiting = yield* Effect.forkChild(journal.awaitBeyond(0, "audit"), { startImmediately: true })
    yield* append(journal, 3, ["lake"])
    expect(waiting.pollUnsafe()).toBeUndefined()
    yield* append(journal, 1, ["audit"])
    expect(yield* Fiber.join(waiting)).toBe(3)
    expect((yield* journal.read(3, 10, "audit")).map(({ sequence }) => sequence)).toEqual([4])
    yield* journal.settle([settlement("audit", 4)])
    yield* append(journal, 2, ["more"])
    yield* stop
    const { journal: next } = yield* start("a")
    expect((yield* next.openLane("audit")).cursor.sequence).toBe(6)
    expect(yield* next.openLane("lake")).toMatchObject({ cursor: { sequence: 0 }, backlog: 3 })
  })

  it.effect("are written once a minute, and not each time that another lane settles", function* () {
    const { start, sql } = yield* relays
    const { journal, stop } = yield* start("a")
    yield* journal.createLanes(["lake", ...Array.from({ length: 1_000 }, (_, n) => `idle ${n}`)])
    /** The chunks of the row that PostgreSQL stores apart, because it has the places of a thousand lanes. */
    const written = Effect.gen(function* () {
      const [row] = yield* sql(
        `SELECT reltoastrelid::regclass::text AS toast FROM pg_class WHERE oid = 'relay.progress'::regclass`,
      )
      return yield* sql(`SELECT DISTINCT chunk_id::int AS id FROM ${row?.toast} ORDER BY 1`)
    })
    const settled = Effect.fnUntraced(function* (upTo: number) {
      yield* journal.append(event(`${upTo}`), ["lake"])
      yield* journal.settle([settlement("lake", upTo)])
      return yield* written
    })
    const first = yield* settled(1)
    expect(first.length).toBeGreaterThan(0)
    for (const upTo of [2, 3, 4]) expect(yield* settled(upTo)).toEqual(first)
    yield* seconds(61)
    expect(yield* settled(5)).not.toEqual(first)
    expect(yield* sql("SELECT changed FROM relay.progress WHERE stream = 0")).toEqual([{ changed: {} }])
    yield* settled(6)
    yield* stop
    const { journal: next } = yield* start("a")
    for (const lane of ["lake", "idle 7"]) expect((yield* next.openLane(lane)).cursor.sequence).toBe(6)
  })

  it.effect("begin at the end of the log if a dropped lane of their name was settled late", function* () {
    const { start, sql } = yield* relays
    const { journal, stop } = yield* start("a")
    yield* append(journal, 2, ["lake"])
    yield* journal.dropLane("lake")
    yield* sql(
      `UPDATE relay.progress SET changed = '{"lake": {"sequence": 1, "settled": [], "pausedFor": 0}}' WHERE stream = 0`,
    )
    yield* journal.append(event("later"), ["lake"])
    yield* stop
    const { journal: next } = yield* start("a")
    expect(yield* next.openLane("lake")).toMatchObject({ cursor: { sequence: 2 }, backlog: 1 })
  })

  it.effect("begin at the end of the log after a crash, found by one read for all of them", function* () {
    const { start } = yield* relays
    const { journal, freeze } = yield* start("a")
    const idle = Array.from({ length: 20 }, (_, n) => `idle ${n}`)
    for (const lane of ["lake", ...idle]) yield* journal.openLane(lane)
    yield* append(journal, 5, ["lake"])
    freeze()
    const { reads, over } = counting()
    const { journal: next } = yield* meanwhile(start("b", undefined, over))
    yield* seconds(12)
    const taken = owned(next).find(({ id }) => id === 0)
    if (taken === undefined) throw new Error("the stream was not taken over")
    expect(reads.count).toBe(1)
    for (const lane of idle) {
      const { cursor } = yield* taken.openLane(lane)
      expect(cursor).toEqual({ sequence: 5, settled: [] })
      const waiting = yield* Effect.forkChild(taken.awaitBeyond(5, lane), { startImmediately: true })
      expect(waiting.pollUnsafe()).toBeUndefined()
    }
    expect(yield* taken.openLane("lake")).toMatchObject({ cursor: { sequence: 0 }, backlog: 5 })
    expect(reads.count).toBe(1)
  })
})
