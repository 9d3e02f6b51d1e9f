/**
 * The session settings that the relay requires, and how it applies them.
 *
 * A direct connection gets them once. Behind a pooler no session state is certain to last: each transaction may
 * run in another session, with settings of other clients. There each transaction sets its own settings for
 * itself, and no statement is prepared. This works in every pooler mode that has transactions, and changes
 * nothing for other clients.
 */
import type { Server } from "./Database.ts"

/** A server's description of itself. A server may lack some of these settings. */
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
  /** The process that answers. A pooler names another one when a client logs in. */
  readonly process: number
}

/** The server's timeline, which rises with each promotion of a standby. */
export const timeline = "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int"

/** The identifier of the server's data. A standby shares its primary's; `pg_upgrade` creates another. */
export const system = "(SELECT system_identifier::text FROM pg_control_system())"

/** Sequential scans are off, because a plan made while a table was small is kept while the table grows. */
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

/** Sets them for the whole session. */
export const ofSession = (schema: string): string =>
  set({ client_encoding: "'UTF8'", default_transaction_isolation: "'read committed'", ...settings(schema) }, false)

/**
 * Begins a transaction, with its settings. It fails if a server of another timeline answers, because a pooler
 * keeps its clients when it turns to another server.
 */
export const ofTransaction = (schema: string, from: number): string =>
  [
    "BEGIN ISOLATION LEVEL READ COMMITTED",
    set(settings(schema), true),
    ...(from === 0 ? [] : [`SELECT 1 / (${timeline} = ${from})::int`]),
  ].join("; ")

/** PostgreSQL's code for the division by zero above. */
export const otherServer = "22012"
/** PgBouncer's answer to BEGIN when its `pool_mode` is `statement`. */
export const noTransactions = "08P01"
