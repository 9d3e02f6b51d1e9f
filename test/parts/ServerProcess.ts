/**
 * A server that a test starts, kills and starts again. It runs under a shell that kills it and removes its files when
 * the test process ends, for whatever reason.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { rmSync } from "node:fs"
import process from "node:process"
import { sendSignal } from "../lib/signal.ts"

export interface ServerOptions {
  /** Its name in errors. */
  readonly name: string
  /** The directory of its files. */
  readonly home: string
  readonly command: readonly [program: string, ...args: ReadonlyArray<string>]
  /** Whether it serves. `said` is the end of its output. */
  readonly isUp: (said: string) => boolean | Promise<boolean>
  readonly env?: NodeJS.ProcessEnv
  /** A shell command that runs next to it, because it needs that program. */
  readonly beside?: string
}

/** The shell's standard input is a pipe from the test process, and ends with it. */
const supervisor = (beside?: string): string =>
  `home=$1; shift; ${beside === undefined ? "others=" : `${beside} </dev/null >&2 & others=$!`}; exec 3<&0; ` +
  '"$@" </dev/null >&2 & pid=$!; echo $pid; ' +
  '(read -r word <&3; signal=9; [ "$word" = leave ] && signal=15; kill -$signal $pid $others 2>/dev/null; ' +
  '[ "$word" = keep ] || [ "$word" = leave ] || rm -rf "$home") & ' +
  'wait $pid; [ -z "$others" ] || kill -9 $others 2>/dev/null'

export class ServerProcess {
  pid = 0
  readonly #options: ServerOptions
  #shell: ChildProcess | undefined

  constructor(options: ServerOptions) {
    this.#options = options
  }

  /** Starts it, and waits until it serves. */
  readonly start = async (): Promise<void> => {
    const { name, home, command, isUp, env, beside } = this.#options
    let said = ""
    const shell = spawn("sh", ["-c", supervisor(beside), "sh", home, ...command], {
      stdio: ["pipe", "pipe", "pipe"],
      ...(env !== undefined && { env }),
    })
    this.#shell = shell
    shell.stderr.on("data", (chunk) => {
      said = `${said}${chunk}`.slice(-20_000)
    })
    const [first] = await once(shell.stdout, "data")
    this.pid = Number(String(first).trim())
    while (!(await isUp(said))) {
      if (shell.exitCode !== null) throw new Error(`${name} ended: ${said}`)
      await Bun.sleep(20)
    }
  }

  readonly signal = (signal: NodeJS.Signals): void => sendSignal(this.pid, signal)

  /** kill -9. */
  readonly kill = async (): Promise<void> => {
    if (this.#shell?.exitCode === null) process.kill(this.pid, "SIGKILL")
    await this.#end("keep")
  }

  /** Stops it in good order, and keeps its files. */
  readonly leave = (): Promise<void> => this.#end("leave")

  readonly #end = async (word: "keep" | "leave"): Promise<void> => {
    const shell = this.#shell
    this.#shell = undefined
    if (shell === undefined) return
    shell.stdin?.end(`${word}\n`)
    if (shell.exitCode === null) await once(shell, "exit")
  }

  /** Ends it, and removes its files. */
  readonly stop = async (): Promise<void> => {
    await this.kill()
    rmSync(this.#options.home, { recursive: true, force: true })
  }
}
