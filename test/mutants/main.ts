/**
 * `bun run mutants`: changes one operator, constant, condition or statement of
 * the sources at random, and runs the tests that execute it. A change that no
 * test notices has survived: a test is missing, or `Explained.ts` says why it
 * changes nothing that matters. The score by module is in docs/evidence/mutants.json.
 *
 *   --seed N     draws other mutants than seed 1
 *   --count N    this many mutants, instead of 200
 *   --limit N    seconds for the tests of one mutant, instead of 120
 *
 * It may be stopped at any time: the next run continues, and repeats survivors
 * whose tests have changed. With RELAY_PARTS=1 the journal on PostgreSQL is drawn
 * too. Exits 1 if a survivor has no explanation.
 */
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { parseArgs } from "node:util"
import { writePage } from "../evidence/Page.ts"
import { root } from "../lib/programs.ts"
import { draw, type Mutant } from "./Draw.ts"
import { compilerOf } from "./Places.ts"
import { Reach, type Reaching } from "./Reach.ts"
import { type Evidence, evidenceOf, isNoticed, knownOf, type Result, stateOf, testsOf } from "./Results.ts"
import { bunTest, failedIn } from "./RunTests.ts"

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    count: { type: "string", default: "200" },
    limit: { type: "string", default: "120" },
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

const copyProject = (): string => {
  const copy = mkdtempSync(join(tmpdir(), "relay-mutants-"))
  // PostgreSQL, which root starts as another user, finds its files in it.
  chmodSync(copy, 0o755)
  for (const name of ["src", "test", "config", "docs"]) cpSync(join(root, name), join(copy, name), { recursive: true })
  for (const name of ["package.json", "bun.lock", "tsconfig.json", "bunfig.toml", "relay.config.json", "README.md"])
    cpSync(join(root, name), join(copy, name))
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"))
  return copy
}

/** Runs the tests of a mutant in the copy until one fails. */
const tried = async (copy: string, mutant: Mutant, reaching: ReadonlyArray<Reaching>) => {
  const file = join(copy, mutant.file)
  const text = readFileSync(file, "utf8")
  writeFileSync(file, mutant.text)
  try {
    for (const batch of batchesOf(reaching)) {
      const seconds = 30 + 3 * batch.reduce((sum, test) => sum + test.seconds, 0)
      const { status, output } = await bunTest(copy, ["--bail", ...batch.map(({ file }) => file)], seconds)
      if (status === "stopped") return { verdict: "stopped", by: batch.map(({ file }) => file).join(" ") } as const
      if (status === "failed") return { verdict: "killed", by: failedIn(output) } as const
    }
    return { verdict: reaching.length === 0 ? "unreached" : "survived" } as const
  } finally {
    writeFileSync(file, text)
  }
}

const resultOf = (
  { module, file, line, column, code, kind, was, becomes }: Mutant,
  found: Pick<Result, "verdict" | "by">,
  tests: string,
) => ({ module, file, line, column, code, kind, was, becomes, ...found, ...(!isNoticed(found) && { tests }) })

const before: Evidence | undefined = existsSync(evidence) ? JSON.parse(readFileSync(evidence, "utf8")) : undefined
const compiler = await compilerOf(root)
const copy = copyProject()
const reach = new Reach(copy, cache)
const results: Array<Result> = []
const save = (): void => {
  mkdirSync(join(root, "docs/evidence"), { recursive: true })
  writeFileSync(evidence, `${JSON.stringify(evidenceOf(seed, results), null, 2)}\n`)
}
process.once("exit", () => rmSync(copy, { recursive: true, force: true }))
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130))

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
