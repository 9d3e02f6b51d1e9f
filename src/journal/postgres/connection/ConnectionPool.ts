/**
 * A pool of connections. If none is free, it opens another, up to a bound. It closes connections that were
 * unused for a minute. Callers queue when the bound is reached.
 *
 * **Guarantee.** A connection that closed is never lent again. When the scope closes, all connections close
 * immediately.
 */
import { Cause, Effect, Pool, type Scope } from "effect"
import * as Monotonic from "../../../event/Monotonic.ts"
import type { Connection } from "./Connection.ts"
import { type DatabaseError, databaseError } from "./DatabaseError.ts"

export interface ConnectionPool {
  /** Lends a connection to `f` alone. A caller waits at most `timeout` milliseconds for it. */
  readonly use: <A, E>(
    timeout: number,
    f: (connection: Connection) => Effect.Effect<A, E>,
  ) => Effect.Effect<A, E | DatabaseError>
  /** Destroys connections that are too old. The statements under way on them fail. */
  readonly retire: (isOld: (connection: Connection) => boolean) => void
}

export const make = (
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
