/** Starts a server in its own process, waits until it is ready, and ends it with the scope. */
import { closeSync, openSync, readFileSync } from "node:fs"
import { Duration, Effect, type Scope } from "effect"
import { BenchError } from "./BenchError.ts"
import * as Usage from "./Usage.ts"

export interface Child {
  readonly name: string
  readonly pid: number
  /** Fails with the end of its log once the process has ended by itself. */
  readonly alive: Effect.Effect<void, BenchError>
  /** The last lines that it printed. */
  readonly log: Effect.Effect<string>
  /** Returns the number of garbage collections since the start. */
  readonly collections: () => number
}

const root = new URL("../..", import.meta.url).pathname
/** How long a server may take to start, and to end. */
const timeout = Duration.seconds(30)

/**
 * `log` is the path of a file for the process's output. `ready` is a URL that answers 200 once the server can take
 * load.
 */
export const spawn = (
  name: string,
  command: ReadonlyArray<string>,
  { log, ready }: { readonly log: string; readonly ready: string },
): Effect.Effect<Child, BenchError, Scope.Scope> =>
  Effect.gen(function* () {
    const subprocess = yield* Effect.acquireRelease(
      Effect.sync(() => {
        const fd = openSync(log, "a")
        const env = { ...process.env, RELAY_DRAIN_REFUSE: "0 seconds", ...Usage.loggingCollections }
        const spawned = Bun.spawn([...command], { cwd: root, env, stdin: "ignore", stdout: fd, stderr: fd })
        closeSync(fd)
        return spawned
      }),
      (spawned) =>
        Effect.promise(() => {
          spawned.kill("SIGTERM")
          return spawned.exited
        }).pipe(Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.sync(() => spawned.kill("SIGKILL")) })),
    )
    const alive = Effect.suspend(() =>
      subprocess.exitCode === null && subprocess.signalCode === null
        ? Effect.void
        : Effect.fail(new BenchError({ message: `${name} ended by itself. The end of its log:\n${tail(log)}` })),
    )
    yield* awaitReady(ready, alive).pipe(
      Effect.timeoutOrElse({
        duration: timeout,
        orElse: () => Effect.fail(new BenchError({ message: `${name} did not get ready:\n${tail(log)}` })),
      }),
    )
    return {
      name,
      pid: subprocess.pid,
      alive,
      log: Effect.sync(() => tail(log)),
      collections: Usage.collectionsIn(log),
    }
  })

const tail = (log: string): string =>
  Usage.withoutCollections(readFileSync(log, "utf8").trimEnd().split("\n")).slice(-8).join("\n")

const awaitReady = Effect.fnUntraced(function* (url: string, alive: Effect.Effect<void, BenchError>) {
  for (;;) {
    yield* alive
    const status = yield* Effect.promise(() =>
      fetch(url).then(
        (response) => response.status,
        () => 0,
      ),
    )
    if (status === 200) return
    yield* Effect.sleep(Duration.millis(20))
  }
})

/** A port that was free a moment ago. */
export const freePort = Effect.promise(async () => {
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() })
  const port = server.port ?? 0
  await server.stop(true)
  return port
})
