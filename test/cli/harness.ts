/** The command line in this process: arguments in; exit code, stdout and stderr out. */
import { afterAll } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Console, Effect } from "effect"
import { run } from "../../src/cli/Cli.ts"
import { report } from "../../src/cli/reports/exitReport.ts"
import { Columns } from "../../src/cli/support/output.ts"
import { Program } from "../../src/cli/support/Program.ts"
import { services } from "../../src/runtime/Process.ts"

/** A directory that is removed after the tests of the file. */
export const temporary = (): string => {
  const directory = mkdtempSync(join(tmpdir(), "relay-cli-"))
  afterAll(() => rmSync(directory, { recursive: true }))
  return directory
}

export interface Finished {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export interface Surroundings {
  readonly env?: Readonly<Record<string, string>>
  /** The width of the terminal (default: not a terminal). */
  readonly columns?: number
}

/** For a test with a clock of its own. */
export const command = Effect.fnUntraced(function* (
  args: ReadonlyArray<string>,
  { env = {}, columns = Number.POSITIVE_INFINITY }: Surroundings = {},
): Effect.fn.Return<Finished> {
  const printed = { stdout: "", stderr: "" }
  const into =
    (stream: keyof typeof printed) =>
    (...parts: ReadonlyArray<unknown>) => {
      printed[stream] += `${parts.join(" ")}\n`
    }
  const console: Console.Console = { ...globalThis.console, log: into("stdout"), error: into("stderr") }
  const program = Program.of({ entry: new URL("../../src/main.ts", import.meta.url), command: "relay", env })
  const exit = yield* run(args).pipe(
    Effect.provide(services),
    Effect.provideService(Program, program),
    Effect.provideService(Columns, { stdout: columns, stderr: columns }),
    Effect.provideService(Console.Console, console),
    Effect.exit,
  )
  const { code, message } = report(exit, false, undefined, columns)
  if (message !== "") printed.stderr += `${message}\n`
  return { code, ...printed }
})

export const cli = (args: ReadonlyArray<string>, surroundings: Surroundings = {}): Promise<Finished> =>
  Effect.runPromise(command(args, surroundings))
