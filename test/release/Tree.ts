/** A copy of the source with everything that a release is made of, including its own `node_modules`. */
import { execFileSync } from "node:child_process"
import { cpSync, mkdirSync } from "node:fs"
import { join } from "node:path"
import { root } from "../lib/programs.ts"

const parts = ["src", "config", "docs", "CHANGELOG.md", "SECURITY.md", "LICENSE", "relay.config.json"]
const build = ["package.json", "bun.lock", "bunfig.toml", "tsconfig.json"]

export const copyTree = (into: string): void => {
  mkdirSync(into, { recursive: true })
  for (const part of [...parts, ...build]) cpSync(join(root, part), join(into, part), { recursive: true })
  const args = ["install", "--frozen-lockfile", "--production", "--ignore-scripts"]
  execFileSync(process.execPath, args, { cwd: into, stdio: "ignore" })
}
