/**
 * Shared code of the benchmark's commands: their directories, the command that starts a relay, and their exit codes.
 */
import { existsSync, mkdtempSync, rmSync, statfsSync } from "node:fs"
import { cpus, tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { type ParseArgsOptionsConfig, parseArgs } from "node:util"
import * as NodeRuntime from "@effect/platform-node-shared/NodeRuntime"
import { Console, Effect, type Scope } from "effect"
import { BenchError } from "./BenchError.ts"
import * as Report from "./Report.ts"

const directoryIn = (parent: () => string): Effect.Effect<string, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(parent(), "relay-bench-"))),
    (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
  )

const tmpfs = 0x01021994

/** A directory on a disk. Some temporary directories are in memory, where fsync costs nothing. */
export const onDisk = directoryIn(
  () => [tmpdir(), "/var/tmp"].find((path) => statfsSync(path).type !== tmpfs) ?? tmpdir(),
)

/** In memory, if the system offers that. */
export const inMemory = directoryIn(() => (existsSync("/dev/shm") ? "/dev/shm" : tmpdir()))

/** Parses the command's flags. The error describes a wrong flag. */
export const flags = <const Options extends ParseArgsOptionsConfig>(options: Options) =>
  Effect.try({
    try: () => parseArgs({ options }).values,
    catch: (error) => new BenchError({ message: error instanceof Error ? error.message : String(error) }),
  })

/** How to start the relay: from its source, or the binary that was given. */
export const relayCommand = (binary: string | undefined): ReadonlyArray<string> =>
  binary === undefined ? [process.execPath, "src/main.ts"] : [resolve(binary)]

export const machine = `${cpus().length} × ${cpus()[0]?.model.trim()}, Bun ${Bun.version}`

/** Prints the verdicts and exits with their status, or with 1 if the command could not go on. */
export const main = (program: Effect.Effect<ReadonlyArray<Report.Verdict>, BenchError, Scope.Scope>): void => {
  const exitWith = (status: number) =>
    Effect.sync(() => {
      process.exitCode = status
    })
  NodeRuntime.runMain(
    Effect.gen(function* () {
      if (process.platform !== "linux") {
        return yield* new BenchError({ message: "this command reads CPU times from /proc: it runs on Linux only" })
      }
      const verdicts = yield* Effect.scoped(program)
      yield* Console.log(Report.verdicts(verdicts))
      yield* exitWith(Report.statusOf(verdicts))
    }).pipe(Effect.catchTag("BenchError", ({ message }) => Effect.andThen(Console.error(`\n${message}`), exitWith(1)))),
  )
}
