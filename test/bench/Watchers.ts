/**
 * The observers of a relay: an open page, a tail and Prometheus, each with the requests that it makes. The cost in the
 * browser is not measured.
 */
import { Duration, Effect, type Scope } from "effect"
import { BenchError } from "./BenchError.ts"

/** Reads a streamed response. The function returns the number of bytes received. */
const follow = (url: string): Effect.Effect<() => number, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => {
        const abort = new AbortController()
        const read = { bytes: 0 }
        const reading = async () => {
          const { body } = await fetch(url, { signal: abort.signal })
          for await (const chunk of body ?? []) read.bytes += chunk.length
        }
        reading().catch(() => {})
        return { abort, read }
      }),
      ({ abort }) => Effect.sync(() => abort.abort()),
    ),
    ({ read }) =>
      () =>
        read.bytes,
  )

/** Sends a request again and again at this interval. Failed requests are ignored. */
const poll = (url: string, every: Duration.Duration) =>
  Effect.forkScoped(
    Effect.forever(
      Effect.andThen(
        Effect.promise(() =>
          fetch(url).then(
            (response) => response.arrayBuffer(),
            () => undefined,
          ),
        ),
        Effect.sleep(every),
      ),
    ),
  )

/** Attaches all three until the scope closes. Fails if the tail gives nothing. */
export const attach = Effect.fnUntraced(function* (adminPort: number) {
  const api = `http://127.0.0.1:${adminPort}`
  yield* poll(`${api}/api/v1/status`, Duration.seconds(1))
  yield* poll(`${api}/api/v1/tap/since`, Duration.millis(500))
  const tail = yield* follow(`${api}/api/v1/tap`)
  yield* poll(`${api}/api/v1/history`, Duration.seconds(10))
  yield* poll(`${api}/api/v1/routes`, Duration.seconds(10))
  yield* poll(`${api}/metrics`, Duration.seconds(1))
  yield* Effect.sleep(Duration.seconds(2))
  if (tail() === 0) return yield* new BenchError({ message: "the relay's tail gives nothing" })
})
