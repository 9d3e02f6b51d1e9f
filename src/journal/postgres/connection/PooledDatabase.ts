/** The database of a config, for the length of a scope. It connects on first use. */
import { Effect, Exit, Result, type Scope } from "effect"
import { rounds } from "../../../event/Rounds.ts"
import { ConfigInForce } from "../../ConfigInForce.ts"
import { type Connection, type ConnectionOptions, commit, rollback, usualTimeout } from "./Connection.ts"
import * as ConnectionPool from "./ConnectionPool.ts"
import type { Database, Params, Queries, QueryOptions, Server, Use } from "./Database.ts"
import type { DatabaseError } from "./DatabaseError.ts"
import { connectionOf, type PostgresConfig } from "./PostgresConfig.ts"
import { Cluster, connectWriter, OtherServers } from "./WriterSearch.ts"

/** Milliseconds between two checks of the servers that the relay doesn't write to. */
const lookEvery = 1_000

export interface DatabaseOptions {
  /** Called for each new connection, so that a changed password takes effect. */
  readonly connection: () => ConnectionOptions
  /** Maximum connections for work that may wait. Appends and heartbeats have one more each. */
  readonly poolSize: number
}

const settled = <A>(promise: () => Promise<Result.Result<A, DatabaseError>>): Effect.Effect<A, DatabaseError> =>
  Effect.flatMap(Effect.promise(promise), Effect.fromResult)

/** Opens the database of a config. A reload may change its password. */
export const ofConfig = (config: PostgresConfig): Effect.Effect<Database, never, Scope.Scope> =>
  Effect.flatMap(ConfigInForce, (inForce) =>
    open({
      connection: () => connectionOf((inForce() as PostgresConfig | undefined) ?? config),
      poolSize: config.pool,
    }),
  )

/** A database with a pool for each use, for the length of a scope. */
export const open = Effect.fnUntraced(function* ({
  connection,
  poolSize,
}: DatabaseOptions): Effect.fn.Return<Database, never, Scope.Scope> {
  const cluster = new Cluster()
  let server: Server | undefined
  const connect = async (): Promise<Connection> => {
    const made = await connectWriter(connection(), cluster)
    server = made.server
    return made
  }
  const pools: Readonly<Record<Use, ConnectionPool.ConnectionPool>> = {
    append: yield* ConnectionPool.make(connect, 1),
    beat: yield* ConnectionPool.make(connect, 1),
    work: yield* ConnectionPool.make(connect, poolSize),
  }
  cluster.onChanged = (isOld) => {
    for (const pool of Object.values(pools)) pool.retire(isOld)
  }
  if (connection().url.hosts.length > 1) {
    const others = yield* Effect.acquireRelease(
      Effect.sync(() => new OtherServers(cluster)),
      (others) => Effect.sync(() => others.close()),
    )
    const look = Effect.promise(() => others.look(connection()))
    yield* Effect.forkScoped(Effect.delay(rounds("looking at the cluster's other servers", look, lookEvery), lookEvery))
  }
  const runPromise = Effect.runPromiseWith(yield* Effect.context<never>())

  const queryUnsafe = <Row>(use: Use, sql: string, params: Params = [], options: QueryOptions = {}) => {
    const { timeout = usualTimeout } = options
    const from = performance.now()
    const answer = pools[use].use(timeout, (one) => {
      const left = Math.max(1, timeout - (performance.now() - from))
      return Effect.promise(() => one.query<Row>(sql, params, { ...options, timeout: left }))
    })
    return runPromise(Effect.catch(answer, (failure) => Effect.succeed(Result.fail(failure))))
  }

  const within = (one: Connection): Queries => ({
    query: <Row>(sql: string, params: Params = [], options: QueryOptions = {}) =>
      settled(() => one.query<Row>(sql, params, options)),
  })

  return {
    // An interrupted caller abandons its statement, which ends in the background and keeps its connection.
    query: <Row>(sql: string, params: Params = [], options: QueryOptions = {}) =>
      settled(() => queryUnsafe<Row>("work", sql, params, options)),
    queryUnsafe,
    transact: <A, E>(work: (transaction: Queries) => Effect.Effect<A, E>) =>
      pools.work.use(usualTimeout, (one) => {
        const transaction = within(one)
        return Effect.acquireUseRelease(
          Effect.sync(() => one.begin()),
          () => Effect.tap(work(transaction), () => transaction.query(commit)),
          (_, exit) => {
            if (Exit.isSuccess(exit) || !one.isOpen) return Effect.void
            // An interrupted fiber left its statement under way.
            return one.isBusy ? Effect.sync(() => one.destroy()) : Effect.ignore(transaction.query(rollback))
          },
        )
      }),
    server: () => server,
  }
})
