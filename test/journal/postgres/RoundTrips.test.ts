import { expect } from "bun:test"
import { Duration, Effect } from "effect"
import { unavailable } from "../../../src/journal/Journal.ts"
import type { WholeJournal } from "../../../src/journal/JournalType.ts"
import * as PostgresJournal from "../../../src/journal/postgres/PostgresJournal.ts"
import * as DatabaseSchema from "../../../src/journal/postgres/tables/DatabaseSchema.ts"
import { operation } from "../../contract/journal/auditContract.ts"
import { it } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { makeDelayProxy } from "../../parts/DelayProxy.ts"
import { reasonToSkip, sharedPostgres } from "../../parts/Postgres.ts"
import { event, letter, retrying, settlement } from "../samples.ts"
import { openDatabase } from "./database.ts"

let schemas = 0

type Own = WholeJournal

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)

/** The first event of each journal is for nobody. */
const sequences = (count: number) => range(2, count + 1)

const appended = (journal: Own, count: number) =>
  Effect.forEach(sequences(count), (n) => journal.append(event(`e${n}`), ["lake"]), { concurrency: "unbounded" })

/** So many events for the lane, which has read them: memory has none any more. */
const received = (journal: Own, count: number) =>
  Effect.andThen(appended(journal, count), journal.read(0, 1_000, "lake"))

/** All that the lane has taken waits for a retry, or is a dead letter. */
const failed = (journal: Own, count: number, as: "retry" | "deadLetter") => {
  const all = sequences(count)
  const changes = as === "retry" ? { retry: all.map((n) => retrying(n)) } : { deadLetter: all.map(letter) }
  return journal.settle([settlement("lake", count + 1, changes)])
}

interface Case {
  readonly operation: string
  /** The same for one event as for as many as go together. */
  readonly roundTrips: number
  readonly most: number
  readonly given?: (journal: Own, count: number) => Effect.Effect<unknown, unknown>
  readonly isPruned?: boolean
  readonly act: (journal: Own, count: number) => Effect.Effect<unknown, unknown>
}

const undelivered = (n: number) => ({ sequence: n, event: event(`i${n}`), replayed: false, pending: ["lake"] })
const ids = (count: number) => sequences(count).map((n) => `lake:${n}`)
const replayed = (journal: Own, count: number) =>
  journal.replay(sequences(count).map((sequence) => ({ sequence, sinks: ["lake"] })))

const cases: ReadonlyArray<Case> = [
  {
    operation: "append, of a group",
    roundTrips: 1,
    most: 64,
    act: appended,
  },
  {
    operation: "append to the shared stream, of a group",
    roundTrips: 1,
    most: 64,
    given: (journal) => Effect.sync(() => journal.knowSinks?.([{ name: "lake", exclusive: true }])),
    act: appended,
  },
  { operation: "read", roundTrips: 1, most: 512, given: received, act: (journal) => journal.read(0, 1_000) },
  {
    operation: "settle, cursors alone",
    roundTrips: 1,
    most: 512,
    given: received,
    act: (journal, count) => journal.settle([settlement("lake", count + 1)]),
  },
  {
    operation: "settle, retries that are not in memory",
    roundTrips: 6,
    most: 512,
    given: received,
    act: (journal, count) => failed(journal, count, "retry"),
  },
  {
    operation: "settle, dead letters that are not in memory",
    roundTrips: 7,
    most: 512,
    given: received,
    act: (journal, count) => failed(journal, count, "deadLetter"),
  },
  {
    operation: "settle, dead letters that are taken back",
    roundTrips: 5,
    most: 512,
    given: (journal, count) => Effect.andThen(received(journal, count), failed(journal, count, "deadLetter")),
    act: (journal, count) =>
      journal.settle([
        settlement("lake", count + 1, {
          takeBack: sequences(count).map((sequence) => {
            const { failed: _, refunded: __, ...wait } = retrying(sequence)
            return wait
          }),
        }),
      ]),
  },
  {
    operation: "readRetries",
    roundTrips: 1,
    most: 256,
    given: (journal, count) => Effect.andThen(received(journal, count), failed(journal, count, "retry")),
    act: (journal, count) => journal.readRetries("lake", sequences(count)),
  },
  { operation: "openLane", roundTrips: 5, most: 512, given: received, act: (journal) => journal.openLane("shop") },
  {
    operation: "moveLane",
    roundTrips: 24,
    most: 200,
    given: received,
    act: (journal) => journal.moveLane("lake", "shop"),
  },
  { operation: "dropLane", roundTrips: 7, most: 512, given: received, act: (journal) => journal.dropLane("lake") },
  // A transaction: the links between an event and its copy are stored with the copy.
  { operation: "replay", roundTrips: 7, most: 256, given: received, act: replayed },
  {
    operation: "replay, of what the log was pruned of",
    roundTrips: 8,
    most: 256,
    given: (journal, count) => Effect.andThen(received(journal, count), failed(journal, count, "deadLetter")),
    act: replayed,
    isPruned: true,
  },
  {
    operation: "deadLetters",
    roundTrips: 1,
    most: 256,
    given: (journal, count) => Effect.andThen(received(journal, count), failed(journal, count, "deadLetter")),
    act: (journal, count) => journal.deadLetters({ lane: "lake", limit: count }),
  },
  {
    operation: "replayDeadLetters, a slice",
    roundTrips: 3,
    most: 64,
    given: (journal, count) => Effect.andThen(received(journal, count), failed(journal, count, "deadLetter")),
    act: (journal, count) => journal.replayDeadLetters(ids(count)),
  },
  {
    operation: "dropDeadLetters, a slice",
    roundTrips: 1,
    most: 64,
    given: (journal, count) => Effect.andThen(received(journal, count), failed(journal, count, "deadLetter")),
    act: (journal, count) => journal.dropDeadLetters(ids(count)),
  },
  {
    operation: "erase",
    roundTrips: 11,
    most: 64,
    given: (journal, count) => Effect.andThen(received(journal, count), failed(journal, count, "deadLetter")),
    act: (journal, count) => journal.erase(sequences(count), false),
  },
  {
    operation: "import",
    roundTrips: 7,
    most: 256,
    act: (journal, count) => journal.import("another", range(1, count).map(undelivered)),
  },
  {
    operation: "events, a page",
    roundTrips: 2,
    most: 64,
    given: received,
    act: (journal, count) => journal.events({ limit: count }),
  },
  {
    operation: "setPaused",
    roundTrips: 1,
    most: 512,
    given: received,
    act: (journal) => journal.setPaused("lake", true),
  },
  {
    operation: "endPause",
    roundTrips: 1,
    most: 512,
    given: received,
    act: (journal) => journal.endPause("lake", 1),
  },
  {
    operation: "audit.record",
    roundTrips: 1,
    most: 512,
    given: received,
    act: (journal) => journal.audit.record(operation()),
  },
  {
    operation: "audit.list",
    roundTrips: 1,
    most: 512,
    given: received,
    act: (journal, count) => journal.audit.list({ limit: count }),
  },
]

suiteUnless(reasonToSkip(), "round trips to PostgreSQL", () => {
  const far = Effect.gen(function* () {
    const { url, port, address } = yield* Effect.promise(sharedPostgres)
    const proxy = yield* Effect.acquireRelease(
      Effect.promise(() => makeDelayProxy(port, 1)),
      ({ close }) => Effect.promise(close),
    )
    const schema = `far_${process.pid}_${schemas++}`
    const db = yield* openDatabase(url.replace(address, `127.0.0.1:${proxy.port}`), { schema }, 1)
    yield* Effect.mapError(DatabaseSchema.migrate(db, schema), ({ message }) => unavailable(message))
    const journal = yield* PostgresJournal.make(db, {
      name: "one",
      retention: Duration.days(36_525),
      maxSize: 1024 ** 3,
      duplicates: { age: Duration.hours(24), count: 10_000 },
    })
    yield* journal.openLane("lake")
    // It has its connections from here on.
    yield* journal.append(event("first"), [])
    return { journal, db, roundTrips: proxy.roundTrips }
  })

  for (const { operation, roundTrips, most, given, isPruned, act } of cases) {
    it.effect(`${operation}: ${roundTrips}, for one event as for ${most}`, function* () {
      for (const count of [1, most]) {
        const one = Effect.gen(function* () {
          const { journal, db, roundTrips: made } = yield* far
          if (given !== undefined) yield* given(journal, count)
          if (isPruned === true) yield* db.query("DELETE FROM log")
          const before = made()
          yield* act(journal, count)
          expect([count, made() - before]).toEqual([count, roundTrips])
        })
        yield* Effect.scoped(one)
      }
    })
  }

  it.effect("a transaction begins with its first statement: one for each, and one for the commit", function* () {
    const { db, roundTrips } = yield* far
    const before = roundTrips()
    yield* db.transact((queries) => Effect.andThen(queries.query("SELECT 1"), queries.query("SELECT 2")))
    expect(roundTrips() - before).toBe(3)
  })

  it.effect("a lane that is behind reads on over what was pruned, however large the rows around it are", function* () {
    const { journal, db } = yield* far
    const body = new Uint8Array(1024 * 1024 + 1).fill(32)
    for (const id of ["a", "b", "c", "d"]) yield* journal.append(event(id, { body }), ["lake"])
    for (const after of [0, 1, 2, 3, 4]) yield* journal.read(after, 1, "lake")
    yield* db.query("DELETE FROM log WHERE first IN (3, 4)")
    const sequences = (after: number) =>
      Effect.map(journal.read(after, 10, "audit"), (entries) => entries.map(({ sequence }) => sequence))
    expect(yield* sequences(1)).toEqual([2])
    expect(yield* sequences(2)).toEqual([5])
    expect(yield* sequences(5)).toEqual([])
  })
})
