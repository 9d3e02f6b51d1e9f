/**
 * Guards removed on purpose. Each is taken out of a copy of the project, where
 * its line must then fail: a line that passes without the guard proves nothing.
 */
import { chmodSync, cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import type { Mutant } from "./Line.ts"

const project = resolve(import.meta.dir, "../..")
const copied = ["src", "test", "config", "package.json", "tsconfig.json", "bunfig.toml", "relay.config.json"]

interface Found {
  readonly noticed: boolean
  /** What the line said, or why it said nothing. */
  readonly why: string
}

const run = async (mutant: Mutant, seed: number): Promise<Found> => {
  const copy = mkdtempSync(join(tmpdir(), "relay-mutant-"))
  // PostgreSQL, which root starts as another user, finds its files in it.
  chmodSync(copy, 0o755)
  try {
    for (const name of copied) cpSync(join(project, name), join(copy, name), { recursive: true })
    symlinkSync(join(project, "node_modules"), join(copy, "node_modules"))
    const file = join(copy, mutant.file)
    const text = readFileSync(file, "utf8")
    const found = text.split(mutant.find).length - 1
    if (found !== 1) return { noticed: false, why: `its text stands ${found} times in ${mutant.file}` }
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
    const [, failed] = /^ +FAILED: (.*)/m.exec(output) ?? []
    return code === 1 && failed !== undefined
      ? { noticed: true, why: failed }
      : { noticed: false, why: `its line did not fail (exit ${code})\n${output}` }
  } finally {
    rmSync(copy, { recursive: true })
  }
}

/** How many lived: 0 when every removed guard was noticed. */
export const hunt = async (mutants: ReadonlyArray<Mutant>, seed: number): Promise<number> => {
  let alive = 0
  for (const mutant of mutants) {
    const { noticed, why } = await run(mutant, mutant.seed ?? seed)
    if (!noticed) alive += 1
    // By what it was noticed is for the reader: a line that could not run at all has noticed nothing.
    console.log(`${noticed ? "noticed" : "ALIVE  "}  ${mutant.line}: ${mutant.gone}\n    ${why}`)
  }
  return alive
}
