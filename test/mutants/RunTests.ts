/** Runs files of tests with a limit of time and of memory, because a changed source may loop or allocate for ever. */
import { spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import process from "node:process"

export interface Ran {
  readonly status: "passed" | "failed" | "stopped"
  /** The end of its output. */
  readonly output: string
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

/** `args` are those of `bun test`. As in a plain run, properties try a tenth of their cases. */
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
  let output = ""
  let stopped = false
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output = `${output}${text}`.slice(-20_000)
    })
  }
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
  return { status: stopped ? "stopped" : code === 0 ? "passed" : "failed", output }
}

/** Returns the name of the first failed test in an output. */
export const failedIn = (output: string): string =>
  /^\(fail\) (.*?)(?: \[[\d.]+m?s\])?$/m.exec(output)?.[1] ?? "an error outside of a test"
