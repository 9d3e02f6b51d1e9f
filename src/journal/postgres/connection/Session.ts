/**
 * The settings that the relay requires of a session, and how it makes them.
 *
 * A connection to the server itself is set once. Behind a pooler nothing of a
 * session is certain to last: each transaction may run in another one, which
 * others have set for themselves. There each transaction brings its settings,
 * for itself alone, and statements are not prepared: so it is right in every
 * mode of a pooler that has transactions, and leaves nothing behind for others.
 */
import type { Server } from "./Database.ts"

/** A server's description of itself. It does not need to know every setting. */
export const facts = `SELECT
  pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS "isReadOnly",
  coalesce(current_setting('fsync', true), 'on') = 'on' AS fsync,
  current_setting('server_encoding') AS encoding,
  current_setting('server_version') AS version,
  current_setting('server_version_num')::int AS "versionNumber",
  pg_backend_pid() AS process`

export interface Facts extends Omit<Server, "name" | "isPooled"> {
  readonly isReadOnly: boolean
  readonly fsync: boolean
  /** The database's encoding. */
  readonly encoding: string
  /** The one that answers. A pooler names another when it lets a client in. */
  readonly process: number
}

/** Rises with each promotion of a standby. */
export const timeline = "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int"

/** The identifier of the server's data. A standby has its primary's, and `pg_upgrade` makes another. */
export const system = "(SELECT system_identifier::text FROM pg_control_system())"

/** No sequential scans: a plan that was made while a table was small is kept while it grows. */
const settings = (schema: string): Readonly<Record<string, string>> => ({
  search_path: `quote_ident('${schema.replaceAll("'", "''")}')`,
  synchronous_commit:
    "CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END",
  client_min_messages: "'warning'",
  statement_timeout: "'0'",
  lock_timeout: "'0'",
  idle_in_transaction_session_timeout: "'10s'",
  jit: "'off'",
  enable_seqscan: "'off'",
})

const set = (all: Readonly<Record<string, string>>, isLocal: boolean): string =>
  `SELECT ${Object.entries(all).map(([name, value]) => `set_config('${name}', ${value}, ${isLocal})`)}`

/** For the whole session. */
export const ofSession = (schema: string): string =>
  set({ client_encoding: "'UTF8'", default_transaction_isolation: "'read committed'", ...settings(schema) }, false)

/**
 * Begins a transaction, with its settings. It fails where another server than the one of that timeline
 * answers: a pooler keeps its clients while it turns to another server.
 */
export const ofTransaction = (schema: string, from: number): string =>
  [
    "BEGIN ISOLATION LEVEL READ COMMITTED",
    set(settings(schema), true),
    ...(from === 0 ? [] : [`SELECT 1 / (${timeline} = ${from})::int`]),
  ].join("; ")

/** How PostgreSQL calls the division by zero above. */
export const otherServer = "22012"
/** PgBouncer's answer to BEGIN when its `pool_mode` is `statement`. */
export const noTransactions = "08P01"
