/**
 * Reports whether the database stores events, judged by this relay's appends. Deliveries are refused after an
 * append failed, and while an append gets no answer.
 *
 * **Guarantee.** After an append failed, the next delivery is refused, whatever the reason was, unless the
 * reason is that append's own data. Deliveries are accepted again once a probe was committed that writes to the
 * tables of an append.
 */
import { Effect, Result } from "effect"
import { full, type JournalError, unavailable } from "../../JournalError.ts"
import type { Database, Queries } from "./Database.ts"
import { DatabaseError, diskFull, isOfData, readOnly } from "./DatabaseError.ts"

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
const find = (db: Database): Effect.Effect<string> =>
  Effect.map(
    // The relay's other connections may all be waiting for the same thing.
    Effect.promise(() => db.queryUnsafe<Wait>("beat", waits, [], { timeout: 2_000 })),
    (result) => {
      const wait = Result.isSuccess(result) ? result.success.rows[0] : undefined
      if (wait === undefined) return ""
      return wait.event === "SyncRep" ? standbyWait(wait) : lockWait(wait)
    },
  )

/** Bytes that the disk must store before deliveries are accepted again. */
const probeBytes = 256 * 1024
/** Milliseconds that an append may take before deliveries are refused. */
const patience = 2_500

/** Watches a database, and remembers since when it has stored nothing. */
export interface WriteTrouble extends ReturnType<typeof make> {}

/** An append, from its first try to the last. */
export interface WatchedAppend {
  /** Called when a try failed. */
  readonly failed: (error: DatabaseError) => void
  readonly ended: (isStored: boolean) => void
}

interface Trouble {
  readonly error: DatabaseError
  /** Epoch milliseconds. */
  readonly since: number
  /** The table that the last probe couldn't write to. */
  readonly table?: string
}

export interface Clocks {
  /** Epoch milliseconds. */
  readonly wall: () => number
  /** Monotonic milliseconds. */
  readonly steady: () => number
}

const until: Readonly<Record<string, string>> = {
  [diskFull]: "it has room",
  [readOnly]: "a server takes writes",
}

/** Writes to each table of an append and undoes it, so that the commit leaves nothing. */
const probe = (db: Database, bytes: number): Effect.Effect<void, readonly [table: string, error: DatabaseError]> => {
  const [first = 0, lo = 0, hi = 0, crc = 0] = crypto.getRandomValues(new Int32Array(4))
  const place = -1 - Math.abs(first)
  const key = [lo, hi, crc]
  let at = "stream"
  const written = db.transact((queries) => {
    const on = (table: string, sql: string, params: ReadonlyArray<unknown> = []) =>
      Effect.suspend(() => {
        at = table
        return queries.query(sql, params)
      })
    return Effect.all([
      on("stream", "SET LOCAL lock_timeout = '2s'"),
      on("stream", "SELECT id FROM stream WHERE id = 1 FOR SHARE"),
      // Needs the right to write, but doesn't wait for lanes that store their cursors.
      on("progress", "SELECT stream FROM progress WHERE stream = 1 FOR KEY SHARE"),
      on("seen", "INSERT INTO seen (lo, hi, crc, at, sequence) VALUES ($1, $2, $3, 0, -1)", key),
      on(
        "log",
        `INSERT INTO log (first, count, received_from, received_to, routes, keys, ids, void, altered, bytes)
         VALUES ($1, 0, 0, 0, '[]', '', '', '{}', '{}', $2)`,
        [place, Buffer.alloc(bytes)],
      ),
      on("log", "DELETE FROM log WHERE first = $1", [place]),
      on("seen", "DELETE FROM seen WHERE (lo, hi, crc) = ($1, $2, $3)", key),
    ])
  })
  return Effect.asVoid(Effect.mapError(written, (error) => [at, error] as const))
}

export const make = ({ wall, steady }: Clocks) => {
  let trouble: Trouble | undefined
  /** Appends without an answer, each with its last try's error. */
  const underWay = new Set<{ readonly at: number; error?: DatabaseError }>()
  /** Why the oldest request gets no answer. */
  let waitsFor = ""

  const note = (error: DatabaseError): void => {
    trouble = { ...trouble, error, since: trouble?.since ?? wall() }
  }
  const noteWrite = (error: unknown): void => {
    if (error instanceof DatabaseError && (error.code === diskFull || error.code === readOnly)) note(error)
  }

  /** Returns the oldest append if it has waited for too long. */
  const hung = () => {
    const [oldest] = underWay
    return oldest !== undefined && steady() - oldest.at > patience ? oldest : undefined
  }

  const tryAgain = (db: Database) =>
    Effect.suspend(() => {
      if (trouble === undefined) return Effect.void
      const { error } = trouble
      return Effect.match(probe(db, error.code === diskFull ? probeBytes : 0), {
        onSuccess: () => {
          trouble = undefined
        },
        onFailure: ([table, failure]) => {
          // An append may hold the lock that the probe waits for.
          trouble = { error: failure, table, since: trouble?.since ?? wall() }
        },
      })
    })

  return {
    /** Returns why nothing can be stored, or `undefined` if the database stores events. */
    refusal: (): JournalError | undefined => {
      if (trouble !== undefined) {
        const { error, since, table } = trouble
        const where = table === undefined ? "" : `, at the table ${table}`
        const message = `${error.message}${where}, since ${new Date(since).toISOString()}: deliveries are refused until ${until[error.code] ?? "an append works again"}.`
        return error.code === diskFull ? full("disk", message) : unavailable(message)
      }
      const append = hung()
      if (append === undefined) return undefined
      const since = new Date(wall() - Math.round(steady() - append.at)).toISOString()
      const why = waitsFor || (append.error === undefined ? "" : `: ${append.error.message}`)
      return unavailable(
        `PostgreSQL has not stored an append since ${since}${why}. Deliveries are refused until it has.`,
      )
    },

    /** Records the start of an append. */
    begun: (): WatchedAppend => {
      const append: { readonly at: number; error?: DatabaseError } = { at: steady() }
      underWay.add(append)
      return {
        failed: (error) => {
          append.error = error
        },
        ended: (isStored) => {
          underWay.delete(append)
          if (isStored && trouble?.error.code !== diskFull) trouble = undefined
          else if (!isStored && append.error !== undefined && !isOfData(append.error)) note(append.error)
        },
      }
    },

    /** Wraps the database so that a full disk and a read-only server are noted from any statement. */
    watched: (db: Database): Database => {
      const noting = <A, E>(effect: Effect.Effect<A, E>) =>
        Effect.tapError(effect, (error) => Effect.sync(() => noteWrite(error)))
      const watching = (queries: Queries): Queries => ({
        query: <Row>(...asked: Parameters<Queries["query"]>) => noting(queries.query<Row>(...asked)),
      })
      return {
        ...db,
        ...watching(db),
        transact: (work) => noting(db.transact((queries) => work(watching(queries)))),
        queryUnsafe: async <Row>(...asked: Parameters<Database["queryUnsafe"]>) => {
          const result = await db.queryUnsafe<Row>(...asked)
          // A success proves nothing: it may have found space in an existing page.
          if (Result.isFailure(result)) noteWrite(result.failure)
          return result
        },
      }
    },

    /** Finds out why an append gets no answer, and whether the database stores events again. */
    check: (db: Database): Effect.Effect<void> =>
      Effect.gen(function* () {
        waitsFor = hung() === undefined ? "" : yield* find(db)
        yield* tryAgain(db)
      }),
  }
}
