/** The database of a config, for the length of a scope. It connects when it is asked for something. */
import { Effect, Exit, Result, type Scope } from "effect"
import { ConfigInForce } from "../ConfigInForce.ts"
import { type Connection, type ConnectionOptions, commit, rollback, usualTimeout } from "./Connection.ts"
import { ConnectionPool } from "./ConnectionPool.ts"
import type { Answer, Database, Params, Queries, QueryOptions, Server, Use } from "./Database.ts"
import type { DatabaseError } from "./DatabaseError.ts"
import { connectionOf, type PostgresConfig } from "./PostgresConfig.ts"
import { Cluster, connectWriter } from "./WriterSearch.ts"

export interface DatabaseOptions {
  /** Asked at each connecting, so that a password that was changed is used from then on. */
  readonly connection: () => ConnectionOptions
  /** Connections for what may wait, at most; appends and beats have one each beside them. */
  readonly poolSize: number
}

const settled = <A>(promise: () => Promise<Result.Result<A, DatabaseError>>): Effect.Effect<A, DatabaseError> =>
  Effect.flatMap(Effect.promise(promise), Effect.fromResult)

export const open = (options: DatabaseOptions): Effect.Effect<Database, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => make(options)),
    ({ close }) => Effect.sync(close),
  )

/** The same of a config, whose password may be changed by a reload. */
export const ofConfig = (config: PostgresConfig): Effect.Effect<Database, never, Scope.Scope> =>
  Effect.flatMap(ConfigInForce, (inForce) =>
    open({
      connection: () => connectionOf((inForce() as PostgresConfig | undefined) ?? config),
      poolSize: config.pool,
    }),
  )

const make = ({ connection, poolSize }: DatabaseOptions): Database & { readonly close: () => void } => {
  const cluster = new Cluster()
  let server: Server | undefined
  const connect = async (): Promise<Connection> => {
    const made = await connectWriter(connection(), cluster)
    server = made.server
    return made
  }
  const pools: Readonly<Record<Use, ConnectionPool>> = {
    append: new ConnectionPool(connect, 1),
    beat: new ConnectionPool(connect, 1),
    work: new ConnectionPool(connect, poolSize),
  }
  const each = (act: (pool: ConnectionPool) => void) => {
    for (const pool of Object.values(pools)) act(pool)
  }
  cluster.onPromoted = (timeline) => each((pool) => pool.retire((one) => one.timeline < timeline))

  const run = async <Row>(use: Use, sql: string, params: Params, options: QueryOptions) => {
    const { timeout = usualTimeout } = options
    const from = performance.now()
    const taken = await pools[use].take(timeout)
    if (Result.isFailure(taken)) return Result.fail(taken.failure)
    const left = Math.max(1, timeout - (performance.now() - from))
    const answer = await taken.success.query<Row>(sql, params, { ...options, timeout: left })
    pools[use].give(taken.success)
    return answer
  }

  const within = (one: Connection): Queries => ({
    query: <Row>(sql: string, params: Params = [], options: QueryOptions = {}) =>
      settled(() => one.query<Row>(sql, params, options)),
  })

  return {
    query: <Row>(sql: string, params: Params = [], options: QueryOptions = {}) =>
      settled<Answer<Row>>(() => run("work", sql, params, options)),
    queryUnsafe: (use, sql, params = [], options = {}) => run(use, sql, params, options),
    transact: <A, E>(work: (transaction: Queries) => Effect.Effect<A, E>) =>
      Effect.acquireUseRelease(
        settled(() => pools.work.take(usualTimeout)),
        (one) => {
          const transaction = within(one)
          one.begin()
          return Effect.tap(work(transaction), () => transaction.query(commit))
        },
        (one, exit) =>
          Effect.andThen(
            // One that is busy was left by its fiber: giving it back ends it.
            Exit.isSuccess(exit) || !one.isOpen || one.isBusy
              ? Effect.void
              : Effect.ignore(within(one).query(rollback)),
            Effect.sync(() => pools.work.give(one)),
          ),
      ),
    server: () => server,
    close: () => each((pool) => pool.close()),
  }
}
