/**
 * Mutants of the last run, tried again: the test that noticed one must notice it
 * still. Only that test runs, so ten mutants take seconds.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { alone } from "../ci/BunOutput.ts"
import type { Result } from "./Results.ts"
import { bunTest, type Ran } from "./RunTests.ts"

/** Seconds that a test may take to be in the draw. A run is stopped after three times as long. */
const longest = 8

/** Returns the source with the mutant, or `undefined` if its line is not in the source exactly once. */
export const mutated = (source: string, mutant: Pick<Result, "code" | "column" | "was" | "becomes">) => {
  const lines = source.split("\n")
  const [at, ...more] = lines.flatMap((line, index) => (line.trim() === mutant.code ? [index] : []))
  if (at === undefined || more.length > 0) return undefined
  const start = lines.slice(0, at).join("\n").length + (at === 0 ? 0 : 1) + mutant.column - 1
  if (!source.startsWith(mutant.was, start)) return undefined
  return `${source.slice(0, start)}${mutant.becomes}${source.slice(start + mutant.was.length)}`
}

/** A killed mutant with the file of its test. */
type Repeatable = Result & { readonly by: string; readonly byFile: string }

const isRepeatable = (one: Result): one is Repeatable => one.verdict === "killed" && one.byFile !== undefined

/** Returns the mutants that still fit their sources in `root`, in the order of a seed. */
export const drawn = (all: ReadonlyArray<Result>, root: string, seed: number): ReadonlyArray<Repeatable> => {
  const rank = (one: Result) => Bun.hash([seed, one.file, one.code, one.column, one.becomes].join("\0")) as bigint
  return all
    .filter(isRepeatable)
    .filter(({ notAgain }) => notAgain === undefined)
    .filter(({ file }) => existsSync(join(root, file)))
    .filter((one) => mutated(readFileSync(join(root, one.file), "utf8"), one) !== undefined)
    .toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1))
}

/** Puts a mutant into a copy of the project while `work` runs. */
export const withMutant = async <A>(
  copy: string,
  file: string,
  text: (source: string) => string,
  work: () => Promise<A>,
) => {
  const path = join(copy, file)
  const source = readFileSync(path, "utf8")
  writeFileSync(path, text(source))
  try {
    return await work()
  } finally {
    writeFileSync(path, source)
  }
}

interface Tried {
  /** "gone" means that the test was renamed or deleted. */
  readonly verdict: "noticed" | "passed" | "gone"
  readonly seconds: number
}

const verdictOf = ({ status, failed, passed }: Ran): Tried["verdict"] => {
  if (status === "stopped" || failed !== undefined) return "noticed"
  return passed.length > 0 ? "passed" : "gone"
}

/** Runs a mutant's test in the copy, with the mutant. */
const again = async (copy: string, mutant: Repeatable): Promise<Tried> => {
  const started = performance.now()
  const ran = await withMutant(
    copy,
    mutant.file,
    (source) => mutated(source, mutant) ?? source,
    () => bunTest(copy, alone({ file: mutant.byFile, test: mutant.by, said: "" }), 3 * longest),
  )
  return { verdict: verdictOf(ran), seconds: (performance.now() - started) / 1000 }
}

/** Returns the tests that don't pass without a mutant: they would notice anything. */
const failingWithout = async (copy: string, mutants: ReadonlyArray<Repeatable>): Promise<ReadonlyArray<string>> => {
  const runs = mutants.map((one) => alone({ file: one.byFile, test: one.by, said: "" }))
  const files = new Set(runs.map(([file = ""]) => file))
  const { passed } = await bunTest(copy, [...files, "-t", runs.map((words) => words.at(-1)).join("|")], 600)
  return [...new Set(mutants.map(({ by }) => by))].filter((name) => !passed.includes(name))
}

/** Returns why a mutant is left out of the draw, or `undefined` if its test notices it alone and soon. */
const whyNotAgain = ({ verdict, seconds }: Tried): string | undefined => {
  if (verdict === "passed") return "Its test, run alone, does not notice it each time."
  return seconds > longest ? `Its test takes more than ${longest} seconds.` : undefined
}

/** The mutants to leave out of the draw from now on, by their state. `holds` says whether enough mutants were noticed. */
export interface Retried {
  readonly left: ReadonlyMap<string, { readonly notAgain: string }>
  readonly holds: boolean
}

/** Tries mutants in a seed's order until enough are noticed, or all if `wanted` is infinite. */
export const tryAgain = async (
  copy: string,
  all: ReadonlyArray<Result>,
  seed: number,
  wanted: number,
): Promise<Retried> => {
  const noticed: Array<Repeatable> = []
  const left = new Map<string, { readonly notAgain: string }>()
  const missed: Array<Repeatable> = []
  for (const mutant of drawn(all, copy, seed)) {
    if (noticed.length + missed.length === wanted) break
    const tried = await again(copy, mutant)
    const { file, line, was, becomes, by, byFile, state } = mutant
    console.log(
      `${tried.verdict} in ${tried.seconds.toFixed(1)} s: ${file}:${line} ${was} -> ${becomes}\n    ${byFile}: ${by}`,
    )
    const notAgain = whyNotAgain(tried)
    if (notAgain !== undefined) left.set(state, { notAgain })
    if (tried.verdict === "noticed") noticed.push(mutant)
    if (tried.verdict === "passed") missed.push(mutant)
  }
  const failing = await failingWithout(copy, noticed)
  for (const test of failing) console.log(`this test fails without a mutant, too: ${test}`)
  console.log(`${noticed.length} mutants were noticed again, ${missed.length} were not`)
  const isEnough = noticed.length >= wanted || wanted === Number.POSITIVE_INFINITY
  return { left, holds: isEnough && missed.length === 0 && failing.length === 0 }
}
