/** Limits the number of open live streams. Each of them takes work while its reader stays, which may be weeks. */
import { Effect, Stream } from "effect"
import { TooMany } from "./ApiErrors.ts"

/** Maximum open streams. */
export const most = 64

export const make = () => {
  let open = 0
  const counting = Effect.acquireRelease(
    Effect.sync(() => {
      open += 1
    }),
    () =>
      Effect.sync(() => {
        open -= 1
      }),
  )
  /** Fails if too many are open. A stream counts from when it is first read until it ends. */
  return <A, E, E2, R>(stream: Effect.Effect<Stream.Stream<A, E>, E2, R>) =>
    Effect.suspend((): Effect.Effect<Stream.Stream<A, E>, E2 | TooMany, R> => {
      if (open < most) return Effect.map(stream, (one) => Stream.unwrap(Effect.as(counting, one)))
      return Effect.fail(
        new TooMany({
          message: `${most} live streams are open, as many as the relay serves: close commands that follow it (\`relay tap\`)`,
        }),
      )
    })
}
