/**
 * Load that measures how much a server can take. wrk has 64 connections by default, and each sends its next request as
 * soon as the last is answered. A client on Bun's own fetch would saturate before the server, and every ratio would
 * look better than it is. wrk accepts only whole seconds.
 */
import { Effect } from "effect"
import { BenchError } from "./BenchError.ts"
import * as Requests from "./Requests.ts"

export const connections = 64

export interface Load {
  /** Requests answered. */
  readonly requests: number
  /** Requests a second. */
  readonly rate: number
  /** Milliseconds. */
  readonly p50: number
  readonly p99: number
  /** Answered, but not with a 2xx. */
  readonly refused: number
}

const missing = `wrk is missing, which makes the load: install it (Debian and Ubuntu: apt-get install wrk, macOS: brew install wrk) and run this again`

export const requireWrk = Effect.suspend(() =>
  Bun.which("wrk") === null ? Effect.fail(new BenchError({ message: missing })) : Effect.void,
)

/** `file` is a file that `Requests.writeFile` wrote. */
export const closed = Effect.fnUntraced(function* (port: number, file: string, seconds: number, senders = connections) {
  const script = new URL("load.lua", import.meta.url).pathname
  const url = `http://127.0.0.1:${port}${Requests.path}`
  const wrk = Bun.spawn(["wrk", "-t1", `-c${senders}`, `-d${seconds}s`, "-s", script, url], {
    stdout: "pipe",
    stderr: "pipe",
    env: { ...process.env, BENCH_REQUESTS: file, BENCH_REQUEST_BYTES: String(Requests.requestBytes) },
  })
  const output = yield* Effect.promise(() => new Response(wrk.stdout).text()).pipe(
    Effect.onInterrupt(() => Effect.sync(() => wrk.kill())),
  )
  const result = /^RESULT (.*)$/m.exec(output)?.[1]
  if (result === undefined) return yield* new BenchError({ message: `wrk failed:\n${output.slice(-500)}` })
  const { requests, micros, p50, p99, refused, broken } = JSON.parse(result)
  if (broken > 0) return yield* new BenchError({ message: `${broken} connections to ${url} broke under load` })
  const load: Load = { requests, rate: requests / (micros / 1e6), p50: p50 / 1000, p99: p99 / 1000, refused }
  return load
})
