/**
 * docs/evidence/README.md, which has each claim with its command, its condition and its figures, and the score of the
 * random mutants.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Evidence as Fuzzing } from "../fuzz/Kept.ts"
import type { Evidence as Mutants } from "../mutants/Results.ts"
import { type Claim, claims } from "./Claims.ts"

/** The figures of a command's last run. */
export interface Evidence {
  readonly command: string
  readonly machine: string
  /** The machine's load at the start, because other work on it slows a measurement. */
  readonly load: number
  readonly day: string
  /** The last commit that changed the sources. */
  readonly commit: string
  readonly seconds: number
  readonly figures: Readonly<Record<string, number>>
}

const shown = (value: number): string => value.toLocaleString("en", { maximumFractionDigits: 2 })

const row = ({ title, command, flags, condition }: Claim, evidence: Evidence | undefined): string => {
  const figures = Object.entries(evidence?.figures ?? {}).map(([name, value]) => `${name}: ${shown(value)}`)
  const run =
    evidence === undefined
      ? "not run for this version"
      : `${evidence.day}, ${evidence.commit}, ${evidence.seconds} s, load ${evidence.load}; ${evidence.machine}`
  const own = `\`${flags === undefined ? command : `${command} ${flags}`}\``
  return `| ${[title, own, condition, figures.join("; "), run].join(" | ")} |`
}

const folder = "docs/evidence"
const read = <A>(root: string, name: string): A | undefined => {
  const file = join(root, folder, `${name}.json`)
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : undefined
}

/** The evidence of a claim, or `undefined` if its command has not passed yet. */
export const evidenceOf = (root: string, { name }: Claim): Evidence | undefined => read(root, name)

const scores = (mutants: Mutants | undefined): ReadonlyArray<string> =>
  Object.entries(mutants?.scores ?? {}).map(
    ([module, { mutants, noticed, explained }]) => `| \`src/${module}\` | ${mutants} | ${noticed} | ${explained} |`,
  )

const searches = (fuzzing: Fuzzing = {}): ReadonlyArray<string> =>
  Object.entries(fuzzing).map(([target, { holds, executions, inputs, reached, found, minutes, day, commit }]) => {
    const figures = [executions, inputs, reached, found].map(shown)
    return `| ${[target, holds, ...figures, `${day}, ${commit}, ${minutes} min`].join(" | ")} |`
  })

/** Generates the page from the files next to it. */
export const pageOf = (root: string): string => {
  const mutants = read<Mutants>(root, "mutants")
  return `# Evidence

\`bun run evidence\` runs the command of each claim in the README, and writes this page and a
JSON file for each claim. A test compares the README's figures with them. \`bun run evidence --only hardened\`
runs one claim's command. The last column has the day of the last run, the commit of its sources, its duration,
and the machine with its load at the start. A busy machine makes times and CPU higher.

| claim | command | conditions | figures | last run |
|---|---|---|---|---|
${claims.map((claim) => row(claim, evidenceOf(root, claim))).join("\n")}

## Random mutants

\`${mutants?.command ?? "bun run mutants"}\` changes one operator, constant, condition or statement at a random place,
and runs the tests that execute it. [mutants.json](mutants.json) has each change with the test that noticed it,
or the reason why no test should. Without \`RELAY_PARTS=1\`, the journal on PostgreSQL is left out.

| module | mutants | noticed | explained |
|---|---:|---:|---:|
${scores(mutants).join("\n")}

## Fuzzing

\`bun run fuzz\` changes real inputs at random, keeps those that reach new branches of the sources, and checks a
statement about each of them. The inputs that broke one are tests (\`test/fuzz/found.json\`). The figures are
from the last run. It began with the inputs that earlier runs had kept.

| target | statement | executions | inputs | branches | broke it, in all | last run |
|---|---|---:|---:|---:|---:|---|
${searches(read(root, "fuzz")).join("\n")}
`
}

export const writePage = (root: string): void => writeFileSync(join(root, folder, "README.md"), pageOf(root))
