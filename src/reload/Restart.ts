/** The restart of a relay by itself, as the admin API asks for it. `relay run` does it. */
import { Context, type Effect, Layer, Schema } from "effect"
import type { Millis } from "../event/Quantities.ts"

/** The relay goes on as before. */
export class RestartRefused extends Schema.TaggedError<RestartRefused>()("RestartRefused", {
  message: Schema.String,
}) {}

/** The process that answers, and the last restart. */
export interface RestartStatus {
  readonly pid: number
  /** Why this process is still the relay, after a restart that failed. */
  readonly failure?: string
  /** The time without an open journal, if this process took over from another one. */
  readonly took?: Millis
  /** The time of the last start, if requests can't wait for the next one: a restart then stops this process, and the service manager starts it again. */
  readonly stops?: Millis
}

export class Restart extends Context.Service<
  Restart,
  {
    /** Starts the second process, and returns its id once it listens. Begins to stop this one instead, if `status` says so, and returns its id. */
    readonly begin: Effect.Effect<number, RestartRefused>
    readonly status: Effect.Effect<RestartStatus>
  }
>()("relay/reload/Restart") {
  static readonly layer = (restart: Restart["Service"]): Layer.Layer<Restart> => Layer.succeed(Restart, restart)
}
