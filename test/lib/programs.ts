/** The programs that tests start: the runtimes, and the compiled relay. */
import { spawnSync } from "node:child_process"
import { readdirSync, rmSync, statSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join, resolve } from "node:path"
import process from "node:process"
import manifest from "../../package.json" with { type: "json" }

export const root = resolve(import.meta.dir, "../..")

/** Returns the path of Deno itself. The launcher `.bin/deno` needs Node, and doesn't pass signals on to Deno. */
export const denoBinary = (): string => {
  const { runInstall } = createRequire(import.meta.url)("deno/install_api.cjs") as { readonly runInstall: () => string }
  return runInstall()
}

const main = "src/main.ts"
const outfile = "dist/relay"

/** Compiles another entry into another file, by the script that compiles the relay. */
export const compile = (entry: string, binary: string): void => {
  const [, ...build] = manifest.scripts["build:native"].split(" ")
  const args = build.map((word) => ({ [main]: entry, [outfile]: binary })[word] ?? word)
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" })
  if (status !== 0) throw new Error(`${binary} was not built: ${stderr}`)
  // The source maps are in the binary too.
  const directory = dirname(binary)
  for (const name of readdirSync(directory)) if (name.endsWith(".map")) rmSync(join(directory, name))
}

const changedAt = (path: string): number => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0

/**
 * Returns the path of the relay's binary. Compiles it if it is missing or older than the source, which takes seconds.
 */
export const relayBinary = (): string => {
  const binary = join(root, outfile)
  const source = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).map((name) => join("src", name))
  const made = changedAt(binary)
  const embedded = ["relay.config.json", "config/deploy/relay.service", "docs/operations/runbooks.md"]
  const parts = [...source, ...embedded, "package.json", "bun.lock"]
  if (parts.some((part) => changedAt(join(root, part)) > made)) compile(main, binary)
  return binary
}
