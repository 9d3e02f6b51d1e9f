/**
 * Guards removed on purpose. Each is taken out of a copy of the project, where
 * its line must then fail: a line that passes without the guard proves nothing.
 * A file of tests may take the place of the line.
 *
 * The line ends at its first finding. Guards that were noticed are kept in
 * `.cache/faults`, so that a run that was stopped continues.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import process from "node:process"
import { root } from "../lib/programs.ts"
import { copyProject } from "../lib/projectCopy.ts"
import { type Mutant, means, timeless as timelessLines } from "./Line.ts"

const cache = join(root, ".cache/faults/mutants.json")

/** Seconds after which a line is killed. It has not failed then. */
const longest = 900

/** The number of mutants tried at the same time, if their lines measure no time. */
const atOnce = 2

interface Found {
  readonly verdict: "noticed" | "ALIVE" | "skipped"
  /** The line's finding, or why it has none. */
  readonly why: string
  /** The seed in a finding. */
  readonly seed?: number
  readonly seconds: number
}

/** Reports whether a mutant's line is a file of tests. */
export const isTests = (line: string): boolean => line.endsWith(".test.ts")

const isTimeless = ({ line }: Mutant): boolean => isTests(line) || timelessLines.some((one) => means(one, line))

const hashOf = (texts: ReadonlyArray<string>): string => Bun.hash(texts.join("\0")).toString(36)

/** A hash of all files that a line runs. */
const treeOf = (): string =>
  hashOf(
    ["src", "test", "config"].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name))
        .sort()
        .flatMap((path) => [path.slice(root.length), readFileSync(path, "latin1")]),
    ),
  )

/** The seed that showed a mutant last time is tried first. */
const seedOf = (mutant: Mutant, last: Found | undefined, seed: number): number => last?.seed ?? mutant.seed ?? seed

const run = async (mutant: Mutant, seed: number): Promise<Omit<Found, "seconds">> => {
  const copy = copyProject()
  let kill = (): void => {}
  const remove = (): void => {
    kill()
    rmSync(copy, { recursive: true, force: true })
  }
  process.once("exit", remove)
  try {
    const file = join(copy, mutant.file)
    const text = readFileSync(file, "utf8")
    const found = text.split(mutant.find).length - 1
    if (found !== 1) return { verdict: "ALIVE", why: `its text stands ${found} times in ${mutant.file}` }
    writeFileSync(
      file,
      text.replace(mutant.find, () => mutant.replace),
    )
    const args = isTests(mutant.line)
      ? ["test", "--bail", mutant.line]
      : ["test/faults/main.ts", "--bail", "--only", mutant.line, "--seed", String(seed)]
    const child = Bun.spawn([process.execPath, ...args], {
      cwd: copy,
      // The files that a failed line leaves are deleted with the copy. Tests need the parts, such as PostgreSQL.
      env: { ...process.env, TMPDIR: copy, RELAY_PARTS: "1" },
      stdout: "pipe",
      stderr: "pipe",
      timeout: longest * 1000,
    })
    kill = () => child.kill()
    const streams = [child.stdout, child.stderr].map((stream) => new Response(stream).text())
    const [code, ...texts] = await Promise.all([child.exited, ...streams])
    const output = texts.join("")
    const [, failed] = /^(?: +FAILED:|\(fail\)) (.*)/m.exec(output) ?? []
    const [, shown] = /^ +FAILED: seed (\d+):/m.exec(output) ?? []
    const bySeed = shown === undefined ? {} : { seed: Number(shown) }
    if (code === 1 && failed !== undefined) return { verdict: "noticed", why: failed, ...bySeed }
    const [, skipped] = /^(?: +skipped:|\(skip\)) (.*)/m.exec(output) ?? []
    if (code === 0 && skipped !== undefined) return { verdict: "skipped", why: skipped }
    return { verdict: "ALIVE", why: `its line did not fail (exit ${code})\n${output}` }
  } finally {
    process.off("exit", remove)
    remove()
  }
}

/** A result, with the hash of the files that it is for. A result for other files only says which seed showed the mutant. */
interface Kept extends Found {
  readonly tree: string
}

/** Tries all mutants. Reports whether each was noticed, apart from those whose line can't run here. */
export const hunt = async (mutants: ReadonlyArray<Mutant>, seed: number): Promise<boolean> => {
  const tree = treeOf()
  const kept: Record<string, Kept> = existsSync(cache) ? JSON.parse(readFileSync(cache, "utf8")) : {}
  const count = { noticed: 0, ALIVE: 0, skipped: 0 }
  let all = 0
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130))

  const keyOf = ({ line, file, find, replace }: Mutant): string => hashOf([line, file, find, replace])
  const tried = async (mutant: Mutant): Promise<void> => {
    const key = keyOf(mutant)
    const last = kept[key]
    const started = performance.now()
    const isKnown = last?.tree === tree
    const found = isKnown ? last : await run(mutant, seedOf(mutant, last, seed))
    const { verdict, why } = found
    const seconds = isKnown ? last.seconds : Math.round((performance.now() - started) / 1000)
    count[verdict] += 1
    all += seconds
    const taken = `${seconds} s${isKnown ? ", earlier" : ""}`
    console.log(`${verdict.padEnd(7)}  ${mutant.line}: ${mutant.gone} (${taken})\n    ${why}`)
    if (verdict !== "noticed") return
    kept[key] = { ...found, seconds, tree }
    mkdirSync(dirname(cache), { recursive: true })
    writeFileSync(cache, `${JSON.stringify(kept, null, 2)}\n`)
  }
  const inTurns = async (some: ReadonlyArray<Mutant>, workers: number): Promise<void> => {
    const next = some.values()
    const worker = async (): Promise<void> => {
      for (const mutant of next) await tried(mutant)
    }
    await Promise.all(Array.from({ length: workers }, worker))
  }
  // The cheapest first, so that a run that is stopped has most of them.
  const secondsOf = (mutant: Mutant): number => kept[keyOf(mutant)]?.seconds ?? 0
  const byCost = mutants.toSorted((a, b) => secondsOf(a) - secondsOf(b))
  const { timeless = [], timed = [] } = Object.groupBy(byCost, (one) => (isTimeless(one) ? "timeless" : "timed"))
  await inTurns(timeless, atOnce)
  await inTurns(timed, 1)
  const skipped = count.skipped === 0 ? "" : `; ${count.skipped} could not be tried here`
  console.log(
    `\n${count.noticed} of ${mutants.length} removed guards were noticed${skipped}; ${all} s of work, with earlier runs`,
  )
  return count.noticed > 0 && count.ALIVE === 0
}
