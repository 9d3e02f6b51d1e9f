/**
 * Effects as tests of `bun:test`: `it.effect` runs under the test clock, where
 * time passes only when a test says so; `it.live` runs under the real one.
 * Both give the test a scope that closes when it ends.
 */
import { test } from "bun:test"
import { Cause, Effect, Exit, Layer, Logger, type Scope } from "effect"
import { TestClock } from "effect/testing"

/** An effect, or the generator of one, as for `Effect.gen`. */
export type Steps<A, E, R = never> = Effect.Effect<A, E, R> | Generator<Effect.Effect<unknown, E, R>, A, never>

export const effectOf = <A, E, R>(body: () => Steps<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    const steps = body()
    return Effect.isEffect(steps) ? steps : Effect.gen(() => steps)
  })

type Body = () => Steps<void, unknown, Scope.Scope>

/** Throws the first error itself, because a test's failure should show the error and not the fiber's account of it. */
const run = async (effect: Effect.Effect<void, unknown>): Promise<void> => {
  const exit = await Effect.runPromiseExit(effect)
  if (Exit.isSuccess(exit)) return
  const [first] = Cause.prettyErrors(exit.cause)
  throw first ?? new Error(Cause.pretty(exit.cause))
}

/** Hides the log of a test, unless `RELAY_TEST_LOG=1` is set. */
const logging = process.env.RELAY_TEST_LOG === "1" ? Layer.empty : Logger.layer([])

const effect = (name: string, body: Body, timeout?: number): void =>
  test(
    name,
    () => run(effectOf(body).pipe(Effect.scoped, Effect.provide(Layer.merge(TestClock.layer(), logging)))),
    timeout,
  )

const live = (name: string, body: Body, timeout?: number): void =>
  test(name, () => run(effectOf(body).pipe(Effect.scoped, Effect.provide(logging))), timeout)

export const it = { effect, live }
