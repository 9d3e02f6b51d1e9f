/**
 * Connections that a sink keeps from one send to the next.
 *
 * **Guarantee.** A connection that has ended is not used. One whose use failed or
 * was interrupted is not used again.
 */
import { type Duration, Effect, Exit, Pool, RcRef, type Scope } from "effect"

/** A connection that knows whether it is open. */
interface Connection {
  /** False once the other side or an error has ended it. */
  readonly isOpen: () => boolean
}

/** Uses a connection. It is closed afterwards unless the use succeeded and `isWhole` says that it can go on. */
export type Use<C, E> = <A, E2>(
  use: (connection: C) => Effect.Effect<A, E2>,
  isWhole?: (value: A, connection: C) => boolean,
) => Effect.Effect<A, E | E2>

const using =
  <C extends Connection, E>(
    get: Effect.Effect<C, E, Scope.Scope>,
    invalidate: (connection: C) => Effect.Effect<void, never, Scope.Scope>,
  ): Use<C, E> =>
  (use, isWhole = () => true) =>
    Effect.scoped(
      Effect.gen(function* () {
        let connection = yield* get
        while (!connection.isOpen()) {
          yield* invalidate(connection)
          connection = yield* get
        }
        return yield* Effect.onExit(use(connection), (exit) =>
          Exit.isSuccess(exit) && isWhole(exit.value, connection) ? Effect.void : invalidate(connection),
        )
      }),
    )

/** The lane limits the batches in flight; it has a thousand at most. */
const most = 1_000

/** A connection for each use at a time; one that was idle for `timeToLive` is closed. */
export const pooled = <C extends Connection, E>(
  open: Effect.Effect<C, E, Scope.Scope>,
  timeToLive: Duration.Input,
): Effect.Effect<Use<C, E>, never, Scope.Scope> =>
  Effect.map(Pool.makeWithTTL({ acquire: open, min: 0, max: most, timeToLive }), (pool) =>
    using(Pool.get(pool), (connection) => Pool.invalidate(pool, connection)),
  )

/** One connection for all uses, opened by the first. */
export const shared = <C extends Connection, E>(
  open: Effect.Effect<C, E, Scope.Scope>,
): Effect.Effect<Use<C, E>, never, Scope.Scope> =>
  Effect.map(RcRef.make({ acquire: open, idleTimeToLive: "Infinity" }), (ref) =>
    using(RcRef.get(ref), () => RcRef.invalidate(ref)),
  )
