/**
 * Whether the database takes writes, by what becomes of each statement: a full
 * disk and a read-only server are known before the delivery that met them is
 * answered.
 */
import { Effect, Result } from "effect"
import { full, type JournalError, unavailable } from "../../JournalError.ts"
import type { Database, Queries } from "./Database.ts"
import { DatabaseError, diskFull, readOnly } from "./DatabaseError.ts"

/** Rolls the probe back. */
class Undone extends Error {
  readonly _tag = "Undone"
}

/** Bytes that a disk must take before deliveries are accepted again. */
const probeBytes = 256 * 1024

/** Watches a database, and remembers since when it takes no writes. */
export interface WriteTrouble extends ReturnType<typeof make> {}

/** `wall` gives epoch milliseconds. */
export const make = (wall: () => number) => {
  let trouble: { readonly error: DatabaseError; readonly since: number } | undefined

  const note = (error: unknown): void => {
    if (!(error instanceof DatabaseError) || (error.code !== diskFull && error.code !== readOnly)) return
    trouble = { error, since: trouble?.since ?? wall() }
  }

  return {
    /** Why nothing can be stored; `undefined` while it can. */
    refusal: (): JournalError | undefined => {
      if (trouble === undefined) return undefined
      const { code, message } = trouble.error
      const what = `${message}, since ${new Date(trouble.since).toISOString()}: deliveries are refused until`
      return code === diskFull ? full("disk", `${what} it has room.`) : unavailable(`${what} a server takes writes.`)
    },

    /** The database, with an eye on what it answers. */
    watched: (db: Database): Database => {
      const noting = <A, E>(effect: Effect.Effect<A, E>) =>
        Effect.tapError(effect, (error) => Effect.sync(() => note(error)))
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
          if (Result.isFailure(result)) note(result.failure)
          return result
        },
      }
    },

    /** Sees whether the database takes writes again: what it writes is rolled back. */
    probe: (db: Database): Effect.Effect<void> =>
      Effect.suspend(() => {
        if (trouble === undefined) return Effect.void
        const row = `INSERT INTO log (first, count, received_from, received_to, routes, keys, ids, void, altered, bytes)
          VALUES (-1, 0, 0, 0, '[]', '', '', '{}', '{}', $1)`
        const write = db.transact((queries) =>
          Effect.andThen(queries.query(row, [Buffer.alloc(probeBytes)]), Effect.fail(new Undone())),
        )
        return write.pipe(
          Effect.catchTag("Undone", () => Effect.sync(() => (trouble = undefined))),
          Effect.ignore,
        )
      }),
  }
}
