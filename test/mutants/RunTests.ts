/** Runs files of tests with a limit of time and of memory, because a changed source may loop or allocate for ever. */
import { spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import process from "node:process"
import { createInterface } from "node:readline"
import { BunOutput } from "../ci/BunOutput.ts"

/** A test by its file and its full name. The name is absent if the failure was outside of a test. */
export interface Test {
  readonly file: string
  readonly name?: string
}

export interface Ran {
  readonly status: "passed" | "failed" | "stopped"
  /** The first failure. */
  readonly failed?: Test
  /** The names of the tests that passed. */
  readonly passed: ReadonlyArray<string>
}

/** Bytes of memory at which a run is stopped. */
const mostMemory = 2 * 2 ** 30
const page = 4096

const memoryOf = (pid: number): number => {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]) * page
  } catch {
    return 0
  }
}

/** Runs `bun test` with `args`. As in a plain run, properties try a tenth of their cases. */
export const bunTest = async (root: string, args: ReadonlyArray<string>, seconds: number): Promise<Ran> => {
  const env = { ...process.env, RELAY_RUNNER: "started", RELAY_TRIES: "tenth", RELAY_UNDER: "bun" }
  // A group of its own, so that the end of a run is the end of all that it started.
  const child = spawn(process.execPath, ["test", "--timeout=60000", ...args], { cwd: root, env, detached: true })
  const kill = (): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL")
    } catch {
      // It has ended.
    }
  }
  const output = new BunOutput()
  const passed: Array<string> = []
  let stopped = false
  const reading = [child.stdout, child.stderr].map(async (input) => {
    for await (const line of createInterface({ input })) {
      output.read(line)
      const [, name] = /^\(pass\) (.*?)(?: \[[\d.]+m?s\])?$/.exec(line) ?? []
      if (name !== undefined) passed.push(name)
    }
  })
  const until = performance.now() + seconds * 1000
  const watch = setInterval(() => {
    if (performance.now() < until && memoryOf(child.pid ?? 0) < mostMemory) return
    stopped = true
    kill()
  }, 250)
  // Before the copy of the project is deleted, because a test may still write to it.
  process.prependOnceListener("exit", kill)
  const code = await new Promise<number | null>((resolve) =>
    child.once("close", resolve).once("error", () => resolve(null)),
  )
  clearInterval(watch)
  process.off("exit", kill)
  kill()
  await Promise.all(reading)
  const [first] = output.failures
  const failed = first?.file !== undefined && {
    file: first.file,
    ...(first.test !== undefined && { name: first.test }),
  }
  return { status: stopped ? "stopped" : code === 0 ? "passed" : "failed", passed, ...(failed && { failed }) }
}

/** The name of a failed test, for the reader. */
export const named = (failed: Test | undefined): string => failed?.name ?? "an error outside of a test"
