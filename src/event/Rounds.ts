/**
 * Repeats work as long as the relay runs, such as deleting old events. A failure or
 * a defect is logged and ends only its round.
 */
import { Cause, Duration, Effect, Semaphore } from "effect"
import { eventLoop } from "./EventLoop.ts"

/** The wait after a failed round of a task that sets its own pace. */
const failureWait = Duration.seconds(1)

const reported = (work: string, cause: Cause.Cause<unknown>): Effect.Effect<void> => {
  const error = Cause.findErrorOption(cause)
  if (Cause.hasDies(cause) || error._tag === "None")
    return Effect.logError(`internal error: ${work} failed; it is tried again; please report it`, cause)
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

// Long work runs in slices: a config may have thousands of routes, and a relay continues its other work while it
// reloads.

/**
 * Makes an effect that waits for a turn of the event loop. If many fibers run it at
 * the same time, they run one by one, and other work runs between them.
 */
export const turnstile = (): Effect.Effect<void> => Semaphore.makeUnsafe(1).withPermit(eventLoop.turn)

/** Processes items in order, and lets other work run after each `size` items. */
export const inSlices = Effect.fnUntraced(function* <A, B>(
  items: ReadonlyArray<A>,
  size: number,
  work: (item: A, index: number) => B,
) {
  const results: Array<B> = []
  for (const [index, item] of items.entries()) {
    if (index % size === size - 1) yield* eventLoop.turn
    results.push(work(item, index))
  }
  return results
})
