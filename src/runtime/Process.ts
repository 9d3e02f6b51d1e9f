/** The process: its start, its services for Effect, and its end. */
import { setPriority } from "node:os"
import process from "node:process"
import { Writable } from "node:stream"
import { isatty } from "node:tty"
import * as NodeChildProcessSpawner from "@effect/platform-node-shared/NodeChildProcessSpawner"
import * as NodeFileSystem from "@effect/platform-node-shared/NodeFileSystem"
import * as NodePath from "@effect/platform-node-shared/NodePath"
import * as NodeStdio from "@effect/platform-node-shared/NodeStdio"
import * as NodeTerminal from "@effect/platform-node-shared/NodeTerminal"
import { Layer } from "effect"
import { workingDirectory } from "./Environment.ts"
import { isCompiled, name, version } from "./Runtime.ts"
import { writeAll, writerTo } from "./Stderr.ts"

/** How a process was started. */
export interface Started {
  readonly isCompiled: boolean
  readonly runtime: "bun" | "deno"
  readonly runtimeVersion: string
  /** The executable: the binary, or the runtime. */
  readonly execPath: string
  /** The main module's path. */
  readonly main: string
  readonly cwd: string
  readonly env: Readonly<Record<string, string | undefined>>
}

/** How this process was started. */
export const started = (): Started => ({
  isCompiled,
  runtime: name,
  runtimeVersion: version,
  execPath: process.execPath,
  main: process.argv[1] ?? "",
  // Without a working directory, the relay does not start.
  cwd: workingDirectory() ?? "",
  env: process.env,
})

const writable = (descriptor: 1 | 2): Writable => {
  const write = writerTo(descriptor)
  return new Writable({
    write: (chunk, _, done) => {
      writeAll(write, chunk).then(() => done(), done)
    },
  })
}

/**
 * Replaces the process's streams unless they are terminals. Bun sets O_NONBLOCK on a
 * pipe or a socket as soon as `process.stdout` or `process.stderr` is read. Other
 * processes that share it would then fail to write.
 */
export const keepFlags = (): void => {
  for (const [name, descriptor] of [
    ["stdout", 1],
    ["stderr", 2],
  ] as const) {
    // An assignment, because a definition would read the stream first. Deno sets no flags, and ignores the assignment.
    if (!isatty(descriptor)) Reflect.set(process, name, writable(descriptor))
  }
}

/** File system, paths, standard streams and terminal. */
export const services = Layer.mergeAll(
  NodeFileSystem.layer,
  NodePath.layer,
  NodeStdio.layer,
  NodeTerminal.layer,
  Layer.provide(NodeChildProcessSpawner.layer, [NodeFileSystem.layer, NodePath.layer]),
)

/** Reports whether the log goes to a terminal. */
export const stderrIsTerminal = (): boolean => isatty(2)
/** The columns of the terminals. `Infinity` for a stream that isn't a terminal. */
export const columns = () => ({
  stdout: process.stdout.columns || Number.POSITIVE_INFINITY,
  stderr: process.stderr.columns || Number.POSITIVE_INFINITY,
})
/** The command line's arguments, without the program. */
export const args = (): ReadonlyArray<string> => process.argv.slice(2)
/** Lets other processes of this machine go first, if the system has priorities. */
export const giveWay = (): void => {
  try {
    setPriority(19)
  } catch {
    // The work is then done at the usual priority.
  }
}
/** Ends the process immediately. */
export const exit = (code: number): never => process.exit(code)
