import { beforeAll, expect } from "bun:test"
import { Duration, Effect, Schema } from "effect"
import { unavailable } from "../../../src/journal/Journal.ts"
import { PostgresConfig } from "../../../src/journal/postgres/connection/PostgresConfig.ts"
import { inspect } from "../../../src/journal/postgres/DatabaseInspection.ts"
import * as PostgresJournal from "../../../src/journal/postgres/PostgresJournal.ts"
import * as DatabaseSchema from "../../../src/journal/postgres/tables/DatabaseSchema.ts"
import { it } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { makeDelayProxy } from "../../parts/DelayProxy.ts"
import { type Mode, reasonToSkip, startPgBouncer } from "../../parts/PgBouncer.ts"
import { type Postgres, sharedPostgres, user } from "../../parts/Postgres.ts"
import { event } from "../samples.ts"
import { openDatabase, ownPostgres, ownStandby } from "./database.ts"

let schemas = 0
const ownSchema = () => `pooled_${process.pid}_${schemas++}`

/** Starts PgBouncer for one test. */
const bouncer = (server: Postgres, mode: Mode, connections: number) =>
  Effect.acquireRelease(
    Effect.promise(() => startPgBouncer(server, mode, connections)),
    ({ stop }) => Effect.promise(stop),
  )

suiteUnless(reasonToSkip(), "the journal on PostgreSQL behind PgBouncer", () => {
  let server: Postgres
  beforeAll(async () => {
    server = await sharedPostgres()
  }, 60_000)

  for (const mode of ["session", "transaction"] as const) {
    it.live(`has its own settings in each statement and each transaction, in ${mode} mode`, function* () {
      // With one connection to the server, each transaction gets the session that another one left.
      const { url } = yield* bouncer(server, mode, mode === "session" ? 8 : 1)
      yield* Effect.acquireRelease(
        Effect.promise(() => server.sql(`ALTER ROLE ${user.name} SET synchronous_commit = off`)),
        () => Effect.promise(() => server.sql(`ALTER ROLE ${user.name} RESET ALL`)),
      )
      const first = yield* openDatabase(url, { schema: "pooled_first" })
      const second = yield* openDatabase(url, { schema: "pooled_second" })
      const settings = `SELECT current_setting('synchronous_commit') AS commit, current_setting('search_path') AS path,
          current_setting('enable_seqscan') AS scan, pg_backend_pid() AS process`
      const seen = new Set<unknown>()
      for (let round = 0; round < 3; round++) {
        for (const [database, path] of [
          [first, "pooled_first"],
          [second, "pooled_second"],
        ] as const) {
          const wanted = { commit: "on", path, scan: "off" }
          const alone = yield* database.query<{ process: number }>(settings, [])
          const named = yield* Effect.promise(() => database.queryUnsafe("append", settings, [], { name: "append" }))
          const within = yield* database.transact((queries) =>
            Effect.andThen(queries.query("SELECT 1"), queries.query(settings)),
          )
          expect([alone.rows, named, within.rows]).toMatchObject([[wanted], { success: { rows: [wanted] } }, [wanted]])
          for (const { process } of alone.rows) seen.add(process)
        }
      }
      // In transaction mode both databases had the same connection.
      expect(seen.size).toBe(mode === "session" ? 2 : 1)
      expect(first.server()?.isPooled).toBe(true)
    })

    it.live(`appends, settles and finds events, in ${mode} mode`, function* () {
      const { url } = yield* bouncer(server, mode, mode === "session" ? 8 : 2)
      const schema = ownSchema()
      const database = yield* openDatabase(url, { schema })
      yield* Effect.mapError(DatabaseSchema.migrate(database, schema), ({ message }) => unavailable(message))
      const journal = yield* PostgresJournal.make(database, {
        name: "one",
        retention: Duration.days(1),
        maxSize: 1024 ** 3,
        duplicates: { age: Duration.hours(24), count: 10_000 },
      })
      yield* journal.openLane("lake")
      const append = (id: string) => journal.append(event(id), ["lake"])
      expect(yield* Effect.forEach(["a", "b", "a"], append)).toEqual(["appended", "appended", "duplicate"])
      const entries = yield* journal.read(0, 10)
      expect(entries.map(({ event }) => event.id)).toEqual(["a", "b"])
    })
  }

  it.live("takes no more round trips than a direct connection", function* () {
    const { url, address, port } = yield* bouncer(server, "transaction", 2)
    const proxy = yield* Effect.acquireRelease(
      Effect.promise(() => makeDelayProxy(port, 1)),
      ({ close }) => Effect.promise(close),
    )
    const database = yield* openDatabase(url.replace(address, `127.0.0.1:${proxy.port}`), {}, 1)
    yield* database.query("SELECT 1")
    const connected = proxy.roundTrips()
    yield* database.query("SELECT 1")
    expect(proxy.roundTrips() - connected).toBe(1)
    yield* database.transact((queries) => Effect.andThen(queries.query("SELECT 1"), queries.query("SELECT 2")))
    expect(proxy.roundTrips() - connected).toBe(4)
  })

  it.live("reports in validate and doctor that a pooler is in front of the server", function* () {
    const { url, address } = yield* bouncer(server, "transaction", 1)
    const config = Schema.decodeUnknownSync(PostgresConfig)({ url, schema: ownSchema() })
    const found = yield* inspect(config)
    expect(found.filter(({ verdict }) => verdict === "wrong")).toEqual([])
    expect(found).toContainEqual({
      verdict: "ok",
      message: expect.stringContaining(`there is a pooler at ${address}`),
    })
    const direct = yield* inspect(Schema.decodeUnknownSync(PostgresConfig)({ url: server.url, schema: ownSchema() }))
    expect(JSON.stringify(direct)).not.toContain("pooler")
  })

  it.live("refuses a pooler without transactions, and names the setting", function* () {
    const { url, address } = yield* bouncer(server, "statement", 2)
    const database = yield* openDatabase(url, {})
    const refused = yield* Effect.flip(database.query("SELECT 1"))
    expect(refused.reason).toBe("misconfigured")
    expect(refused.message).toContain(`PostgreSQL at ${address}: it is a pooler that has no transactions`)
  })

  it.live(
    "does nothing on the server that a pooler went over to, until it has connected anew",
    function* () {
      const first = yield* ownPostgres()
      yield* Effect.promise(() => first.sql(`CREATE TABLE kept (a int); ALTER TABLE kept OWNER TO ${user.name}`))
      const second = yield* ownStandby(first, "synchronous")
      const { url, pointTo } = yield* bouncer(first, "transaction", 2)
      const database = yield* openDatabase(url, { schema: "public", connectTimeout: 2_000 }, 1)
      const write = database.query("INSERT INTO kept VALUES (1)")
      yield* write
      yield* Effect.promise(first.kill)
      yield* Effect.promise(second.promote)
      yield* Effect.promise(() => pointTo(second.port))
      // The pooler notices the change when another client connects.
      const other = yield* openDatabase(url, { schema: "public", connectTimeout: 2_000 }, 1)
      yield* Effect.eventually(other.query("SELECT 1"))
      expect(yield* Effect.flip(write)).toMatchObject({
        reason: "unavailable",
        message: expect.stringContaining("leads to another server"),
      })
      yield* write
      expect(yield* Effect.promise(() => second.sql("SELECT a FROM kept"))).toHaveLength(2)
    },
    60_000,
  )
})
