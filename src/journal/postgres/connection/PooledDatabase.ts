/** The database of a config, for the length of a scope. It connects on first use. */
import { Cause, Effect, Exit, Pool, Result, type Scope } from "effect"
import * as Monotonic from "../../../event/Monotonic.ts"
import { rounds } from "../../../event/Rounds.ts"
import { ConfigInForce } from "../../JournalContext.ts"
import { type Connection, type ConnectionOptions, commit, rollback, usualTimeout } from "./Connection.ts"
import type { Database, Params, Queries, QueryOptions, Server, Use } from "./Database.ts"
import { type DatabaseError, databaseError } from "./DatabaseError.ts"
import { connectionOf, type PostgresConfig } from "./PostgresConfig.ts"
import { Cluster, connectWriter, OtherServers } from "./WriterSearch.ts"

interface ConnectionPool {
  /** Lends a connection to `f` alone. A caller waits at most `timeout` milliseconds for it. */
  readonly use: <A, E>(
    timeout: number,
    f: (connection: Connection) => Effect.Effect<A, E>,
  ) => Effect.Effect<A, E | DatabaseError>
  /** Destroys connections that are too old. The statements under way on them fail. */
  readonly retire: (isOld: (connection: Connection) => boolean) => void
}

/**
 * A pool of connections. If none is free, it opens another, up to a bound. It closes connections that were unused
 * for a minute. Callers queue when the bound is reached.
 *
 * **Guarantee.** A connection that closed is never lent again. When the scope closes, all connections close
 * immediately.
 */
export const makePool = (
  connect: () => Promise<Connection>,
  size: number,
): Effect.Effect<ConnectionPool, never, Scope.Scope> =>
  Effect.gen(function* () {
    const open = new Set<Connection>()
    let isClosed = false
    const runFork = Effect.runForkWith(yield* Effect.context<never>())

    const connected = async (): Promise<Connection> => {
      const connection = await connect()
      open.add(connection)
      connection.onClosed = () => {
        open.delete(connection)
        runFork(Pool.invalidate(pool, connection))
      }
      // No caller waits for a connection that opens while the scope closes.
      if (isClosed) connection.close()
      return connection
    }
    const pool: Pool.Pool<Connection, DatabaseError> = yield* Monotonic.measured(() =>
      Pool.makeWithTTL({
        acquire: Effect.acquireRelease(
          Effect.tryPromise({ try: connected, catch: (error) => error as DatabaseError }),
          (connection) => Effect.sync(() => connection.close()),
          { interruptible: true },
        ),
        min: 0,
        max: size,
        timeToLive: "1 minute",
      }),
    )
    // This runs before the pool's own finalizer, which waits until every connection in use is given back.
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        isClosed = true
        for (const connection of open) connection.close()
      }),
    )

    const ending = databaseError("unavailable", "PostgreSQL: the relay is ending")
    const waiting = (timeout: number) =>
      Pool.get(pool).pipe(
        // A pool that shuts down interrupts its callers.
        Effect.catchCause((cause) =>
          isClosed && Cause.hasInterruptsOnly(cause) ? Effect.fail(ending) : Effect.failCause(cause),
        ),
        Effect.timeoutOrElse({
          duration: timeout,
          orElse: () =>
            Effect.fail(databaseError("unavailable", `PostgreSQL: no connection within ${timeout} milliseconds`)),
        }),
      )
    const use: ConnectionPool["use"] = (timeout, f) =>
      Effect.suspend(() => {
        if (isClosed) return Effect.fail(ending)
        // A connection that closed before it entered the pool couldn't be removed from it.
        const lend = (connection: Connection) =>
          connection.isOpen ? f(connection) : Effect.andThen(Pool.invalidate(pool, connection), use(timeout, f))
        // A deadline costs more than everything else here together, so callers that needn't wait get none.
        if (pool.state.availableHead?.exit._tag === "Success") return Pool.use(pool, lend)
        return Effect.scoped(Effect.flatMap(waiting(timeout), lend))
      })
    return {
      use,
      retire: (isOld) => {
        for (const connection of open) if (isOld(connection)) connection.destroy()
      },
    }
  })

/** Milliseconds between two checks of the servers that the relay doesn't write to. */
const lookEvery = 1_000

interface DatabaseOptions {
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
  const pools: Readonly<Record<Use, ConnectionPool>> = {
    append: yield* makePool(connect, 1),
    beat: yield* makePool(connect, 1),
    work: yield* makePool(connect, poolSize),
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
