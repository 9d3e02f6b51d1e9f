import { beforeAll, expect } from "bun:test"
import { Deferred, Effect, Fiber } from "effect"
import { find, latest, migrate } from "../../../../src/journal/postgres/tables/DatabaseSchema.ts"
import { relayVersion } from "../../../../src/runtime/Version.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { type Postgres, reasonToSkip, sharedPostgres, user } from "../../../parts/Postgres.ts"
import { openDatabase } from "../database.ts"

suiteUnless(reasonToSkip(), "the schema of the journal on PostgreSQL", () => {
  let server: Postgres
  beforeAll(async () => {
    server = await sharedPostgres()
  }, 60_000)

  const open = (schema: string) => openDatabase(server.url, { schema })
  const sql = (text: string) => Effect.promise(() => server.sql(text))

  it.live("is created if it is missing, and left unchanged if it is known", function* () {
    const database = yield* open('made "here"')
    expect(yield* find(database, "made")).toEqual({ version: 0 })
    yield* migrate(database, 'made "here"')
    yield* database.query("INSERT INTO sink (name) VALUES ('kept')")
    yield* migrate(database, 'made "here"')
    expect(yield* find(database, "made")).toEqual({ version: latest })
    expect((yield* database.query("SELECT name FROM sink")).rows).toEqual([{ name: "kept" }])
    expect((yield* database.query("SELECT id FROM stream")).rows).toEqual([{ id: 1 }])
  })

  it.live("is made once by relays that start together", function* () {
    const relays = yield* Effect.all(Array.from({ length: 4 }, () => open("together")))
    yield* Effect.all(
      relays.map((database) => migrate(database, "together")),
      { concurrency: "unbounded" },
    )
    expect(yield* Effect.map(sql("SELECT count(*)::int AS count FROM together.stream"), ([row]) => row)).toEqual({
      count: 1,
    })
  })

  it.live("gets each step once, and nothing of a failed step", function* () {
    const database = yield* open("stepwise")
    yield* migrate(database, "stepwise")
    const before = Array.from({ length: latest }, () => "SELECT 1/0")
    const more = [...before, "CREATE TABLE next (a int)"]
    const failing = [...more, "CREATE TABLE after_next (a int); SELECT 1/0"]
    expect(yield* Effect.flip(migrate(database, "stepwise", { to: failing }))).toMatchObject({ reason: "failed" })
    expect((yield* sql("SELECT tablename FROM pg_tables WHERE tablename = 'next'")).length).toBe(0)
    yield* migrate(database, "stepwise", { to: more })
    expect(yield* find(database, "stepwise")).toMatchObject({ version: latest + 1 })
  })

  it.live(
    "gets a step once nobody uses the table, and makes nobody wait until then",
    function* () {
      const database = yield* open("used")
      yield* migrate(database, "used")
      const [other, third] = [yield* open("used"), yield* open("used")]
      const to = [...Array.from({ length: latest }, () => ""), "ALTER TABLE sink ADD COLUMN next text"]
      // This transaction reads for a while, as pg_dump does.
      const ended = yield* Deferred.make<void>()
      const began = yield* Deferred.make<void>()
      const reading = yield* Effect.forkChild(
        other.transact(({ query }) =>
          Effect.andThen(query("SELECT FROM sink"), Deferred.succeed(began, undefined)).pipe(
            Effect.andThen(Deferred.await(ended)),
          ),
        ),
      )
      yield* Deferred.await(began)
      const step = yield* Effect.forkChild(migrate(database, "used", { to }))
      const waits = sql("SELECT FROM pg_locks WHERE NOT granted AND relation = 'used.sink'::regclass")
      while ((yield* waits).length === 0) yield* Effect.sleep("5 millis")
      yield* third.query("INSERT INTO sink (name) VALUES ('meanwhile')")
      yield* Deferred.succeed(ended, undefined)
      yield* Fiber.join(reading)
      yield* Fiber.join(step)
      expect((yield* third.query("SELECT name, next FROM sink")).rows).toEqual([{ name: "meanwhile", next: null }])
    },
    30_000,
  )

  it.live("is refused when a newer relay wrote it, by its version", function* () {
    const database = yield* open("newer")
    yield* migrate(database, "newer")
    yield* database.query("UPDATE meta SET value = $1 WHERE key = 'version'", [String(latest + 1)])
    yield* database.query("UPDATE meta SET value = '9.9.9' WHERE key = 'writer'")
    const refused = yield* Effect.flip(migrate(database, "newer"))
    expect(refused).toMatchObject({
      reason: "misconfigured",
      message: `relay 9.9.9 wrote the schema newer, which is too new for this relay (${relayVersion}): run relay 9.9.9 or later, or restore a backup from before the upgrade`,
    })
  })

  it.live("wants no right to the database but that to its own schema", function* () {
    yield* sql("CREATE ROLE least LOGIN PASSWORD 'least'; CREATE SCHEMA granted AUTHORIZATION least")
    const url = server.url.replace(`${user.name}:${user.password}`, "least:least")
    const granted = yield* openDatabase(url, { schema: "granted" })
    yield* migrate(granted, "granted")
    const ungranted = yield* openDatabase(url, { schema: "ungranted" })
    const refused = yield* Effect.flip(migrate(ungranted, "ungranted"))
    expect(refused).toMatchObject({ reason: "misconfigured", code: "42501" })
  })
})
