/** Finds events by the ids of their objects in rows that different relays have stored. */
import { expect } from "bun:test"
import { Effect } from "effect"
import { collect } from "../../../src/journal/EventQuery.ts"
import type { Database } from "../../../src/journal/postgres/connection/Database.ts"
import { it } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { reasonToSkip } from "../../parts/Postgres.ts"
import { event } from "../samples.ts"
import { relays } from "./relays.ts"

const group = 16
const groups = 6

/** Counts the rows of the log that a search reads. */
const counting = (db: Database) => {
  let read = 0
  const database: Database = {
    ...db,
    query: <Row>(...all: Parameters<Database["query"]>) =>
      Effect.tap(db.query<Row>(...all), ({ rows }) =>
        Effect.sync(() => {
          if (/received_to FROM log/.test(all[0])) read += rows.length
        }),
      ),
  }
  return { database, read: () => read }
}

suiteUnless(reasonToSkip(), "objects on PostgreSQL", () => {
  it.effect("are found in the rows that have the hash of their ids, and in all rows without such hashes", function* () {
    const { start, sql } = yield* relays
    let read = () => 0
    const { journal } = yield* start("a", undefined, (db) => {
      const { database, read: count } = counting(db)
      read = count
      return database
    })
    const numbers = Array.from({ length: groups * group }, (_, number) => number)
    for (let first = 0; first < numbers.length; first += group) {
      const some = numbers.slice(first, first + group).map((number) => {
        const object = { id: `app_${number}`, client_id: `cli_${number % 2}` }
        const body = new TextEncoder().encode(JSON.stringify({ data: { object } }))
        return journal.append(event(`evt_${number}`, { body }), [])
      })
      yield* Effect.all(some, { concurrency: "unbounded" })
    }
    const find = Effect.fnUntraced(function* (object: string) {
      const before = read()
      const { events } = yield* collect({ object, limit: numbers.length }, journal.events)
      return { ids: events.map(({ event }) => event.id).reverse(), rows: read() - before }
    })
    const odd = numbers.filter((number) => number % 2 === 1).map((number) => `evt_${number}`)
    expect(yield* find("app_20")).toEqual({ ids: ["evt_20"], rows: 1 })
    expect(yield* find("app_none")).toEqual({ ids: [], rows: 0 })
    expect((yield* find("cli_1")).ids).toEqual(odd)
    // An older relay stores no hashes of these ids, and another config hashes ids at other pointers.
    for (const instead of ["", "\\x00000000", "\\x0000000011223344"]) {
      yield* sql(`UPDATE relay.log SET ids = substring(ids FOR count * 4) || '${instead}'::bytea`)
      expect(yield* find("app_20")).toMatchObject({ ids: ["evt_20"] })
      expect((yield* find("cli_1")).ids).toEqual(odd)
      expect((yield* find("app_none")).rows).toBeGreaterThanOrEqual(groups)
    }
  })
})
