/**
 * The findings of `validate` and `doctor` about the database. They report whether it
 * can be used, and which failures a 2xx survives there. It changes nothing.
 */
import { Clock, Effect } from "effect"
import type { Inspected } from "../JournalType.ts"
import type { Queries } from "./connection/Database.ts"
import type { DatabaseError } from "./connection/DatabaseError.ts"
import * as PooledDatabase from "./connection/PooledDatabase.ts"
import type { PostgresConfig } from "./connection/PostgresConfig.ts"
import { find, latest } from "./tables/DatabaseSchema.ts"

type Findings = ReadonlyArray<Inspected>

const ok = (message: string): Inspected => ({ verdict: "ok", message })
const warning = (message: string): Inspected => ({ verdict: "warning", message })
const wrong = (message: string): Inspected => ({ verdict: "wrong", message })

interface Settings {
  readonly standbys: string
  readonly fullPageWrites: string | null
  readonly mayConnect: number
  readonly isEncrypted: boolean | null
  readonly seesStandbys: boolean
  readonly synchronous: number
}

const settings = `SELECT
  coalesce(current_setting('synchronous_standby_names', true), '') AS standbys,
  current_setting('full_page_writes', true) AS "fullPageWrites",
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS "mayConnect",
  (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()) AS "isEncrypted",
  pg_has_role(current_user, 'pg_read_all_stats', 'usage') AS "seesStandbys",
  (SELECT count(*)::int FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')) AS synchronous`

/** Names the losses that a 2xx survives: an operator must know this above all. */
export const survival = ({
  standbys,
  seesStandbys,
  synchronous,
}: Omit<Settings, "mayConnect" | "isEncrypted" | "fullPageWrites">): Inspected => {
  if (standbys === "") {
    return warning(
      "no synchronous standby: a 2xx survives the loss of a relay, and a crash of the database's machine, but not the loss of its disk, nor a failover to an asynchronous standby; to survive those set synchronous_standby_names",
    )
  }
  if (seesStandbys && synchronous === 0) {
    return wrong(
      `commits wait for a synchronous standby (${standbys}), and none is connected: deliveries get a 503 until one is`,
    )
  }
  return ok(`a commit waits for a synchronous standby (${standbys}): a 2xx survives the loss of the primary`)
}

const ofSettings = (
  { fullPageWrites, mayConnect, isEncrypted, ...rest }: Settings,
  { pool }: PostgresConfig,
): Findings => [
  survival(rest),
  ...(fullPageWrites === "off"
    ? [warning("full_page_writes is off: a crash may damage the database, unless its file system writes whole pages")]
    : []),
  ...(pool + 2 > mayConnect
    ? [
        warning(
          `a relay may use ${pool + 2} connections ("pool" plus 2), but the server allows only ${mayConnect} in all`,
        ),
      ]
    : []),
  ...(isEncrypted === false ? [ok("the connection is not encrypted")] : []),
]

/** Milliseconds. */
const largestDifference = 2_000

const clock = Effect.fnUntraced(function* (queries: Queries) {
  const before = yield* Clock.currentTimeMillis
  const { rows } = yield* queries.query<{ readonly now: number }>(
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now",
  )
  const after = yield* Clock.currentTimeMillis
  const difference = Math.round((rows[0]?.now ?? 0) - (before + after) / 2)
  const message = `the server's clock is ${Math.abs(difference)} ms ${difference < 0 ? "behind" : "ahead of"} this machine's`
  return Math.abs(difference) > largestDifference
    ? warning(`${message}: retention, due times and ages are counted by each machine's own clock; run an NTP service`)
    : ok(message)
})

interface Rights {
  readonly isThere: boolean
  readonly mayCreateSchema: boolean
  readonly mayUse: boolean
  readonly mayCreateTables: boolean
}

const rights = `SELECT
  to_regnamespace(quote_ident($1)) IS NOT NULL AS "isThere",
  has_database_privilege(current_database(), 'CREATE') AS "mayCreateSchema",
  coalesce(has_schema_privilege(to_regnamespace(quote_ident($1)), 'USAGE'), false) AS "mayUse",
  coalesce(has_schema_privilege(to_regnamespace(quote_ident($1)), 'CREATE'), false) AS "mayCreateTables"`

const denied = `SELECT tablename AS name FROM pg_tables WHERE schemaname = $1 AND NOT (
  has_table_privilege(format('%I.%I', schemaname, tablename), 'SELECT') AND
  has_table_privilege(format('%I.%I', schemaname, tablename), 'INSERT') AND
  has_table_privilege(format('%I.%I', schemaname, tablename), 'UPDATE') AND
  has_table_privilege(format('%I.%I', schemaname, tablename), 'DELETE')) ORDER BY 1`

const schema = Effect.fnUntraced(function* (queries: Queries, name: string) {
  const { rows } = yield* queries.query<Rights>(rights, [name])
  const [found] = rows
  if (found?.isThere !== true) {
    return found?.mayCreateSchema === true
      ? ok(`the schema ${name} doesn't exist; the relay creates it when it starts`)
      : wrong(
          `the schema ${name} is not there, and the user may not make it: CREATE SCHEMA ${name} AUTHORIZATION <the relay's user>`,
        )
  }
  if (!found.mayUse)
    return wrong(`the user may not use the schema ${name}: GRANT USAGE ON SCHEMA ${name} TO <the relay's user>`)
  const forbidden = yield* queries.query<{ readonly name: string }>(denied, [name])
  if (forbidden.count > 0) {
    const names = forbidden.rows.map((row) => row.name).join(", ")
    return wrong(
      `the user may not read and write ${names}: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${name} TO <the relay's user>`,
    )
  }
  const { version, refusal } = yield* find(queries, name)
  if (refusal !== undefined) return wrong(refusal)
  if (version < latest && !found.mayCreateTables) {
    return wrong(
      `the schema ${name} has version ${version} and must have ${latest}, and the user may not change it: start one relay as its owner`,
    )
  }
  return ok(
    version === latest
      ? `the schema ${name} has version ${version}`
      : `the schema ${name} has version ${version}; the relay brings it to ${latest} when it starts`,
  )
})

const look = Effect.fnUntraced(function* (config: PostgresConfig) {
  const database = yield* PooledDatabase.ofConfig({ ...config, pool: 1 })
  const { rows } = yield* database.query<Settings>(settings)
  const server = database.server()
  const [found] = rows
  return [
    ok(`PostgreSQL ${server?.version ?? ""} at ${server?.name ?? ""} takes writes, with fsync`),
    ...(server?.isPooled === true
      ? [
          ok(
            `there is a pooler at ${server.name}: each transaction brings its own settings, and no statement is prepared, so a direct connection costs less`,
          ),
        ]
      : []),
    ...(found === undefined ? [] : ofSettings(found, config)),
    yield* schema(database, config.schema),
    yield* clock(database),
  ]
}, Effect.scoped)

/** The findings, in the order of the report. It never fails, because an error is a finding too. */
export const inspect = (config: PostgresConfig): Effect.Effect<Findings> =>
  Effect.catch(look(config), ({ message }: DatabaseError) => Effect.succeed([wrong(message)]))
