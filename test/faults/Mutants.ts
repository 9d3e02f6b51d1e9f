/**
 * Guards removed on purpose. Each is taken out of a copy of the project, where
 * its line must then fail: a line that passes without the guard proves nothing.
 * A file of tests may take the place of the line.
 */
import { chmodSync, cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import type { Mutant } from "./Line.ts"

const project = resolve(import.meta.dir, "../..")
const copied = ["src", "test", "config", "docs", "package.json", "tsconfig.json", "bunfig.toml", "relay.config.json"]

interface Found {
  readonly verdict: "noticed" | "ALIVE" | "skipped"
  /** The line's message, or the reason why there is none. */
  readonly why: string
}

/** Reports whether a mutant's line is a file of tests. */
export const isTests = (line: string): boolean => line.endsWith(".test.ts")

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
    if (found !== 1) return { verdict: "ALIVE", why: `its text stands ${found} times in ${mutant.file}` }
    writeFileSync(
      file,
      text.replace(mutant.find, () => mutant.replace),
    )
    const args = isTests(mutant.line)
      ? ["test", mutant.line]
      : ["test/faults/main.ts", "--only", mutant.line, "--seed", String(seed)]
    const child = Bun.spawn([process.execPath, ...args], {
      cwd: copy,
      // The files that a failed line leaves are deleted with the copy. Tests need the parts, such as PostgreSQL.
      env: { ...process.env, TMPDIR: copy, RELAY_PARTS: "1" },
      stdout: "pipe",
      stderr: "pipe",
    })
    const streams = [child.stdout, child.stderr].map((stream) => new Response(stream).text())
    const [code, ...texts] = await Promise.all([child.exited, ...streams])
    const output = texts.join("")
    const [, failed] = /^(?: +FAILED:|\(fail\)) (.*)/m.exec(output) ?? []
    if (code === 1 && failed !== undefined) return { verdict: "noticed", why: failed }
    const [, skipped] = /^(?: +skipped:|\(skip\)) (.*)/m.exec(output) ?? []
    if (code === 0 && skipped !== undefined) return { verdict: "skipped", why: skipped }
    return { verdict: "ALIVE", why: `its line did not fail (exit ${code})\n${output}` }
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

/** Tries them all, and says whether every removed guard was noticed whose line can run here. */
export const hunt = async (mutants: ReadonlyArray<Mutant>, seed: number): Promise<boolean> => {
  const count = { noticed: 0, ALIVE: 0, skipped: 0 }
  for (const mutant of mutants) {
    const { verdict, why } = await run(mutant, mutant.seed ?? seed)
    count[verdict] += 1
    // The reader sees how the mutant was noticed.
    console.log(`${verdict.padEnd(7)}  ${mutant.line}: ${mutant.gone}\n    ${why}`)
  }
  const skipped = count.skipped === 0 ? "" : `; ${count.skipped} could not be tried here`
  console.log(`\n${count.noticed} of ${mutants.length} removed guards were noticed${skipped}`)
  return count.noticed > 0 && count.ALIVE === 0
}
