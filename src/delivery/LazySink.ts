/**
 * A sink that is opened when it is first needed, and again after opening
 * failed: the relay starts and accepts events while a broker is away, and the
 * lane's circuit breaker paces the attempts as it paces any other.
 */
import { Effect, Exit, Scope, Semaphore } from "effect"
import type { Sink, SinkError } from "../sinks/Sink.ts"

/** Until it is open nothing is known about its batches: one event at a time. */
const cautious: Sink["batch"] = { maxEvents: 1, maxBytes: Number.POSITIVE_INFINITY }

export const make = Effect.fnUntraced(function* (open: Effect.Effect<Sink, SinkError, Scope.Scope>) {
  const scope = yield* Scope.Scope
  const opening = yield* Semaphore.make(1)
  let opened: Sink | undefined

  const ensureOpen = opening.withPermits(1)(
    Effect.suspend(() => {
      if (opened !== undefined) return Effect.succeed(opened)
      return Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const own = yield* Scope.fork(scope)
          const exit = yield* Effect.exit(restore(Scope.provide(open, own)))
          if (Exit.isFailure(exit)) {
            yield* Scope.close(own, exit)
            return yield* exit
          }
          opened = exit.value
          return opened
        }),
      )
    }),
  )

  const sink: Sink = {
    get batch() {
      return opened?.batch ?? cautious
    },
    send: (batch) =>
      opened === undefined ? Effect.flatMap(ensureOpen, (sink) => sink.send(batch)) : opened.send(batch),
    check: Effect.flatMap(ensureOpen, (sink) => sink.check),
  }
  return { sink, ensureOpen }
})
