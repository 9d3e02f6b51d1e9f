/**
 * Connections that a sink keeps from one send to the next.
 *
 * **Guarantee.** A connection that has ended is not used, and a connection is not
 * used again after a use that failed or was interrupted. After an interrupted use (a
 * timeout), connections that have been idle since before it are not used either: a
 * NAT or a firewall that silently dropped one has dropped them too. A connection of
 * a pool is not used when it is older than ten minutes, because the name may resolve
 * to another server by then.
 */
import { Duration, Effect, Exit, Pool, RcRef, type Scope } from "effect"
import * as Monotonic from "../event/Monotonic.ts"
import type { SinkError } from "./Sink.ts"

/** A connection that knows whether it is open. */
interface Connection {
  /** False once the other side or an error has ended it. */
  readonly isOpen: () => boolean
}

/** Whether the target's name may resolve to another server now, while the old server still answers. */
export const mayHaveMoved = ({ reason }: SinkError): boolean =>
  reason._tag === "SinkUnavailable" || reason._tag === "SinkMisconfigured"

/** Uses a connection. It is closed afterwards unless the use succeeded and `isWhole` allows another use. */
export type Use<C, E> = <A, E2>(
  use: (connection: C) => Effect.Effect<A, E2>,
  isWhole?: (value: A, connection: C) => boolean,
) => Effect.Effect<A, E | E2>

const maxAge = Duration.toMillis("10 minutes")

/** A connection with its times, in monotonic milliseconds. */
interface Kept<C> {
  readonly connection: C
  readonly openedAt: number
  usedAt: number
}

const keeping = <C, E>(open: Effect.Effect<C, E, Scope.Scope>): Effect.Effect<Kept<C>, E, Scope.Scope> =>
  Effect.map(Effect.all([open, Monotonic.now]), ([connection, at]) => ({ connection, openedAt: at, usedAt: at }))

const using = <C extends Connection, E>(
  get: Effect.Effect<Kept<C>, E, Scope.Scope>,
  invalidate: (kept: Kept<C>) => Effect.Effect<void, never, Scope.Scope>,
  maxAge: number,
): Use<C, E> => {
  /** The start of the last use that was interrupted. */
  let suspectBefore = Number.NEGATIVE_INFINITY
  const isUsable = ({ connection, openedAt, usedAt }: Kept<C>, at: number) =>
    connection.isOpen() && at - openedAt < maxAge && usedAt >= suspectBefore
  return (use, isWhole = () => true) =>
    Effect.scoped(
      Effect.gen(function* () {
        const startedAt = yield* Monotonic.now
        let kept = yield* get
        while (!isUsable(kept, startedAt)) {
          yield* invalidate(kept)
          kept = yield* get
        }
        return yield* Effect.onExit(use(kept.connection), (exit) => {
          if (Exit.hasInterrupts(exit)) suspectBefore = Math.max(suspectBefore, startedAt)
          if (!Exit.isSuccess(exit) || !isWhole(exit.value, kept.connection)) return invalidate(kept)
          return Effect.map(Monotonic.now, (at) => {
            kept.usedAt = at
          })
        })
      }),
    )
}

/** The lane limits the batches in flight; it has a thousand at most. */
const most = 1_000

/** One connection for each concurrent use. A connection that was idle for `timeToLive` is closed. */
export const pooled = <C extends Connection, E>(
  open: Effect.Effect<C, E, Scope.Scope>,
  timeToLive: Duration.Input,
): Effect.Effect<Use<C, E>, never, Scope.Scope> =>
  Effect.map(
    Monotonic.measured((outside) =>
      Pool.makeWithTTL({ acquire: outside(keeping(open)), min: 0, max: most, timeToLive }),
    ),
    (pool) => using(Pool.get(pool), (kept) => Pool.invalidate(pool, kept), maxAge),
  )

/** One connection for all uses, opened by the first. */
export const shared = <C extends Connection, E>(
  open: Effect.Effect<C, E, Scope.Scope>,
): Effect.Effect<Use<C, E>, never, Scope.Scope> =>
  Effect.map(RcRef.make({ acquire: keeping(open), idleTimeToLive: "Infinity" }), (ref) =>
    using(RcRef.get(ref), () => RcRef.invalidate(ref), Number.POSITIVE_INFINITY),
  )
