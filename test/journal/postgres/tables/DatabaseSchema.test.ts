import { beforeAll, expect } from "bun:test"
import { Effect } from "effect"
import { latest, migrate, versionOf } from "../../../../src/journal/postgres/tables/DatabaseSchema.ts"
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

  it.live("is made where there is none, and stays as it is where it is known", () =>
    Effect.gen(function* () {
      const database = yield* open('made "here"')
      expect(yield* versionOf(database)).toBe(0)
      yield* migrate(database, 'made "here"')
      yield* database.query("INSERT INTO sink (name) VALUES ('kept')")
      yield* migrate(database, 'made "here"')
      expect(yield* versionOf(database)).toBe(latest)
      expect((yield* database.query("SELECT name FROM sink")).rows).toEqual([{ name: "kept" }])
      expect((yield* database.query("SELECT id FROM stream")).rows).toEqual([{ id: 1 }])
    }),
  )

  it.live("is made once by relays that start together", () =>
    Effect.gen(function* () {
      const relays = yield* Effect.all(Array.from({ length: 4 }, () => open("together")))
      yield* Effect.all(
        relays.map((database) => migrate(database, "together")),
        { concurrency: "unbounded" },
      )
      expect(yield* Effect.map(sql("SELECT count(*)::int AS count FROM together.stream"), ([row]) => row)).toEqual({
        count: 1,
      })
    }),
  )

  it.live("gets each step once, and none of a step that failed", () =>
    Effect.gen(function* () {
      const database = yield* open("stepwise")
      yield* migrate(database, "stepwise")
      const before = Array.from({ length: latest }, () => "SELECT 1/0")
      const more = [...before, "CREATE TABLE next (a int)"]
      const failing = [...more, "CREATE TABLE after_next (a int); SELECT 1/0"]
      expect(yield* Effect.flip(migrate(database, "stepwise", { to: failing }))).toMatchObject({ reason: "failed" })
      expect((yield* sql("SELECT tablename FROM pg_tables WHERE tablename = 'next'")).length).toBe(0)
      yield* migrate(database, "stepwise", { to: more })
      expect(yield* versionOf(database)).toBe(latest + 1)
    }),
  )

  it.live("is refused when a newer relay wrote it", () =>
    Effect.gen(function* () {
      const database = yield* open("newer")
      yield* migrate(database, "newer")
      yield* database.query("UPDATE meta SET value = $1 WHERE key = 'version'", [String(latest + 1)])
      const refused = yield* Effect.flip(migrate(database, "newer"))
      expect(refused).toMatchObject({
        reason: "misconfigured",
        message: expect.stringContaining(`version ${latest + 1}`),
      })
    }),
  )

  it.live("wants no right to the database but that to its own schema", () =>
    Effect.gen(function* () {
      yield* sql("CREATE ROLE least LOGIN PASSWORD 'least'; CREATE SCHEMA granted AUTHORIZATION least")
      const url = server.url.replace(`${user.name}:${user.password}`, "least:least")
      const granted = yield* openDatabase(url, { schema: "granted" })
      yield* migrate(granted, "granted")
      const ungranted = yield* openDatabase(url, { schema: "ungranted" })
      const refused = yield* Effect.flip(migrate(ungranted, "ungranted"))
      expect(refused).toMatchObject({ reason: "misconfigured", code: "42501" })
    }),
  )
})
