/**
 * The relay as a child process, for tests of the whole program.
 *
 * In `bun test` it is the binary, which users have and which starts in a fifth of the time. RELAY_BINARY=PATH selects
 * another binary. RELAY_UNDER=bun and RELAY_UNDER=deno select the source, so the same suite runs against all three.
 * Outside of `bun test` it is the source under Bun.
 */
import { resolve } from "node:path"
import { denoBinary, relayBinary, root } from "./programs.ts"
import { sendSignal } from "./signal.ts"

export interface StartOptions {
  /** The working directory. The config's paths are relative to the config. */
  readonly cwd: string
  /** A compiled binary, regardless of the environment. */
  readonly binary?: string
  /** The runtime, `bun` or `deno`, regardless of the environment. */
  readonly under?: string
  readonly env?: Readonly<Record<string, string>>
  /** Arguments after `run -c CONFIG` (default: a log for people). */
  readonly args?: ReadonlyArray<string>
}

export interface Relay {
  readonly pid: number
  /** Returns the output to stdout until now. */
  readonly stdout: () => string
  readonly stderr: () => string
  /** Waits until stdout or stderr holds a text; fails when the process ends without it. */
  readonly prints: (text: string | RegExp) => Promise<void>
  /**
   * Sends a signal (default: SIGTERM) and waits for the end. Returns the exit code, which is 128 plus the number for a
   * signal.
   */
  readonly kill: (signal?: NodeJS.Signals) => Promise<number>
  /** Sends a signal, and doesn't wait. */
  readonly signal: (signal: NodeJS.Signals) => void
  /** The exit code once it has ended. */
  readonly exited: Promise<number>
}

export interface Finished {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const usual = process.env.RELAY_UNDER ?? (process.env.NODE_ENV === "test" ? "binary" : "bun")
// The build runs here and not in the first test, because it may take longer than a test may.
const binary = process.env.RELAY_BINARY ?? (usual === "binary" ? relayBinary() : undefined)

/** How the program is started: the words before its arguments. */
export const command = (compiled?: string, under?: string): ReadonlyArray<string> => {
  const file = compiled ?? (under === undefined ? binary : undefined)
  if (file !== undefined) return [resolve(root, file)]
  const main = resolve(root, "src/main.ts")
  if ((under ?? usual) === "deno")
    return [denoBinary(), "run", "-A", "--unstable-no-legacy-abort", "--unstable-net", main]
  return [process.execPath, main]
}

/**
 * Returns an environment without colours and without the settings of the user who runs the tests. A stop doesn't wait.
 */
const environment = (env: Readonly<Record<string, string>> = {}): Record<string, string> => ({
  PATH: process.env.PATH ?? "",
  HOME: process.env.HOME ?? "",
  NO_COLOR: "1",
  RELAY_DRAIN_REFUSE: "0 seconds",
  ...env,
})

/**
 * The environment of a program in which the client of a port has a bug, of a kind in `planted.ts`. Only for Bun and its
 * binaries.
 */
export const planted = (port: number, kind: "exception" | "rejection" | "error"): Readonly<Record<string, string>> => ({
  BUN_OPTIONS: `--preload ${resolve(import.meta.dir, "planted.ts")}`,
  PLANTED: `${port},${kind}`,
})

/** The environment of a relay that takes more than five seconds to start. Only for Bun and its binaries. */
export const slow: Readonly<Record<string, string>> = {
  BUN_OPTIONS: `--preload ${resolve(import.meta.dir, "slow.ts")}`,
}

/**
 * The environment of a relay whose restart fails in the second process, at a moment in `successor.ts`. Only for Bun and
 * its binaries.
 */
export const failing = (when: string): Readonly<Record<string, string>> => ({
  BUN_OPTIONS: `--preload ${resolve(import.meta.dir, "successor.ts")}`,
  SUCCESSOR: when,
})

/** Runs a command to its end. */
export const relay = async (args: ReadonlyArray<string>, options: StartOptions): Promise<Finished> => {
  const child = Bun.spawn([...command(options.binary, options.under), ...args], {
    cwd: options.cwd,
    env: environment(options.env),
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  })
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, stdout, stderr }
}

/** Starts `relay run` and waits for the line that says it listens. */
export const startRelay = async (config: string, options: StartOptions): Promise<Relay> => {
  const child = Bun.spawn(
    [...command(options.binary, options.under), "run", "-c", config, ...(options.args ?? ["--log-format", "text"])],
    {
      cwd: options.cwd,
      env: environment(options.env),
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    },
  )
  const printed = { stdout: "", stderr: "" }
  let wake: Array<() => void> = []
  const collect = async (stream: ReadableStream<Uint8Array>, name: keyof typeof printed) => {
    const decoder = new TextDecoder()
    for await (const chunk of stream) {
      printed[name] += decoder.decode(chunk, { stream: true })
      for (const waiter of wake.splice(0)) waiter()
    }
  }
  const collected = Promise.all([collect(child.stdout, "stdout"), collect(child.stderr, "stderr")])
  const exited = child.exited.then(async (code) => {
    await collected
    const waiting = wake
    wake = []
    for (const waiter of waiting) waiter()
    return code
  })
  let ended = false
  void exited.then(() => {
    ended = true
  })
  const holds = (text: string | RegExp) => {
    const all = printed.stdout + printed.stderr
    return typeof text === "string" ? all.includes(text) : text.test(all)
  }
  const prints = async (text: string | RegExp): Promise<void> => {
    while (!holds(text)) {
      if (ended) throw new Error(`the relay ended without printing ${text}:\n${printed.stdout}${printed.stderr}`)
      await Promise.race([new Promise<void>((resolve) => wake.push(resolve)), exited])
    }
  }
  await prints(/^try it$|"started"/m)
  return {
    pid: child.pid,
    stdout: () => printed.stdout,
    stderr: () => printed.stderr,
    prints,
    signal: (signal) => {
      if (!ended) sendSignal(child.pid, signal)
    },
    kill: async (signal = "SIGTERM") => {
      child.kill(signal)
      return exited
    },
    exited,
  }
}
