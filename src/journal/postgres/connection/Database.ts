/**
 * The relay's interface to PostgreSQL: statements and transactions, without types of the client library.
 *
 * - `query` and `transact` are effects over a pool, for work that may wait.
 * - `queryUnsafe` is a promise that never rejects, for the hot path. Appends and heartbeats have a connection
 *   each, which nothing else uses.
 *
 * **Guarantee.** A statement goes to the server that takes writes. Each new connection searches the hosts for
 * it, so the relay finds it again after a failover. A commit is as durable as with `synchronous_commit = on`,
 * whatever the server's default. No statement is ever cancelled: if a commit that waits for its standby is
 * cancelled, PostgreSQL reports success although it is on one machine only. Instead, a statement that takes too
 * long loses its connection, and its error has `isLost`: the statement may have been executed.
 *
 * **Gotcha.** A statement with a `name` is prepared once for each connection, so each name must have one text.
 * Behind a pooler no statement is prepared.
 */
import type { Effect, Result } from "effect"
import type { DatabaseError } from "./DatabaseError.ts"

/** The answer to a statement. */
export interface Answer<Row> {
  /** An int8 arrives as a number, bytea as bytes, jsonb parsed, and int[] as an array of numbers. */
  readonly rows: ReadonlyArray<Row>
  /** Number of rows written or read. */
  readonly count: number
}

export interface QueryOptions {
  /** Prepares the statement, under this name. */
  readonly name?: string
  /** Milliseconds until the connection is abandoned (default: 30,000). */
  readonly timeout?: number
}

/** The values of `$1`, `$2`, …. Bytes are a Buffer, an array is a PostgreSQL array literal, and JSON is its text. */
export type Params = ReadonlyArray<unknown>

/** The pool or a transaction. Both accept statements. */
export interface Queries {
  query<Row = Record<string, unknown>>(
    sql: string,
    params?: Params,
    options?: QueryOptions,
  ): Effect.Effect<Answer<Row>, DatabaseError>
}

/** The purposes of connections. Each has connections of its own, so that none waits for another. */
export type Use = "append" | "beat" | "work"

/** The server that takes writes, as it was at the last connect. */
export interface Server {
  /** `db-1:5432`. */
  readonly name: string
  /** The text of `server_version`: `18.4`. */
  readonly version: string
  /** The number of `server_version_num`: `180004`. */
  readonly versionNumber: number
  /** True behind PgBouncer or another pooler, which shares a server connection among clients. */
  readonly isPooled: boolean
}

/** The database of a journal. */
export interface Database extends Queries {
  /**
   * Runs a transaction, which rolls back if `work` fails or is interrupted. It takes one round trip for each
   * statement and one for the commit. The `BEGIN` is sent with the first statement.
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

/** Rows as the parameters of `unnest`: an array for each of `width` columns. */
export const unnested = <A>(
  width: number,
  items: ReadonlyArray<A>,
  rowOf: (item: A) => ReadonlyArray<unknown>,
): ReadonlyArray<ReadonlyArray<unknown>> => {
  const rows = items.map(rowOf)
  return Array.from({ length: width }, (_, column) => rows.map((row) => row[column]))
}
