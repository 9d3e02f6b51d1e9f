/** Work that is repeated as long as the relay runs, such as deleting old events. */
import { Cause, type Duration, Effect } from "effect"

const reported = (work: string, cause: Cause.Cause<unknown>): Effect.Effect<void> => {
  const error = Cause.findErrorOption(cause)
  if (Cause.hasDies(cause) || error._tag === "None")
    return Effect.logError(`a bug in relay: ${work} failed; it is tried again`, cause)
  return Effect.logWarning(
    `${work} failed, and is tried again: ${String((error.value as { message?: unknown }).message)}`,
  )
}

/** Repeats a task, with a wait after each round. A failure or a defect is logged, and ends that round alone. */
export const rounds = <E, R>(
  work: string,
  task: Effect.Effect<unknown, E, R>,
  every: Duration.Input,
): Effect.Effect<never, never, R> =>
  Effect.forever(
    Effect.andThen(
      Effect.catchCause(task, (cause) => (Cause.hasInterruptsOnly(cause) ? Effect.interrupt : reported(work, cause))),
      Effect.sleep(every),
    ),
  )
