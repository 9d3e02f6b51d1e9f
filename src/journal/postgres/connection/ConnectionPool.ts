/**
 * A pool of connections. It connects when a caller wants one and none is free,
 * up to a bound, and closes those that nobody wanted for a minute. Callers queue
 * when the bound is reached.
 *
 * **Guarantee.** A connection that closed is never lent again. When the scope closes, all connections close immediately.
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
  /** Destroys the connections that are too old, and so fails the statements under way on them. */
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
      // Nobody waits for a connection that is made while the scope closes.
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
        // One that closed before the pool had it could not be taken out of it.
        const lend = (connection: Connection) =>
          connection.isOpen ? f(connection) : Effect.andThen(Pool.invalidate(pool, connection), use(timeout, f))
        // A deadline costs more than the rest together, and a caller that need not wait has no use for one.
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
