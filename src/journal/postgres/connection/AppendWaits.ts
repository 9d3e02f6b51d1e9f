/** Finds the reason that the server reports for an unanswered append. */
import { Effect, Result } from "effect"
import type { Database } from "./Database.ts"

interface Wait {
  readonly event: string
  readonly table: string | null
  readonly holder: number | null
  readonly standbys: string
  readonly connected: ReadonlyArray<string>
}

/** All connections of the relay have the same application name. Every user may see the names of connected standbys. */
const waits = `SELECT a.wait_event AS event,
  (SELECT l.relation::regclass::text FROM pg_locks AS l
   WHERE l.pid = a.pid AND NOT l.granted AND l.relation IS NOT NULL LIMIT 1) AS "table",
  (pg_blocking_pids(a.pid))[1] AS holder,
  current_setting('synchronous_standby_names') AS standbys,
  (SELECT coalesce(json_agg(application_name), '[]') FROM pg_stat_replication) AS connected
FROM pg_stat_activity AS a
WHERE a.application_name = current_setting('application_name') AND a.usename = current_user
  AND a.pid <> pg_backend_pid() AND (a.wait_event = 'SyncRep' OR a.wait_event_type = 'Lock')
ORDER BY a.query_start LIMIT 1`

/** The names in `synchronous_standby_names`: `a, b`, `FIRST 1 (a, b)`, `ANY 2 (a, b)`; none for `*`. */
export const standbysIn = (text: string): ReadonlyArray<string> => {
  const [, within = text] = /^\s*(?:(?:first|any)\s+)?\d+\s*\((.*)\)\s*$/is.exec(text) ?? []
  return within
    .split(",")
    .map((name) => name.trim().replaceAll('"', ""))
    .filter((name) => name !== "" && name !== "*")
}

const standbyWait = ({ standbys, connected }: Wait): string => {
  const there = new Set(connected.map((name) => name.toLowerCase()))
  const missing = standbysIn(standbys).filter((name) => !there.has(name.toLowerCase()))
  if (missing.length > 0)
    return `: it waits for a synchronous standby, and these are not connected: ${missing.join(", ")}`
  return `: it waits for a synchronous standby (${standbys})${connected.length === 0 ? ", and none is connected" : ""}`
}

const lockWait = ({ table, holder }: Wait): string =>
  `: it waits for a lock${table === null ? "" : ` on the table ${table}`}${holder === null ? "" : `, which the process ${holder} of the server holds`}`

/** Returns a clause for a message, or an empty string if the server reports no reason. */
export const find = (db: Database): Effect.Effect<string> =>
  Effect.map(
    // The relay's other connections may all be waiting for the same thing.
    Effect.promise(() => db.queryUnsafe<Wait>("beat", waits, [], { timeout: 2_000 })),
    (result) => {
      const wait = Result.isSuccess(result) ? result.success.rows[0] : undefined
      if (wait === undefined) return ""
      return wait.event === "SyncRep" ? standbyWait(wait) : lockWait(wait)
    },
  )
