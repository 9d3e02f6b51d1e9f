import { beforeAll, expect } from "bun:test"
import { Effect } from "effect"
import { kept } from "../../../src/journal/AuditLog.ts"
import * as AuditTable from "../../../src/journal/postgres/tables/AuditTable.ts"
import { migrate } from "../../../src/journal/postgres/tables/DatabaseSchema.ts"
import { operation } from "../../contract/journal/auditContract.ts"
import { it } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { type Postgres, reasonToSkip, sharedPostgres } from "../../parts/Postgres.ts"
import { openDatabase } from "./database.ts"

suiteUnless(reasonToSkip(), "the audit log on PostgreSQL", () => {
  let server: Postgres
  beforeAll(async () => {
    server = await sharedPostgres()
  }, 60_000)

  const open = Effect.fnUntraced(function* (schema: string, relay = "one") {
    const database = yield* openDatabase(server.url, { schema })
    yield* migrate(database, schema)
    const wallClock = { start: 0, drift: () => 0, isTrusted: true, trusted: () => wallClock.isTrusted }
    return { database, wallClock, audit: AuditTable.make(database, relay, wallClock) }
  })

  it.live("keeps the newest operations, and refused ones push out no others", function* () {
    const { database, audit } = yield* open("audit_bounds")
    const fill = (result: string) =>
      database.query(
        `INSERT INTO audit (at, who, "by", what, "on", result, note, relay)
           SELECT $1, 'ada', 'the page', 'reload', number::text, $2, '', 'one' FROM generate_series(1, $3::int) AS number`,
        [operation().at, result, kept.records],
      )
    yield* fill("done")
    yield* fill("refused")
    for (const result of ["failed", "refused"] as const) yield* audit.record(operation({ on: "new", result }))
    const all = yield* audit.list({ limit: 3 * kept.records })
    const ends = (isRefused: boolean) => {
      const some = all.filter(({ result }) => (result === "refused") === isRefused)
      return [some.length, some[0]?.on, some.at(-1)?.on]
    }
    expect([ends(true), ends(false)]).toEqual([
      [kept.records, "new", "2"],
      [kept.records, "new", "2"],
    ])
  })

  it.live("forgets nothing by age while the wall clock can't be believed", function* () {
    const { audit, wallClock } = yield* open("audit_clock")
    const { at } = operation()
    const names = Effect.map(audit.list({ limit: 9 }), (records) => records.map(({ on }) => on))
    yield* audit.record(operation({ on: "first" }))
    wallClock.isTrusted = false
    yield* audit.record(operation({ on: "by a clock that is ahead", at: at + 2 * kept.age }))
    expect(yield* names).toEqual(["by a clock that is ahead", "first"])
    wallClock.isTrusted = true
    yield* audit.record(operation({ on: "later", at: at + kept.age + 1 }))
    expect(yield* names).toEqual(["later", "by a clock that is ahead"])
  })

  it.live("is shared by all relays, and each record names its relay", function* () {
    const one = yield* open("audit_fleet", "one")
    const two = yield* open("audit_fleet", "two")
    yield* one.audit.record(operation({ on: "a" }))
    yield* two.audit.record(operation({ on: "b" }))
    const seen = yield* one.audit.list({ limit: 9 })
    expect(seen.map(({ relay, on }) => [relay, on])).toEqual([
      ["two", "b"],
      ["one", "a"],
    ])
    expect(yield* two.audit.list({ limit: 9 })).toEqual([...seen])
  })

  it.live("needs no right to change a record", function* () {
    yield* open("audit_rights")
    yield* Effect.promise(() =>
      server.sql(
        `DROP ROLE IF EXISTS audit_runtime; CREATE ROLE audit_runtime LOGIN PASSWORD 'audit';
           GRANT USAGE ON SCHEMA audit_rights TO audit_runtime;
           GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA audit_rights TO audit_runtime;
           REVOKE UPDATE ON audit_rights.audit FROM audit_runtime`,
      ),
    )
    const url = new URL(server.url)
    url.username = "audit_runtime"
    url.password = "audit"
    const database = yield* openDatabase(url.href, { schema: "audit_rights" })
    const audit = AuditTable.make(database, "one", { start: 0, drift: () => 0, trusted: () => true })
    yield* audit.record(operation())
    expect((yield* audit.list({ limit: 9 })).length).toBe(1)
    const update = yield* Effect.flip(database.query("UPDATE audit SET who = 'eve'"))
    expect(update.message).toContain("lacks a right")
  })
})
