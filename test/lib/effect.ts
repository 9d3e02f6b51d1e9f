/**
 * Effects as tests of `bun:test`: `it.effect` runs under the test clock, where
 * time passes only when a test says so; `it.live` runs under the real one.
 * Both give the test a scope that closes when it ends.
 */
import { test } from "bun:test"
import { Cause, Effect, Exit, Layer, Logger, type Scope } from "effect"
import { TestClock } from "effect/testing"

type Body<E, R> = () => Effect.Effect<void, E, R>

/** Failures of a test should read as they are: the errors themselves, not the fiber's account of them. */
const run = async <E>(effect: Effect.Effect<void, E>): Promise<void> => {
  const exit = await Effect.runPromiseExit(effect)
  if (Exit.isSuccess(exit)) return
  const [first] = Cause.prettyErrors(exit.cause)
  throw first ?? new Error(Cause.pretty(exit.cause))
}

/** What a test logs is noise unless it asks: `RELAY_TEST_LOG=1 bun test`. */
const logging = process.env.RELAY_TEST_LOG === "1" ? Layer.empty : Logger.layer([])

const effect = <E>(name: string, body: Body<E, Scope.Scope>, timeout?: number): void =>
  test(
    name,
    () => run(Effect.suspend(body).pipe(Effect.scoped, Effect.provide(Layer.merge(TestClock.layer(), logging)))),
    timeout,
  )

const live = <E>(name: string, body: Body<E, Scope.Scope>, timeout?: number): void =>
  test(name, () => run(Effect.suspend(body).pipe(Effect.scoped, Effect.provide(logging))), timeout)

export const it = { effect, live }
