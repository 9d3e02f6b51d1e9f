/**
 * Work that is repeated as long as the relay runs, such as deleting old events. A
 * failure or a defect of it is logged, and ends that round alone.
 */
import { Cause, Duration, Effect } from "effect"

/** The wait after a round that failed, if the task has no schedule but its own. */
const failureWait = Duration.seconds(1)

const reported = (work: string, cause: Cause.Cause<unknown>): Effect.Effect<void> => {
  const error = Cause.findErrorOption(cause)
  if (Cause.hasDies(cause) || error._tag === "None")
    return Effect.logError(`a bug in relay: ${work} failed; it is tried again`, cause)
  return Effect.logWarning(
    `${work} failed, and is tried again: ${String((error.value as { message?: unknown }).message)}`,
  )
}

const round = <E, R>(
  work: string,
  task: Effect.Effect<unknown, E, R>,
  afterFailure: Effect.Effect<void>,
): Effect.Effect<unknown, never, R> =>
  Effect.catchCause(task, (cause) =>
    Cause.hasInterruptsOnly(cause) ? Effect.interrupt : Effect.andThen(reported(work, cause), afterFailure),
  )

/** Repeats a task, with a wait after each round. */
export const rounds = <E, R>(
  work: string,
  task: Effect.Effect<unknown, E, R>,
  every: Duration.Input,
): Effect.Effect<never, never, R> => Effect.forever(Effect.andThen(round(work, task, Effect.void), Effect.sleep(every)))

/** Repeats a task that waits by itself, such as for an event. */
export const repeating = <E, R>(work: string, task: Effect.Effect<unknown, E, R>): Effect.Effect<never, never, R> =>
  Effect.forever(round(work, task, Effect.sleep(failureWait)))
