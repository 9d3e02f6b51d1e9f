import { beforeAll, expect } from "bun:test"
import { Effect, Schema } from "effect"
import { ConfigInForce } from "../../../src/journal/JournalContext.ts"
import * as PooledDatabase from "../../../src/journal/postgres/connection/PooledDatabase.ts"
import { PostgresConfig } from "../../../src/journal/postgres/connection/PostgresConfig.ts"
import { inspect, survival } from "../../../src/journal/postgres/DatabaseInspection.ts"
import { latest, migrate } from "../../../src/journal/postgres/tables/DatabaseSchema.ts"
import { readPage } from "../../lib/docs.ts"
import { it } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { type Postgres, reasonToSkip, sharedPostgres, user } from "../../parts/Postgres.ts"
import { openDatabase } from "./database.ts"

const decode = Schema.decodeUnknownSync(PostgresConfig)

suiteUnless(reasonToSkip(), "what validate and doctor say of the journal on PostgreSQL", () => {
  let server: Postgres
  beforeAll(async () => {
    server = await sharedPostgres()
    await server.sql("DROP ROLE IF EXISTS looker; CREATE ROLE looker LOGIN PASSWORD 'looker'")
  }, 60_000)

  const sql = (text: string) => Effect.promise(() => server.sql(text))
  const looked = (schema: string, url = server.url) => inspect(decode({ url, schema }))
  const asLooker = () => server.url.replace(`${user.name}:${user.password}`, "looker:looker")
  const worst = (found: Effect.Success<ReturnType<typeof looked>>) =>
    found.filter(({ verdict }) => verdict === "wrong").map(({ message }) => message)

  it.live("shows the version, the clock's difference, and which failures a 2xx survives", function* () {
    const found = yield* looked("inspected_none")
    expect(worst(found)).toEqual([])
    expect(found).toContainEqual({
      verdict: "ok",
      message: expect.stringMatching(/^PostgreSQL 18\.\d+ at 127\.0\.0\.1:\d+ takes writes, with fsync$/),
    })
    expect(found).toContainEqual({ verdict: "ok", message: expect.stringMatching(/clock is \d+ ms/) })
    expect(found).toContainEqual({ verdict: "ok", message: expect.stringContaining("the relay creates it") })
    expect(found).toContainEqual({ verdict: "warning", message: expect.stringContaining("no synchronous standby") })
  })

  it.live("names each missing right, with its GRANT", function* () {
    const database = yield* openDatabase(server.url, { schema: "inspected" })
    expect(worst(yield* looked("inspected", asLooker()))[0]).toContain("CREATE SCHEMA inspected AUTHORIZATION")
    yield* migrate(database, "inspected")
    expect(worst(yield* looked("inspected", asLooker()))[0]).toContain("GRANT USAGE ON SCHEMA inspected")
    yield* sql("GRANT USAGE ON SCHEMA inspected TO looker; GRANT SELECT, INSERT, DELETE ON inspected.log TO looker")
    const [tables] = worst(yield* looked("inspected", asLooker()))
    expect(tables).toContain("log, member, meta")
    expect(tables).toContain("ON ALL TABLES IN SCHEMA inspected")
    yield* sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA inspected TO looker")
    const found = yield* looked("inspected", asLooker())
    expect(worst(found)).toEqual([])
    expect(found).toContainEqual({ verdict: "ok", message: `the schema inspected has version ${latest}` })
    yield* database.query("UPDATE meta SET value = '0' WHERE key = 'version'")
    expect(worst(yield* looked("inspected", asLooker()))[0]).toContain("start one relay as its owner")
    yield* database.query("UPDATE meta SET value = $1 WHERE key = 'version'", [String(latest + 1)])
    expect(worst(yield* looked("inspected"))[0]).toContain("a newer relay wrote")
  })

  it.live("finds the rights of docs/reference/rights.md enough", function* () {
    const database = yield* openDatabase(server.url, { schema: "by_page" })
    yield* migrate(database, "by_page")
    const [, grants = ""] = /^```sql\n(.*?)^```/ms.exec(readPage("docs/reference/rights.md")) ?? []
    yield* sql(grants.replaceAll("SCHEMA relay", "SCHEMA by_page").replaceAll("relay_runtime", "looker"))
    expect(worst(yield* looked("by_page", asLooker()))).toEqual([])
  })

  for (const encoding of ["LATIN1", "SQL_ASCII"]) {
    it.live(`refuses a database whose encoding is ${encoding}`, function* () {
      const name = `in_${encoding.toLowerCase()}`
      yield* sql(`CREATE DATABASE ${name} ENCODING '${encoding}' TEMPLATE template0`)
      const url = server.url.replace(/relay$/, name)
      const expected = expect.stringContaining(`the encoding of the database is ${encoding}`)
      expect(yield* looked("relay", url)).toEqual([{ verdict: "wrong", message: expected }])
      const database = yield* openDatabase(url)
      const refused = yield* Effect.flip(migrate(database, "relay"))
      expect(refused).toMatchObject({ reason: "misconfigured", message: expected })
    })
  }

  it.live("says why it can't be used, without a password", function* () {
    const found = yield* looked("relay", server.url.replace(user.password, "wrong-canary"))
    expect(found).toMatchObject([{ verdict: "wrong", message: expect.stringContaining("the password is wrong") }])
    expect(JSON.stringify(found)).not.toContain("canary")
  })

  it.live("says that commits wait while the synchronous standby is unavailable, if it may see that", () =>
    Effect.sync(() => {
      const named = { standbys: "db-2", synchronous: 0 }
      expect(survival({ ...named, seesStandbys: true })).toMatchObject({ verdict: "wrong" })
      expect(survival({ ...named, seesStandbys: false })).toMatchObject({ verdict: "ok" })
      expect(survival({ ...named, seesStandbys: true, synchronous: 1 })).toMatchObject({ verdict: "ok" })
    }),
  )

  it.live("connects with the password of the config in force", function* () {
    const url = server.url.replace(`:${user.password}`, "")
    let inForce: PostgresConfig | undefined
    const database = yield* Effect.provideService(
      PooledDatabase.ofConfig(decode({ url, password: "outdated" })),
      ConfigInForce,
      () => inForce && { type: "postgres", ...inForce },
    )
    expect(yield* Effect.flip(database.query("SELECT 1"))).toMatchObject({ code: "28P01" })
    inForce = decode({ url, password: user.password })
    yield* database.query("SELECT 1")
  })
})
