/**
 * Guards removed on purpose. Each is taken out of a copy of the project, where
 * its line must then fail: a line that passes without the guard proves nothing.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import type { Mutant } from "./Line.ts"

const project = resolve(import.meta.dir, "../..")
const copied = ["src", "test", "config", "package.json", "tsconfig.json", "bunfig.toml", "relay.config.json"]

const run = async (mutant: Mutant, seed: number): Promise<string | undefined> => {
  const copy = mkdtempSync(join(tmpdir(), "relay-mutant-"))
  try {
    for (const name of copied) cpSync(join(project, name), join(copy, name), { recursive: true })
    symlinkSync(join(project, "node_modules"), join(copy, "node_modules"))
    const file = join(copy, mutant.file)
    const text = readFileSync(file, "utf8")
    const found = text.split(mutant.find).length - 1
    if (found !== 1) return `its text stands ${found} times in ${mutant.file}`
    writeFileSync(
      file,
      text.replace(mutant.find, () => mutant.replace),
    )
    const child = Bun.spawn([process.execPath, "test/faults/main.ts", "--only", mutant.line, "--seed", String(seed)], {
      cwd: copy,
      // What a failed line keeps for a look goes with the copy.
      env: { ...process.env, TMPDIR: copy },
      stdout: "pipe",
      stderr: "pipe",
    })
    const [output, code] = await Promise.all([new Response(child.stdout).text(), child.exited])
    return code === 1 && output.includes("FAILED") ? undefined : `its line did not fail (exit ${code})\n${output}`
  } finally {
    rmSync(copy, { recursive: true })
  }
}

/** How many lived: 0 when every removed guard was noticed. */
export const hunt = async (mutants: ReadonlyArray<Mutant>, seed: number): Promise<number> => {
  let alive = 0
  for (const mutant of mutants) {
    const why = await run(mutant, mutant.seed ?? seed)
    if (why !== undefined) alive += 1
    console.log(
      `${why === undefined ? "noticed" : "ALIVE  "}  ${mutant.line}: ${mutant.gone}${why === undefined ? "" : `\n    ${why}`}`,
    )
  }
  return alive
}
