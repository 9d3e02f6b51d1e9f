import { beforeAll, describe, expect } from "bun:test"
import { Effect, Fiber, Result, Schedule } from "effect"
import type { ConnectionOptions } from "../../../../src/journal/postgres/connection/Connection.ts"
import type { Database } from "../../../../src/journal/postgres/connection/Database.ts"
import type { DatabaseError } from "../../../../src/journal/postgres/connection/DatabaseError.ts"
import * as PooledDatabase from "../../../../src/journal/postgres/connection/PooledDatabase.ts"
import { lacking } from "../../../lib/authority.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import {
  makePostgres,
  type Postgres,
  type Release,
  reasonToSkip,
  sharedPostgres,
  user,
} from "../../../parts/Postgres.ts"
import { makeProxy } from "../../../parts/Proxy.ts"
import { connectionTo, openDatabase, ownPostgres, ownStandby } from "../database.ts"

const failureOf = <A, R>(effect: Effect.Effect<A, DatabaseError, R>) => Effect.flip(effect)

const writes = (database: Database) => database.query("INSERT INTO kept VALUES ($1)", [1])

const suite = (title: string, release: Release, make: () => Promise<Postgres>): void =>
  suiteUnless(reasonToSkip(release), title, () => {
    let server: Postgres
    beforeAll(async () => {
      server = await make()
      await server.sql(
        `CREATE SCHEMA IF NOT EXISTS database_test AUTHORIZATION ${user.name}; CREATE TABLE database_test.closed (a int)`,
      )
    }, 60_000)
    const open = (more: Partial<ConnectionOptions> = {}, poolSize = 2) =>
      openDatabase(server.url, { schema: "database_test", ...more }, poolSize)

    const sql = (text: string) => Effect.promise(() => server.sql(text))

    /** Changes a setting of the server for one test. */
    const set = (name: string, value: string) => {
      const alter = async (to: string, shows: string): Promise<void> => {
        await server.sql(`ALTER SYSTEM SET ${name} ${to}`)
        await server.sql("SELECT pg_reload_conf()")
        while ((await server.sql(`SELECT 1 WHERE current_setting('${name}') = '${shows}'`)).length === 0)
          await Bun.sleep(5)
      }
      return Effect.acquireRelease(
        Effect.promise(async () => {
          const [before] = await server.sql(`SELECT current_setting('${name}') AS value`)
          await alter(`= '${value}'`, value)
          return String(before?.value)
        }),
        (before) => Effect.promise(() => alter(`= '${before}'`, before)),
      )
    }

    it.live("gives numbers, bytes and arrays as they are", function* () {
      const database = yield* open()
      const sql = `SELECT $1::bigint AS big, $2::bytea AS bytes, $3::int[] AS ints, $4::jsonb AS json, '{4398046511104}'::bigint[] AS bigs`
      const params = [2 ** 42, Buffer.from([0, 255]), [1, 2], JSON.stringify({ a: [1] })]
      const { rows, count } = yield* database.query(sql, params)
      expect(rows).toEqual([
        { big: 2 ** 42, bytes: Buffer.from([0, 255]), ints: [1, 2], json: { a: [1] }, bigs: [2 ** 42] },
      ])
      expect(count).toBe(1)
      expect(database.server()?.versionNumber).toBeGreaterThan(140_000)
    })

    it.live("has the session settings for durable commits, whatever the server's defaults", function* () {
      const role = (setting: string) => server.sql(`ALTER ROLE ${user.name} ${setting}`)
      yield* Effect.acquireRelease(
        Effect.promise(() => role("SET synchronous_commit = off")),
        () => Effect.promise(() => role("RESET ALL")),
      )
      yield* Effect.promise(() => role("SET client_min_messages = error"))
      const database = yield* open()
      for (const [name, value] of [
        ["synchronous_commit", "on"],
        ["client_min_messages", "warning"],
        ["search_path", "database_test"],
        ["application_name", "relay test"],
      ]) {
        const { rows } = yield* database.query("SELECT current_setting($1) AS value", [name])
        expect(rows).toEqual([{ value }])
      }
    })

    it.live("finds a row by its index in a small table too: a plan is kept while the table grows", function* () {
      const database = yield* open({}, 1)
      yield* database.query("CREATE TABLE small (a int PRIMARY KEY)")
      yield* database.query("INSERT INTO small VALUES (1)")
      yield* database.query("ANALYZE small")
      const { rows } = yield* database.query("EXPLAIN SELECT a FROM small WHERE a = 1")
      expect(JSON.stringify(rows)).toContain("using small_pkey")
    })

    it.live("keeps all of a transaction, and nothing of one that failed or was interrupted", function* () {
      const database = yield* open({}, 1)
      yield* database.query("CREATE TABLE whole (a int PRIMARY KEY)")
      const insert = (a: number) => (tx: Pick<Database, "query">) => tx.query("INSERT INTO whole VALUES ($1)", [a])
      expect(yield* database.transact((tx) => Effect.as(insert(1)(tx), "done"))).toBe("done")
      expect(yield* Effect.flip(database.transact((tx) => Effect.andThen(insert(2)(tx), Effect.fail("no"))))).toBe("no")
      const swallowed = database.transact((tx) => Effect.ignore(insert(1)(tx)))
      expect(yield* failureOf(swallowed)).toMatchObject({ reason: "failed", isLost: false })
      const asleep = yield* Effect.forkChild(
        database.transact((tx) => Effect.andThen(insert(3)(tx), tx.query("SELECT pg_sleep(60)"))),
      )
      yield* Effect.sleep("50 millis")
      yield* Fiber.interrupt(asleep)
      expect((yield* database.query("SELECT a FROM whole")).rows).toEqual([{ a: 1 }])
    })

    it.live("shows in its reason what to do next, and shows no value", function* () {
      const database = yield* open()
      yield* database.query("CREATE TABLE kept_once (a text PRIMARY KEY)")
      const insert = database.query("INSERT INTO kept_once VALUES ($1)", ["canary"])
      yield* insert
      const conflict = yield* failureOf(insert)
      expect(conflict).toMatchObject({ reason: "conflict", code: "23505", isLost: false })
      expect(JSON.stringify(conflict)).not.toContain("canary")
      const denied = yield* failureOf(database.query("SELECT * FROM closed"))
      expect(denied).toMatchObject({ reason: "misconfigured", code: "42501" })
      expect(denied.message).toContain("GRANT")
      expect(yield* failureOf(database.query("SELECT nothing"))).toMatchObject({ reason: "failed", code: "42703" })
    })

    it.live("says why it can't log in", function* () {
      const wrong = (url: string) =>
        Effect.flatMap(openDatabase(url), (database) => failureOf(database.query("SELECT 1")))
      const password = yield* wrong(server.url.replace(user.password, "wrong-canary"))
      expect(password).toMatchObject({ reason: "misconfigured", code: "28P01", isLost: false })
      expect(password.message).toContain(server.address)
      expect(password.message).not.toContain("canary")
      const none = yield* wrong(server.url.replace(`:${user.password}`, ""))
      expect(none).toMatchObject({ reason: "misconfigured" })
      expect(none.message).toContain('"password"')
      expect(yield* wrong(server.url.replace(/relay$/, "nowhere"))).toMatchObject({
        reason: "misconfigured",
        code: "3D000",
      })
      const away = yield* wrong("postgres://relay@127.0.0.1:1/relay")
      expect(away).toMatchObject({ reason: "unavailable", code: "ECONNREFUSED", isLost: false })
      expect(away.message).toBe("PostgreSQL at 127.0.0.1:1: nothing listens there")
      expect(
        yield* wrong("postgres://relay@127.0.0.1/relay?sslmode=verify-full".replace("127.0.0.1", server.address)),
      ).toMatchObject({
        reason: "misconfigured",
        message: expect.stringContaining("sslmode=disable"),
      })
    })

    it.live("abandons a connection that doesn't answer in time, and continues with another", function* () {
      const database = yield* open({}, 1)
      const slow = yield* failureOf(database.query("SELECT pg_sleep(60)", [], { timeout: 100 }))
      expect(slow).toMatchObject({ reason: "unavailable", isLost: true })
      expect((yield* database.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }])
    })

    it.live("has no more connections than its pool, and others for appends and beats", function* () {
      const database = yield* open({ applicationName: "bounded" }, 2)
      const asleep = database.query("SELECT pg_sleep(0.05)")
      const counted = "SELECT count(*) AS count FROM pg_stat_activity WHERE application_name = 'bounded'"
      const most = yield* Effect.forkChild(Effect.delay(sql(counted), "60 millis"))
      yield* Effect.all(
        Array.from({ length: 8 }, () => asleep),
        { concurrency: "unbounded" },
      )
      expect(yield* Fiber.join(most)).toEqual([{ count: "2" }])
      const waiting = yield* Effect.forkChild(Effect.all([asleep, asleep], { concurrency: 2 }))
      const append = yield* Effect.promise(() => database.queryUnsafe("append", "SELECT 1", [], { name: "one" }))
      const beat = yield* Effect.promise(() => database.queryUnsafe("beat", "SELECT 1", [], { name: "one" }))
      expect([append, beat].every(Result.isSuccess)).toBe(true)
      yield* Fiber.join(waiting)
      expect(yield* sql(counted)).toEqual([{ count: "4" }])
    })

    it.live("uses a password that was changed from the next connection on", function* () {
      let password = "outdated"
      const options = connectionTo(server.url)
      const database = yield* PooledDatabase.open({ connection: () => ({ ...options, password }), poolSize: 1 })
      expect((yield* failureOf(database.query("SELECT 1"))).reason).toBe("misconfigured")
      password = user.password
      yield* database.query("SELECT 1")
    })

    it.live("distinguishes a stalled network from an unavailable one, and recovers", function* () {
      const proxy = yield* Effect.acquireRelease(
        Effect.promise(() => makeProxy(server.port)),
        ({ close }) => Effect.promise(close),
      )
      const url = server.url.replace(server.address, `127.0.0.1:${proxy.port}`)
      const database = yield* openDatabase(url, { connectTimeout: 1_000 }, 1)
      yield* database.query("SELECT 1")
      proxy.stall()
      const stalled = yield* failureOf(database.query("SELECT 1", [], { timeout: 100 }))
      expect(stalled).toMatchObject({ reason: "unavailable", isLost: true })
      const unanswered = yield* failureOf(database.query("SELECT 1"))
      expect(unanswered).toMatchObject({ reason: "unavailable", isLost: false })
      proxy.flow()
      yield* database.query("SELECT 1")
      proxy.cut()
      yield* Effect.retry(database.query("SELECT 1"), Schedule.spaced("10 millis"))
    })

    it.live("never takes a commit for done that was cancelled while it waited for its standby", function* () {
      const database = yield* open()
      yield* database.query("CREATE TABLE kept (a int)")
      yield* set("synchronous_standby_names", "nobody")
      // The server applies the setting a moment later. Until then, commits don't wait.
      const waiting = yield* Effect.forkChild(Effect.flip(Effect.forever(writes(database))))
      const cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
      while ((yield* sql(cancel)).length === 0) yield* Effect.sleep("10 millis")
      expect(yield* Fiber.join(waiting)).toMatchObject({ reason: "unavailable", isLost: true })
      expect((yield* database.query("SELECT a FROM kept")).rows).toContainEqual({ a: 1 })
    })

    it.live(
      "finds the server that writes, finds the new one after a failover, and never the one that was left",
      function* () {
        const first = yield* ownPostgres({ release })
        yield* Effect.promise(() => first.sql("CREATE TABLE kept (a int)", "postgres"))
        const second = yield* ownStandby(first, "synchronous")
        const url = `postgres://postgres@${second.address},${first.address}/postgres`
        const database = yield* openDatabase(url, { schema: "public", connectTimeout: 1_000 })
        yield* writes(database)
        expect(database.server()?.name).toBe(first.address)

        first.freeze()
        yield* Effect.promise(second.promote)
        yield* failureOf(database.query("SELECT 1", [], { timeout: 50 }))
        yield* writes(database)
        expect(database.server()?.name).toBe(second.address)

        // Both servers accept writes now.
        first.thaw()
        yield* Effect.promise(() => first.sql("SELECT 1"))
        yield* Effect.promise(second.shutdown)
        const left = yield* failureOf(writes(database))
        expect(left.message).toContain(`${first.address}: it takes writes, but another server was promoted since`)
        yield* Effect.promise(second.start)
        yield* writes(database)
        const fresh = yield* openDatabase(url.replace(/@(.*),(.*)\//, "@$2,$1/"), { schema: "public" })
        expect((yield* fresh.query("SELECT a FROM kept")).count).toBe(3)
      },
      60_000,
    )

    it.live(
      "leaves a server that still takes writes once another of the url was promoted",
      function* () {
        const first = yield* ownPostgres({ release })
        const second = yield* ownStandby(first, "asynchronous")
        const url = `postgres://postgres@${first.address},${second.address}/postgres`
        const database = yield* openDatabase(url, { schema: "public", connectTimeout: 1_000 })
        yield* database.query("SELECT 1")
        expect(database.server()?.name).toBe(first.address)
        yield* Effect.promise(second.promote)
        while (database.server()?.name === first.address) yield* Effect.ignore(database.query("SELECT 1"))
        expect(database.server()?.name).toBe(second.address)
        expect((yield* database.query("SELECT pg_is_in_recovery() AS is")).rows).toEqual([{ is: false }])
      },
      60_000,
    )

    it.live("refuses a server without fsync", function* () {
      const database = yield* open()
      yield* set("fsync", "off")
      const refused = yield* failureOf(database.query("SELECT 1"))
      expect(refused).toMatchObject({ reason: "misconfigured", message: expect.stringContaining("fsync is off") })
    })
  })

suite("the database on PostgreSQL", "npm", sharedPostgres)
suite("the database on PostgreSQL 15", "debian", () => makePostgres({ release: "debian" }))

suiteUnless(reasonToSkip() ?? lacking, "the database by TLS", () => {
  let server: Postgres
  beforeAll(async () => {
    server = await makePostgres({ tls: true })
  }, 60_000)

  const open = (mode: string, tls: ConnectionOptions["tls"] = {}, url = server.url) =>
    Effect.flatMap(openDatabase(`${url}?sslmode=${mode}`, { tls }), (database) =>
      Effect.map(database.query("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"), ({ rows }) => rows),
    )

  describe("encrypts", () => {
    for (const mode of ["require", "verify-ca", "verify-full"]) {
      it.live(`with ${mode}`, function* () {
        const tls = mode === "require" ? {} : { ca: server.certificates?.ca ?? "" }
        expect(yield* open(mode, tls)).toEqual([{ ssl: true }])
      })
    }
  })

  it.live("trusts only known authorities, and says what to do", function* () {
    const system = yield* failureOf(open("verify-full"))
    expect(system).toMatchObject({ reason: "misconfigured", message: expect.stringContaining('"ca"') })
    const stranger = yield* failureOf(open("verify-ca", { ca: server.certificates?.strangerCa ?? "" }))
    expect(stranger).toMatchObject({ reason: "misconfigured", message: expect.stringContaining('"ca"') })
    const missing = yield* failureOf(open("verify-full", { ca: "no-such.pem" }))
    expect(missing).toMatchObject({ reason: "misconfigured", message: expect.stringContaining('"tls.ca"') })
  })

  it.live("logs in by a client certificate", function* () {
    const { ca = "", client = "", clientKey = "" } = server.certificates ?? {}
    const url = `postgres://client@${server.address}/relay`
    expect(yield* open("verify-full", { ca, certificate: client, key: clientKey }, url)).toEqual([{ ssl: true }])
    expect(yield* failureOf(open("verify-full", { ca }, url))).toMatchObject({ reason: "misconfigured" })
  })

  it.live("binds a login to its connection, or doesn't log in if it must be bound and can't", function* () {
    const ca = server.certificates?.ca ?? ""
    expect(yield* open("verify-full&channel_binding=require", { ca })).toEqual([{ ssl: true }])
    const plain = yield* Effect.promise(sharedPostgres)
    const unbound = yield* failureOf(open("disable&channel_binding=require", {}, plain.url))
    expect(unbound).toMatchObject({ reason: "misconfigured", message: expect.stringContaining("channel binding") })
  })

  it.live("does not fall back to plain text", function* () {
    expect(yield* failureOf(open("disable"))).toMatchObject({ reason: "misconfigured", code: "28000" })
  })
})
