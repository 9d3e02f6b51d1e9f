/** The targets of the relay's binaries, and their compilation. */
import { execFile } from "node:child_process"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"

export interface Target {
  /** The target's name in file names, and in Bun's after `bun-`. */
  readonly name: string
  readonly binary: "relay" | "relay.exe"
  /** The processor's names in packages. Only targets that have packages need them. */
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

/** The target of this machine, or `undefined` if none fits. */
export const native = (): Target | undefined =>
  targets.find(({ name }) => name === `${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`)

/**
 * Compiles the tree in `root` by its own script, into a directory for each target. The binary contains the file's name,
 * so the name is the same everywhere. Returns the binary's path. Fetches the target's Bun from npm the first time.
 */
export const compile = async (root: string, target: Target, into: string): Promise<string> => {
  const directory = join(into, target.name)
  const binary = join(directory, target.binary)
  mkdirSync(directory, { recursive: true })
  const args = ["run", "build:native", `--target=bun-${target.name}`, "--outfile", binary]
  await promisify(execFile)(process.execPath, args, { cwd: root })
  return binary
}
