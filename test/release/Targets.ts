/** What the relay is compiled for, and the compiling itself. */
import { execFile } from "node:child_process"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"

export interface Target {
  /** As Bun calls it behind `bun-`, and in the names of files. */
  readonly name: string
  readonly binary: "relay" | "relay.exe"
  /** The names that packages have for the processor; only of what is packaged. */
  readonly packaged?: { readonly debian: string; readonly rpm: string }
}

export const targets: ReadonlyArray<Target> = [
  { name: "linux-x64", binary: "relay", packaged: { debian: "amd64", rpm: "x86_64" } },
  { name: "linux-arm64", binary: "relay", packaged: { debian: "arm64", rpm: "aarch64" } },
  { name: "linux-x64-musl", binary: "relay" },
  { name: "linux-arm64-musl", binary: "relay" },
  { name: "darwin-arm64", binary: "relay" },
  { name: "darwin-x64", binary: "relay" },
  { name: "windows-x64", binary: "relay.exe" },
]

/** The target of this machine, where there is one that it can run. */
export const native = (): Target | undefined =>
  targets.find(({ name }) => name === `${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`)

/**
 * Compiles the tree in `root` by its own script, into a directory for each
 * target: the file's name goes into the binary, so it is the same everywhere.
 * Gives the binary's path. Fetches the target's Bun from npm the first time.
 */
export const compile = async (root: string, target: Target, into: string): Promise<string> => {
  const directory = join(into, target.name)
  const binary = join(directory, target.binary)
  mkdirSync(directory, { recursive: true })
  const args = ["run", "build:native", `--target=bun-${target.name}`, "--outfile", binary]
  await promisify(execFile)(process.execPath, args, { cwd: root })
  return binary
}
