import { expect } from "bun:test"
import { Effect } from "effect"
import type { EventPage } from "../../../src/journal/EventQuery.ts"
import type { Database } from "../../../src/journal/postgres/connection/Database.ts"
import { it } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { reasonToSkip } from "../../parts/Postgres.ts"
import { event } from "../samples.ts"
import { relays } from "./relays.ts"

const group = 64
const groups = 12
const mebibyte = 1024 * 1024

interface LogRow {
  readonly count: number
  readonly bytes: Uint8Array | null
}

/** Counts the events of the rows of the log that a search reads, and the most bytes that one statement reads. */
const counting = (db: Database) => {
  let events = 0
  let mostBytes = 0
  const database: Database = {
    ...db,
    query: <Row>(...all: Parameters<Database["query"]>) =>
      Effect.tap(db.query<Row>(...all), ({ rows }) =>
        Effect.sync(() => {
          if (!/received_to FROM log/.test(all[0])) return
          const read = rows as ReadonlyArray<LogRow>
          for (const { count } of read) events += count
          const bytes = read.reduce((sum, row) => sum + (row.bytes?.length ?? 0), 0)
          mostBytes = Math.max(mostBytes, bytes)
        }),
      ),
  }
  return { database, events: () => events, mostBytes: () => mostBytes }
}

/** A journal with the lane `lake` whose statements are counted. */
const counted = Effect.gen(function* () {
  const { start } = yield* relays
  let count = { events: () => 0, mostBytes: () => 0 }
  const { journal } = yield* start("a", undefined, (db) => {
    const { database, ...counts } = counting(db)
    count = counts
    return database
  })
  yield* journal.openLane("lake")
  return { journal, events: () => count.events(), mostBytes: () => count.mostBytes() }
})

suiteUnless(reasonToSkip(), "a page of events on PostgreSQL", () => {
  it.effect("reads a part of a large log, and the pages after it find all others", function* () {
    const { journal, events: read } = yield* counted
    const ids = Array.from({ length: groups * group }, (_, number) => `e${number}`)
    for (let first = 0; first < ids.length; first += group) {
      const some = ids.slice(first, first + group).map((id) => journal.append(event(id), ["lake"]))
      yield* Effect.all(some, { concurrency: "unbounded" })
    }
    const found: Array<string> = []
    for (let after: string | undefined = ""; after !== undefined; ) {
      const before = read()
      const page: EventPage = yield* journal.events({ after, limit: 10 })
      expect(read() - before).toBeLessThanOrEqual((groups * group) / 2)
      found.push(...page.events.map(({ event }) => event.id))
      after = page.next
    }
    expect(found).toEqual(ids)
  })

  it.effect("gets only the rows of the log that have a text, and counts the events of the others", function* () {
    const { journal, mostBytes } = yield* counted
    for (let first = 0; first < groups * group; first += group) {
      const some = Array.from({ length: group }, (_, index) => {
        const note = first + index === group + 1 ? 'of "cli_1"' : "x".repeat(1_000)
        const body = new TextEncoder().encode(JSON.stringify({ note }))
        return journal.append(event(`e${first + index}`, { body }), ["lake"])
      })
      yield* Effect.all(some, { concurrency: "unbounded" })
    }
    for (const mentioned of ["cli_1", '"cli_1"', "cli_2"]) {
      const page = yield* journal.events({ mentioned, after: "", through: yield* journal.end, limit: 10 })
      expect(page.events.map(({ event }) => event.id)).toEqual(mentioned === "cli_2" ? [] : [`e${group + 1}`])
      expect([page.looked, page.next]).toEqual([groups * group, undefined])
    }
    expect(mostBytes()).toBeLessThan(2 * group * 1_100)
  })

  it.effect("reads at most a few mebibytes at a time", function* () {
    const { journal, mostBytes } = yield* counted
    const ids = Array.from({ length: 8 }, (_, number) => `e${number}`)
    const body = new TextEncoder().encode(JSON.stringify({ note: `of cli_1 ${"x".repeat(mebibyte)}` }))
    for (const id of ids) yield* journal.append(event(id, { body }), ["lake"])
    const found: Array<string> = []
    for (let after: string | undefined = ""; after !== undefined; ) {
      const page: EventPage = yield* journal.events({ mentioned: "cli_1", after, limit: 256 })
      found.push(...page.events.map(({ event }) => event.id))
      after = page.next
    }
    expect(found).toEqual(ids)
    expect(mostBytes()).toBeLessThan(6 * mebibyte)
  })
})
