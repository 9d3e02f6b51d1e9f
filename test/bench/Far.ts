/**
 * A relay whose database is in another place: each round trip takes some milliseconds, however fast the database is.
 */
import { Effect, Schema } from "effect"
import { unavailable } from "../../src/journal/Journal.ts"
import * as PooledDatabase from "../../src/journal/postgres/connection/PooledDatabase.ts"
import { connectionOf, PostgresConfig } from "../../src/journal/postgres/connection/PostgresConfig.ts"
import * as PostgresJournal from "../../src/journal/postgres/PostgresJournal.ts"
import * as DatabaseSchema from "../../src/journal/postgres/tables/DatabaseSchema.ts"
import { makeDelayProxy } from "../parts/DelayProxy.ts"
import type { Postgres } from "../parts/Postgres.ts"
import { BenchError } from "./BenchError.ts"
import * as Fill from "./Fill.ts"
import * as Fleet from "./Fleet.ts"
import type * as Report from "./Report.ts"
import * as Requests from "./Requests.ts"
import * as Target from "./Target.ts"

/** Milliseconds each way, as between two zones of a region. */
export const delay = 2

/** Returns the database's URL through a proxy that delays. */
const through = Effect.fnUntraced(function* ({ port, url, address }: Postgres) {
  const proxy = yield* Effect.acquireRelease(
    Effect.promise(() => makeDelayProxy(port, delay)),
    ({ close }) => Effect.promise(close),
  )
  return url.replace(address, `127.0.0.1:${proxy.port}`)
})

export const relay = Effect.fnUntraced(function* (setup: Target.Setup, postgres: Postgres, name: string) {
  return yield* Fleet.relay(setup, { ...postgres, url: yield* through(postgres) }, name)
})

/** The number of pending events. The first `retries` of them wait for a retry. */
const backlog = { events: 100_000, retries: 5_000 }
/** One attempt in this many fails, so retries start and end while the backlog drains. */
const failing = 50

const group = 256

/** Fills the journal with a backlog, as a relay of this name leaves it if it stops while its sink is down. */
const fill = Effect.fnUntraced(function* (url: string, name: string, lane: string) {
  const config = Schema.decodeUnknownSync(PostgresConfig)({ url, name })
  const database = yield* PooledDatabase.open({ connection: () => connectionOf(config), poolSize: 2 })
  yield* Effect.mapError(DatabaseSchema.migrate(database, config.schema), ({ message }) => unavailable(message))
  const journal = yield* PostgresJournal.make(database, { ...config, name })
  yield* journal.openLane(lane)
  const run = Requests.newRun()
  for (let from = 0; from < backlog.events; from += group) {
    const to = Math.min(backlog.events, from + group)
    const appends = Fill.events(run, from, to).map((event) => journal.appendUnsafe(event, [lane]))
    yield* Effect.promise(() => Promise.all(appends))
    const waiting = Math.min(to, backlog.retries) - from
    if (waiting <= 0) continue
    const sequence = (yield* journal.head) - (to - from)
    const retry = Array.from({ length: waiting }, (_, index) => ({
      ...{ sequence: sequence + index + 1, key: "", due: Date.now(), delay: 0, firstAttemptAt: Date.now() },
      ...{ tried: 1, refunded: 0, failed: [] },
    }))
    const cursor = { sequence: sequence + waiting, settled: [] }
    yield* journal.settle([
      {
        lane,
        cursor,
        retry,
        takeBack: [],
        endRetry: [],
        deadLetter: [],
        delivered: [],
        late: [],
        dropped: [],
        counted: [],
        alerts: [],
        pausedFor: 0,
      },
    ])
  }
}, Effect.scoped)

export const drain = Effect.fnUntraced(function* (setup: Target.Setup) {
  const postgres = yield* Fleet.database
  const name = "far, with a backlog"
  yield* Effect.mapError(fill(postgres.url, name, "http"), ({ message }) => new BenchError({ message }))
  const started = performance.now()
  const url = yield* through(postgres)
  const relay = yield* Target.relayToFlaky(setup, name, failing, { type: "postgres", url, name })
  // The last retries wait for their time, not for the database.
  const nearlyAll = backlog.events * 0.99
  const most = yield* Target.awaitDelivered(relay, nearlyAll)
  const rate = most / ((performance.now() - started) / 1000)
  const delivered = yield* Target.awaitDelivered(relay, backlog.events)
  const title = `${backlog.events.toLocaleString("en")} events behind ${backlog.retries.toLocaleString("en")} retries, ${delay} ms away each way`
  process.stdout.write(`\n${title}: ${rate.toFixed(0)} delivered a second, its start included\n`)
  const verdicts: ReadonlyArray<Report.Verdict> = [
    { requirement: "far: a backlog behind retries drains at 5,000/s", measured: rate.toFixed(0), ok: rate >= 5_000 },
    {
      requirement: "far: all of it is delivered",
      measured: `${backlog.events - delivered} lost`,
      ok: delivered >= backlog.events,
    },
  ]
  return verdicts
})
