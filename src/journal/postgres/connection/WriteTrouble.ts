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

export class WriteTrouble {
  #error: DatabaseError | undefined
  /** Epoch milliseconds. */
  #since = 0
  readonly #wall: () => number

  constructor(wall: () => number) {
    this.#wall = wall
  }

  /** Why nothing can be stored; `undefined` while it can. */
  get refusal(): JournalError | undefined {
    const error = this.#error
    if (error === undefined) return undefined
    const since = new Date(this.#since).toISOString()
    return error.code === diskFull
      ? full("disk", `${error.message}, since ${since}: deliveries are refused until it has room.`)
      : unavailable(`${error.message}, since ${since}: deliveries are refused until a server takes writes.`)
  }

  /** The database, with an eye on what it answers. */
  watched(db: Database): Database {
    const note = (error: unknown) => Effect.sync(() => this.#note(error))
    const watching = (queries: Queries): Queries => ({
      query: <Row>(...asked: Parameters<Queries["query"]>) => Effect.tapError(queries.query<Row>(...asked), note),
    })
    return {
      ...db,
      ...watching(db),
      transact: (work) =>
        Effect.tapError(
          db.transact((queries) => work(watching(queries))),
          note,
        ),
      queryUnsafe: async <Row>(...asked: Parameters<Database["queryUnsafe"]>) => {
        const result = await db.queryUnsafe<Row>(...asked)
        // A success says nothing: it may have found space in a page that was there.
        if (Result.isFailure(result)) this.#note(result.failure)
        return result
      },
    }
  }

  #note(error: unknown): void {
    if (!(error instanceof DatabaseError) || (error.code !== diskFull && error.code !== readOnly)) return
    if (this.#error === undefined) this.#since = this.#wall()
    this.#error = error
  }

  /** Sees whether the database takes writes again: what it writes is rolled back. */
  probe(db: Database): Effect.Effect<void> {
    return Effect.suspend(() => {
      if (this.#error === undefined) return Effect.void
      return db
        .transact((queries) =>
          Effect.andThen(
            queries.query(
              `INSERT INTO log (first, count, received_from, received_to, routes, keys, ids, void, altered, bytes)
               VALUES (-1, 0, 0, 0, '[]', '', '', '{}', '{}', $1)`,
              [Buffer.alloc(probeBytes)],
            ),
            Effect.fail(new Undone()),
          ),
        )
        .pipe(
          Effect.catchTag("Undone", () => Effect.sync(() => (this.#error = undefined))),
          Effect.ignore,
        )
    })
  }
}
