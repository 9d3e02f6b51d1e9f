/**
 * Runs a plan. The first steps run alone. The steps that need no quiet machine follow, on two workers, and then each
 * remaining step by itself. A defect, the limit or a signal ends the run early. Any other failed test is run again
 * once, alone.
 */
import { type ChildProcess, spawn } from "node:child_process"
import process from "node:process"
import { createInterface } from "node:readline"
import { setTimeout as sleep } from "node:timers/promises"
import { alone, BunOutput, type Failure } from "./BunOutput.ts"
import { isDefect } from "./Defects.ts"

export interface Step {
  readonly name: string
  /** A program with its arguments. For a step of tests, only the arguments of `bun test`. */
  readonly command: ReadonlyArray<string>
  readonly env?: Readonly<Record<string, string>>
  /**
   * - `tests`: each test counts.
   * - `check`: it passes or fails as a whole.
   * - `defects`: a check whose failure is a defect. It ends the run.
   */
  readonly kind: "tests" | "check" | "defects"
}

export interface Plan {
  /** Without these nothing else can run. */
  readonly first: ReadonlyArray<Step>
  /** The longest come first, so that both workers end at about the same time. */
  readonly sideBySide: ReadonlyArray<Step>
  readonly quiet: ReadonlyArray<Step>
}

export interface Options {
  readonly root: string
  /** The command that runs tests: `bun test` with its time limit. */
  readonly runner: ReadonlyArray<string>
  /** Milliseconds after which the run ends and has failed. */
  readonly limit: number
  readonly print: (text: string) => void
}

export interface Failed extends Failure {
  readonly step: Step
}

export interface Ended {
  readonly step: Step
  readonly seconds: number
  readonly passed: number
  readonly failed: number
}

export interface Result {
  readonly ended: ReadonlyArray<Ended>
  readonly failed: ReadonlyArray<Failed>
  readonly unstable: ReadonlyArray<Failed>
  readonly skipped: ReadonlyArray<string>
  /** Why the run ended before its plan did. */
  readonly stopped?: string
}

export const mostUnstable = 2

/** Milliseconds that the processes of a step have to stop and to remove their files. */
const grace = 3_000

const workers = 2

export class Run {
  readonly #options: Options
  /** Processes that run, with the names of their steps. */
  readonly #children = new Map<ChildProcess, string>()
  readonly #ended: Array<Ended> = []
  readonly #skipped: Array<string> = []
  #failed: Array<Failed> = []
  readonly #unstable: Array<Failed> = []
  #stopped: string | undefined

  constructor(options: Options) {
    this.#options = options
  }

  async all({ first, sideBySide, quiet }: Plan): Promise<Result> {
    const late = setTimeout(() => {
      const running = [...this.#children.values()].join(", ")
      this.stop(`the run did not end in time; still running: ${running}`)
    }, this.#options.limit)
    for (const step of first) {
      await this.#step(step)
      if (this.#failed.length > 0) this.stop(`${step.name} failed, and nothing else can run without it`)
    }
    const queue = [...sideBySide]
    const worker = async () => {
      for (let step = queue.shift(); step !== undefined; step = queue.shift()) await this.#step(step)
    }
    await Promise.all(Array.from({ length: workers }, worker))
    for (const step of quiet) await this.#step(step)
    await this.#again()
    clearTimeout(late)
    return {
      ended: this.#ended,
      failed: this.#failed,
      unstable: this.#unstable,
      skipped: [...new Set(this.#skipped)].toSorted(),
      ...(this.#stopped !== undefined && { stopped: this.#stopped }),
    }
  }

  /** Ends the run early. The first reason counts. */
  stop(why: string): void {
    if (this.#stopped !== undefined) return
    this.#stopped = why
    this.#options.print(`\n== STOPPED: ${why}`)
    // Servers of tests stop with the process that started them. Other processes are killed.
    for (const child of this.#children.keys()) child.kill("SIGTERM")
    setTimeout(() => {
      for (const { pid } of this.#children.keys()) killGroup(pid)
    }, grace).unref()
  }

  async #step(step: Step): Promise<void> {
    if (this.#stopped !== undefined) return
    const { print, root, runner } = this.#options
    print(`-- begins: ${step.name}`)
    const started = performance.now()
    const lines: Array<string> = []
    const output = new BunOutput((file, test) => {
      if (isDefect(root, file)) this.stop(`a defect: ${file}: ${test}`)
    })
    const isTests = step.kind === "tests"
    const code = await this.#execute(step, isTests ? [...runner, ...step.command] : step.command, (line) => {
      lines.push(line)
      if (isTests) output.read(line)
    })
    const found = output.failures
    // A runner is broken if it ran no test, didn't run all tests, or failed without a failed test. A stopped runner
    // isn't.
    const isBroken =
      this.#stopped === undefined &&
      (isTests ? !output.isWhole || (found.length === 0 && (code !== 0 || output.passed === 0)) : code !== 0)
    const failures = [...found, ...(isBroken ? [{ said: lines.slice(-60).join("\n") }] : [])]
    print(`\n== ${step.name}\n${lines.join("\n")}${failures.length > 0 ? `\n== FAILED: ${step.name}` : ""}`)
    this.#failed.push(...failures.map((failure) => ({ ...failure, step })))
    this.#skipped.push(...output.skipped)
    this.#ended.push({
      step,
      seconds: (performance.now() - started) / 1000,
      passed: isTests ? output.passed : code === 0 ? 1 : 0,
      failed: Math.max(output.failed, failures.length),
    })
    if (step.kind === "defects" && isBroken) this.stop(`a defect: ${step.name}`)
  }

  /** Ends as soon as there are too many unstable tests, because the run has failed then. */
  async #again(): Promise<void> {
    for (const failure of [...this.#failed]) {
      if (this.#stopped !== undefined || this.#unstable.length > mostUnstable) return
      const { step, file } = failure
      // A runner that broke by itself has no test to try again.
      if (step.kind === "tests" && file === undefined) continue
      const { print, runner } = this.#options
      const command = step.kind === "tests" ? [...runner, ...alone(failure)] : step.command
      print(`\n== again, alone: ${title(failure)}`)
      const code = await this.#execute(step, command, print)
      if (code !== 0) continue
      this.#failed = this.#failed.filter((one) => one !== failure)
      this.#unstable.push(failure)
    }
  }

  /** Runs a program in a process group of its own, and returns its exit code. */
  async #execute({ name, env }: Step, command: ReadonlyArray<string>, onLine: (line: string) => void): Promise<number> {
    // Bun writes its output in another form there.
    const { GITHUB_ACTIONS: _, ...inherited } = process.env
    const child = spawn("sh", ["-c", 'exec "$@" 2>&1', "sh", ...command], {
      cwd: this.#options.root,
      env: { ...inherited, ...env },
      stdio: ["ignore", "pipe", "inherit"],
      detached: true,
    })
    this.#children.set(child, name)
    const exited = new Promise<number>((resolve) => child.once("exit", (code) => resolve(code ?? 1)))
    const printed = (async () => {
      for await (const line of createInterface({ input: child.stdout, crlfDelay: Number.POSITIVE_INFINITY }))
        onLine(line)
    })()
    const code = await exited
    // Processes that the program started may keep its output open.
    await Promise.race([printed, sleep(grace)])
    if (this.#stopped !== undefined) {
      await sleep(grace)
      killGroup(child.pid)
    }
    this.#children.delete(child)
    return code
  }
}

const killGroup = (pid: number | undefined): void => {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL")
  } catch {
    // The whole group has ended.
  }
}

export const title = ({ step, file, test }: Failed): string =>
  [step.name, file, test].filter((part) => part !== undefined).join(": ")
