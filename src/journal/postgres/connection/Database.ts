/**
 * The relay's port to PostgreSQL: statements, transactions, and nothing of the
 * client library that does them.
 *
 * - `query` and `transact` are effects over a pool, for what may wait.
 * - `queryUnsafe` is a promise that never rejects, for the hot path: appends and
 *   beats have a connection each that nothing else waits on.
 *
 * **Guarantee.** A statement goes to the server that takes writes: of several
 * hosts it is looked for at each connecting, so it is found again after a
 * failover. A commit is durable as `synchronous_commit = on` has it, whatever
 * the server's default. Nothing is ever cancelled: PostgreSQL answers a cancelled
 * commit that waits for its standby as done, although it is on one machine only.
 * A statement that takes too long loses its connection instead, and says so by
 * `isLost`: it may have been done.
 *
 * **Gotcha.** A statement with a `name` is prepared once for each connection, so
 * the name stands for one text. Behind a pooler none is prepared.
 */
import type { Effect, Result } from "effect"
import type { DatabaseError } from "./DatabaseError.ts"

/** The answer to a statement. */
export interface Answer<Row> {
  /** int8 is a number, bytea bytes, jsonb parsed, int[] an array of numbers. */
  readonly rows: ReadonlyArray<Row>
  /** Rows that were written, or read. */
  readonly count: number
}

export interface QueryOptions {
  /** Prepares the statement, under this name. */
  readonly name?: string
  /** Milliseconds until the connection is given up; 30,000 unless given. */
  readonly timeout?: number
}

/** The values of `$1`, `$2`, …: bytes are a Buffer, an array is PostgreSQL's, and JSON is its text. */
export type Params = ReadonlyArray<unknown>

/** The pool or a transaction: statements can be sent to either. */
export interface Queries {
  query<Row = Record<string, unknown>>(
    sql: string,
    params?: Params,
    options?: QueryOptions,
  ): Effect.Effect<Answer<Row>, DatabaseError>
}

/** The purposes of connections: each has its own, so that none waits for another. */
export type Use = "append" | "beat" | "work"

/** The server that writes, as it was when it was last connected to. */
export interface Server {
  /** `db-1:5432`. */
  readonly name: string
  /** The text of `server_version`: `18.4`. */
  readonly version: string
  /** The number of `server_version_num`: `180004`. */
  readonly versionNumber: number
  /** Something stands before it that hands one of its connections to many: PgBouncer, or another pooler. */
  readonly isPooled: boolean
}

/** The database of a journal. */
export interface Database extends Queries {
  /**
   * All of it or nothing; rolled back where `work` fails or is interrupted. It costs a round trip for each statement,
   * and one for the commit: the beginning goes with the first statement.
   */
  transact<A, E>(work: (transaction: Queries) => Effect.Effect<A, E>): Effect.Effect<A, E | DatabaseError>
  queryUnsafe<Row = Record<string, unknown>>(
    use: Use,
    sql: string,
    params?: Params,
    options?: QueryOptions,
  ): Promise<Result.Result<Answer<Row>, DatabaseError>>
  /** `undefined` before the first connection. */
  readonly server: () => Server | undefined
}
