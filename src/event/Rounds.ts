/**
 * Work that is repeated as long as the relay runs, such as deleting old events. A
 * failure or a defect of it is logged, and ends that round alone.
 */
import { Cause, Duration, Effect, Semaphore } from "effect"

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

// Long work in slices: a config may have thousands of routes, and a relay that reloads it goes on meanwhile.

/** Lets what waits run first. */
export const letOthersRun = Effect.callback<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})

/** A turn of the event loop for each fiber that asks: many that do the same at once still let what waits run between them. */
export const turnstile = (): Effect.Effect<void> => Semaphore.makeUnsafe(1).withPermit(letOthersRun)

/** Each of many in turn, so many at a time. */
export const inSlices = Effect.fnUntraced(function* <A, B>(
  items: ReadonlyArray<A>,
  size: number,
  work: (item: A, index: number) => B,
) {
  const results: Array<B> = []
  for (const [index, item] of items.entries()) {
    if (index % size === size - 1) yield* letOthersRun
    results.push(work(item, index))
  }
  return results
})
