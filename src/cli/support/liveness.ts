/**
 * Tells a relay that works from one that hangs.
 *
 * Some answers come late by design: of an erasure, a move, a reload, a replay of
 * many dead letters. So no request has a deadline of its own. `/healthz` is asked
 * before it, and again while it lasts: the relay answers that whatever it works on.
 */
import { Duration, Effect } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import { type CommandError, unreachable } from "./CommandError.ts"
import { withDeadline } from "./deadline.ts"

/** Between two heartbeats while a request lasts. */
const every = Duration.seconds(10)
/** Within this the watchdog of the unit wants a heartbeat, too. */
const whileWorking = Duration.seconds(30)

const advice = "Look at its log, and restart it if it stays silent."

/** Ends once the relay answers, or nothing listens: then the request itself says what is wrong. */
export const heartbeatOf = (url: string): Effect.Effect<void> =>
  HttpClient.get(`${url}/healthz`).pipe(Effect.ignore, Effect.provide(FetchHttpClient.layer))

/** Sends a request to a relay that is alive, and awaits its answer for as long as it is. */
export const whileAlive =
  (heartbeat: Effect.Effect<void>) =>
  <A, E, R>(request: Effect.Effect<A, E, R>): Effect.Effect<A, E | CommandError, R> => {
    const before = withDeadline((time) =>
      unreachable(`the relay does not answer within ${time}: it may hang\n  ${advice}`),
    )(heartbeat)
    const meanwhile = withDeadline(
      (time) =>
        unreachable(
          `the relay has not answered for ${time}: it may hang, and may have done what it was asked, or a part of it\n  ${advice}`,
        ),
      whileWorking,
    )(heartbeat)
    const watch = Effect.forever(Effect.andThen(Effect.sleep(every), meanwhile))
    return Effect.andThen(before, Effect.raceFirst(request, watch))
  }
