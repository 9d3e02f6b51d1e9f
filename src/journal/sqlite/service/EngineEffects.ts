/** The engine's synchronous work as effects. */
import { Effect, Schedule } from "effect"
import { eventLoop } from "../../../event/EventLoop.ts"
import { JournalError } from "../../JournalError.ts"
import { slice } from "../../stream/BulkSlices.ts"
import type { Engine } from "../commit/Engine.ts"
import { isLocked } from "../commit/ForeignLock.ts"

/** Delays an effect until the journal has loaded its state, or is broken. */
export type Started = <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>

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

/** Maximum entries of a slice, which holds the event loop: while deliveries arrive, a slice is shorter. */
export const entriesInSlice = (): number => (eventLoop.isShared ? 16 : slice.entries)

/** Runs a slice that does not suspend, and then waits for a turn of the event loop that has time. */
export const inOneTurn = <A>(engine: Engine, work: Effect.Effect<A, JournalError>): Effect.Effect<A, JournalError> =>
  patient(() => {
    // Deliveries of the open batch are stored or refused before a slice looks for them.
    engine.flush(true)
    return Effect.runSync(work)
  }).pipe(Effect.tap(() => eventLoop.turn))

/** Runs an operation step by step. Other work runs between the steps. */
export const sliced = <A>(engine: Engine, steps: () => Generator<void, A>): Effect.Effect<A, JournalError> =>
  Effect.acquireUseRelease(
    Effect.sync(steps),
    (generator) =>
      attempt(() => engine.guard(() => generator.next())).pipe(
        Effect.tap(() => eventLoop.turn),
        Effect.repeat({ until: ({ done }) => done === true }),
        Effect.map(({ value }) => value as A),
      ),
    // An interrupted operation may hold a resource.
    (generator) => Effect.sync(() => generator.return(undefined as A)),
  )
