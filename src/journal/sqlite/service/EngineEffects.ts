/** The engine's synchronous work as effects. */
import { Effect, Schedule } from "effect"
import { JournalError } from "../../JournalError.ts"
import type { Engine } from "../commit/Engine.ts"
import { isLocked } from "../commit/ForeignLock.ts"

/** Delays an effect until the journal has read what it needs, or is broken. */
export type Started = <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>

/** Lets everything else that waits for the event loop run first. */
export const macrotask = Effect.callback<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})

/** Fails with the `JournalError` that `work` throws. Anything else is a bug. */
export const attempt = <A>(work: () => A): Effect.Effect<A, JournalError> =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(work())
    } catch (error) {
      return error instanceof JournalError ? Effect.fail(error) : Effect.die(error)
    }
  })

/** Repeats work for five seconds while another process holds the file. */
export const patient = <A>(work: () => A): Effect.Effect<A, JournalError> =>
  Effect.retry(attempt(work), {
    while: isLocked,
    schedule: Schedule.max([Schedule.spaced("20 millis"), Schedule.recurs(250)]),
  })

/** Runs a slice that does not suspend, and then lets everything else run. */
export const inOneTurn = <A>(engine: Engine, slice: Effect.Effect<A, JournalError>): Effect.Effect<A, JournalError> =>
  patient(() => {
    // Deliveries of the open batch are stored or refused before a slice looks for them.
    engine.flush(true)
    return Effect.runSync(slice)
  }).pipe(Effect.tap(() => macrotask))

/** Runs an operation step by step; other work runs in between. */
export const sliced = <A>(engine: Engine, steps: () => Generator<void, A>): Effect.Effect<A, JournalError> =>
  Effect.suspend(() => {
    const generator = steps()
    const step: Effect.Effect<A, JournalError> = Effect.suspend(() => {
      try {
        const next = generator.next()
        return next.done === true ? Effect.succeed(next.value) : Effect.andThen(macrotask, step)
      } catch (error) {
        return Effect.fail(engine.failed(error))
      }
    })
    // One that is interrupted may hold something.
    return Effect.ensuring(
      step,
      Effect.sync(() => generator.return?.(undefined as A)),
    )
  })
