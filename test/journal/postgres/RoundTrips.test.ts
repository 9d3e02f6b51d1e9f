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
import { freezable, quiet } from "./relays.ts"

let schemas = 0

type Own = WholeJournal

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)

/** The first event of each journal has no sink. */
const sequences = (count: number) => range(2, count + 1)

const appended = (journal: Own, count: number) =>
  Effect.forEach(sequences(count), (n) => journal.append(event(`e${n}`), ["lake"]), { concurrency: "unbounded" })

/** Appends this many events for the lane, which reads them, so memory no longer has them. */
const received = (journal: Own, count: number) =>
  Effect.andThen(appended(journal, count), journal.read(0, 1_000, "lake"))

/** Settles all of the lane's events as retries or as dead letters. */
const failed = (journal: Own, count: number, as: "retry" | "deadLetter") => {
  const all = sequences(count)
  const changes = as === "retry" ? { retry: all.map((n) => retrying(n)) } : { deadLetter: all.map(letter) }
  return journal.settle([settlement("lake", count + 1, changes)])
}

type Act = (journal: Own, count: number) => Effect.Effect<unknown, unknown>

/** The round trips are the same for one event as for `most`, which go together. */
type Case = readonly [roundTrips: number, most: number, given: Act | undefined, act: Act, isPruned?: boolean]

const undelivered = (n: number) => ({ sequence: n, event: event(`i${n}`), replayed: false, pending: ["lake"] })
const ids = (count: number) => sequences(count).map((n) => `lake:${n}`)
const replayed = (journal: Own, count: number) =>
  journal.replay(sequences(count).map((sequence) => ({ sequence, sinks: ["lake"] })))

const cases: Readonly<Record<string, Case>> = {
  "append, of a group": [1, 64, undefined, appended],
  "append to the shared stream, of a group": [
    1,
    64,
    (journal) => Effect.sync(() => journal.knowSinks?.([{ name: "lake", exclusive: true }])),
    appended,
  ],
  read: [1, 512, received, (journal) => journal.read(0, 1_000)],
  "settle, cursors alone": [1, 512, received, (journal, count) => journal.settle([settlement("lake", count + 1)])],
  "settle, retries that are not in memory": [6, 512, received, (journal, count) => failed(journal, count, "retry")],
  "settle, dead letters that are not in memory": [
    7,
    512,
    received,
    (journal, count) => failed(journal, count, "deadLetter"),
  ],
  "settle, dead letters that are taken back": [
    5,
    512,
    (journal, count) => Effect.andThen(received(journal, count), failed(journal, count, "deadLetter")),
    (journal, count) =>
      journal.settle([
        settlement("lake", count + 1, {
          takeBack: sequences(count).map((sequence) => {
            const { failed: _, refunded: __, ...wait } = retrying(sequence)
            return wait
          }),
        }),
      ]),
  ],
  readRetries: [
    1,
    256,
    (journal, count) => Effect.andThen(received(journal, count), failed(journal, count, "retry")),
    (journal, count) => journal.readRetries("lake", sequences(count)),
  ],
  openLane: [5, 512, received, (journal) => journal.openLane("shop")],
  moveLane: [26, 200, received, (journal) => journal.moveLane("lake", "shop")],
  dropLane: [8, 512, received, (journal) => journal.dropLane("lake")],
  // A transaction: the links between an event and its copy are stored with the copy.
  replay: [7, 256, received, replayed],
  "replay, of what the log was pruned of": [
    8,
    256,
    (journal, count) => Effect.andThen(received(journal, count), failed(journal, count, "deadLetter")),
    replayed,
    true,
  ],
  deadLetters: [
    1,
    256,
    (journal, count) => Effect.andThen(received(journal, count), failed(journal, count, "deadLetter")),
    (journal, count) => journal.deadLetters({ lane: "lake", limit: count }),
  ],
  "replayDeadLetters, a slice": [
    3,
    64,
    (journal, count) => Effect.andThen(received(journal, count), failed(journal, count, "deadLetter")),
    (journal, count) => journal.replayDeadLetters(ids(count)),
  ],
  "dropDeadLetters, a slice": [
    1,
    64,
    (journal, count) => Effect.andThen(received(journal, count), failed(journal, count, "deadLetter")),
    (journal, count) => journal.dropDeadLetters(ids(count)),
  ],
  erase: [
    11,
    64,
    (journal, count) => Effect.andThen(received(journal, count), failed(journal, count, "deadLetter")),
    (journal, count) => journal.erase(sequences(count), false),
  ],
  import: [7, 256, undefined, (journal, count) => journal.import("another", range(1, count).map(undelivered))],
  "events, a page": [2, 64, received, (journal, count) => journal.events({ limit: count })],
  alerts: [1, 1, undefined, (journal) => journal.alerts],
  setPaused: [1, 512, received, (journal) => journal.setPaused("lake", true)],
  endPause: [1, 512, received, (journal) => journal.endPause("lake", 1)],
  "audit.record": [1, 512, received, (journal) => journal.audit.record(operation())],
  "audit.list": [1, 512, received, (journal, count) => journal.audit.list({ limit: count })],
}

suiteUnless(reasonToSkip(), "round trips to PostgreSQL", () => {
  const far = Effect.gen(function* () {
    const { url, port, address } = yield* Effect.promise(sharedPostgres)
    const proxy = yield* Effect.acquireRelease(
      Effect.promise(() => makeDelayProxy(port, 1)),
      ({ close }) => Effect.promise(close),
    )
    const schema = `far_${process.pid}_${schemas++}`
    const { db } = freezable(yield* openDatabase(url.replace(address, `127.0.0.1:${proxy.port}`), { schema }, 1))
    yield* Effect.mapError(DatabaseSchema.migrate(db, schema), ({ message }) => unavailable(message))
    const journal = yield* PostgresJournal.make(db, {
      name: "one",
      retention: Duration.days(36_525),
      maxSize: 1024 ** 3,
      duplicates: { age: Duration.hours(24), count: 10_000 },
    })
    yield* journal.openLane("lake")
    // The journal opens its connections for this event.
    yield* journal.append(event("first"), [])
    return { journal, db, roundTrips: proxy.roundTrips }
  })

  for (const [operation, [roundTrips, most, given, act, isPruned]] of Object.entries(cases)) {
    it.effect(`${operation}: ${roundTrips}, for one event as for ${most}`, function* () {
      for (const count of [1, most]) {
        const one = Effect.gen(function* () {
          const { journal, db, roundTrips: made } = yield* far
          if (given !== undefined) yield* given(journal, count)
          if (isPruned === true) yield* db.query("DELETE FROM log")
          // The journal's first rounds, such as the count of dead letters, may still run on a busy machine.
          yield* quiet
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

  it.effect("a lane that is behind continues over pruned rows, however large the rows around them are", function* () {
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
