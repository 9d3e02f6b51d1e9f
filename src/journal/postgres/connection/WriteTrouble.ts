/**
 * Reports whether the database stores events, by experience: deliveries are
 * refused after an append that failed, and while an append gets no answer.
 *
 * **Guarantee.** The next delivery after an append that failed meets a refusal,
 * whatever the reason was, unless the reason is that append's own data.
 * Deliveries are accepted again once a probe was committed that writes to the
 * tables of an append.
 */
import { Effect, Result } from "effect"
import { full, type JournalError, unavailable } from "../../JournalError.ts"
import * as AppendWaits from "./AppendWaits.ts"
import type { Database, Queries } from "./Database.ts"
import { DatabaseError, diskFull, isOfData, readOnly } from "./DatabaseError.ts"

/** Bytes that a disk must take before deliveries are accepted again. */
const probeBytes = 256 * 1024
/** Milliseconds that an append may take before deliveries are refused. */
const patience = 2_500

/** Watches a database, and remembers since when it stores nothing. */
export interface WriteTrouble extends ReturnType<typeof make> {}

/** An append, from its first try to the last. */
export interface WatchedAppend {
  /** A try failed. */
  readonly failed: (error: DatabaseError) => void
  readonly ended: (isStored: boolean) => void
}

interface Trouble {
  readonly error: DatabaseError
  /** Epoch milliseconds. */
  readonly since: number
  /** The table that the last probe could not write to. */
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

/** Writes to each table of an append and takes it back, so that the commit leaves nothing. */
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
      // It needs the right to write, and waits for no lane that stores its place.
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
  /** Appends that have no answer yet, with the error of the last try. */
  const underWay = new Set<{ readonly at: number; error?: DatabaseError }>()
  /** Why the oldest of them has no answer. */
  let waitsFor = ""

  const note = (error: DatabaseError): void => {
    trouble = { ...trouble, error, since: trouble?.since ?? wall() }
  }
  const noteWrite = (error: unknown): void => {
    if (error instanceof DatabaseError && (error.code === diskFull || error.code === readOnly)) note(error)
  }

  /** The oldest append, if it has waited for too long. */
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
          // A lock that the probe waits for may be an append's own.
          trouble = { error: failure, table, since: trouble?.since ?? wall() }
        },
      })
    })

  return {
    /** Why nothing can be stored; `undefined` while it can. */
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

    /** An append begins. */
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

    /** The database; a full disk and a server that takes no writes are noted of any statement. */
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
          // A success says nothing: it may have found space in a page that was there.
          if (Result.isFailure(result)) noteWrite(result.failure)
          return result
        },
      }
    },

    /** Asks why an append gets no answer, and whether the database stores again. */
    check: (db: Database): Effect.Effect<void> =>
      Effect.gen(function* () {
        waitsFor = hung() === undefined ? "" : yield* AppendWaits.find(db)
        yield* tryAgain(db)
      }),
  }
}
