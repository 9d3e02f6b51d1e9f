/** A copy of the project, in which a mutant may change a source. */
import { chmodSync, cpSync, mkdtempSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { root } from "./programs.ts"

const copied = ["src", "test", "config", "docs", "README.md", "relay.config.json"]
const settings = ["package.json", "bun.lock", "tsconfig.json", "bunfig.toml"]

/** Returns the directory of a new copy. The caller deletes it. */
export const copyProject = (): string => {
  const copy = mkdtempSync(join(tmpdir(), "relay-mutants-"))
  // Root starts PostgreSQL as another user, who must find its files in the copy.
  chmodSync(copy, 0o755)
  for (const name of [...copied, ...settings]) cpSync(join(root, name), join(copy, name), { recursive: true })
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"))
  return copy
}
