/**
 * `bun run mutants`: changes one operator, constant, condition or statement of
 * the sources at random, and runs the tests that execute it. A change that no
 * test notices has survived: a test is missing, or `Explained.ts` says why it
 * changes nothing that matters. The score by module is in docs/evidence/mutants.json.
 *
 *   --seed N     draws other mutants than seed 1
 *   --count N    this many mutants, instead of 200
 *   --limit N    seconds for the tests of one mutant, instead of 120
 *   --again N    tries N noticed mutants of the last run again, each with the one
 *                test that noticed it, and writes nothing; the seed draws them
 *   --again all  tries all of them, and writes which ones `--again N` leaves out
 *
 * It may be stopped at any time: the next run continues, and repeats survivors
 * whose tests have changed. With RELAY_PARTS=1 the journal on PostgreSQL is drawn
 * too. Exits 1 if a survivor has no explanation.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import { parseArgs } from "node:util"
import { writePage } from "../evidence/Page.ts"
import { root } from "../lib/programs.ts"
import { copyProject } from "../lib/projectCopy.ts"
import { tryAgain, withMutant } from "./Again.ts"
import { draw, type Mutant } from "./Draw.ts"
import { compilerOf } from "./Places.ts"
import { Reach, type Reaching } from "./Reach.ts"
import { type Evidence, evidenceOf, isNoticed, knownOf, type Result, stateOf, testsOf } from "./Results.ts"
import { bunTest, named } from "./RunTests.ts"

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    count: { type: "string", default: "200" },
    limit: { type: "string", default: "120" },
    again: { type: "string" },
  },
})
const [seed, count, limit] = [Number(values.seed), Number(values.count), Number(values.limit)]
const evidence = join(root, "docs/evidence/mutants.json")
const cache = join(root, ".cache/mutants/coverage.json")

/** Files of tests for one process: some at first, because most mutants die early, then more. */
const batchesOf = (tests: ReadonlyArray<Reaching>): ReadonlyArray<ReadonlyArray<Reaching>> => {
  const batches: Array<Array<Reaching>> = []
  let room = 0
  for (const test of tests) {
    if (room < test.seconds || batches.length === 0) {
      batches.push([])
      room = Math.max(4 * batches.length, test.seconds)
    }
    batches.at(-1)?.push(test)
    room -= test.seconds
  }
  return batches
}

/** Tests within the limit of time, in the order in which they are run. */
const within = (tests: ReadonlyArray<Reaching>): ReadonlyArray<Reaching> => {
  let left = limit
  return tests.filter(({ seconds }) => {
    left -= seconds
    return left > 0
  })
}

/** Runs the tests of a mutant in the copy until one fails. */
const tried = (copy: string, mutant: Mutant, reaching: ReadonlyArray<Reaching>) =>
  withMutant(
    copy,
    mutant.file,
    () => mutant.text,
    async () => {
      for (const batch of batchesOf(reaching)) {
        const seconds = 30 + 3 * batch.reduce((sum, test) => sum + test.seconds, 0)
        const { status, failed } = await bunTest(copy, ["--bail", ...batch.map(({ file }) => file)], seconds)
        if (status === "stopped") return { verdict: "stopped", by: batch.map(({ file }) => file).join(" ") } as const
        const byFile = failed?.name === undefined ? {} : { byFile: failed.file }
        if (status === "failed") return { verdict: "killed", by: named(failed), ...byFile } as const
      }
      return { verdict: reaching.length === 0 ? "unreached" : "survived" } as const
    },
  )

const resultOf = (
  { module, file, line, column, code, kind, was, becomes }: Mutant,
  found: Pick<Result, "verdict" | "by" | "byFile">,
  tests: string,
) => ({ module, file, line, column, code, kind, was, becomes, ...found, ...(!isNoticed(found) && { tests }) })

const before: Evidence | undefined = existsSync(evidence) ? JSON.parse(readFileSync(evidence, "utf8")) : undefined
const copy = copyProject()
const reach = new Reach(copy, cache)
const results: Array<Result> = []
const write = (all: Evidence): void => {
  mkdirSync(join(root, "docs/evidence"), { recursive: true })
  writeFileSync(evidence, `${JSON.stringify(all, null, 2)}\n`)
}
const save = (): void => write(evidenceOf(seed, results))
process.once("exit", () => rmSync(copy, { recursive: true, force: true }))
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130))

if (values.again !== undefined) {
  const wanted = values.again === "all" ? Number.POSITIVE_INFINITY : Number(values.again)
  const { left, holds } = await tryAgain(copy, before?.mutants ?? [], seed, wanted)
  if (before !== undefined && values.again === "all")
    write({ ...before, mutants: before.mutants.map((one) => ({ ...one, ...left.get(one.state) })) })
  process.exit(holds ? 0 : 1)
}

const compiler = await compilerOf(root)
for await (const mutant of draw(root, compiler, seed, count)) {
  const reaching = within(await reach.of(mutant.file, mutant.line))
  const [state, tests] = [stateOf(mutant), testsOf(copy, reaching)]
  const known = knownOf(before, state, tests)
  const result = known ?? { ...resultOf(mutant, await tried(copy, mutant, reaching), tests), state }
  results.push(result)
  console.log(
    `${results.length} ${result.verdict}: ${result.file}:${result.line} ${result.was} -> ${result.becomes}  ${result.by ?? ""}`,
  )
  if (known === undefined) save()
}
save()
writePage(root)
await compiler.close()
const { scores, unexplained } = evidenceOf(seed, results)
for (const [module, score] of Object.entries(scores))
  console.log(`${module}: ${score.noticed} of ${score.mutants} noticed`)
process.exit(unexplained === 0 ? 0 : 1)
