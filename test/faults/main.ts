/**
 * `bun run faults` causes every fault of the campaign, and counts lost events.
 *
 *   bun run faults [--long] [--only NAME] [--except NAME] [--seed N] [--binary dist/relay] [--bail] [--mutants]
 *
 * Prints a row per fault, and exits 1 if any fault failed. A seed that failed fails again. `--bail` stops at the first
 * finding. `--mutants` removes guards on purpose, and each must make its line fail. A hunt that was stopped continues if
 * neither a source nor a test has changed.
 */
import { parseArgs } from "node:util"
import { failures, means, type Outcome } from "./Line.ts"
import { lines, mutants } from "./Lines.ts"
import { hunt } from "./Mutants.ts"
import * as Table from "./Table.ts"

const { values: flags } = parseArgs({
  options: {
    long: { type: "boolean", default: false },
    mutants: { type: "boolean", default: false },
    bail: { type: "boolean", default: false },
    only: { type: "string", multiple: true, default: [] },
    except: { type: "string", multiple: true, default: [] },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    binary: { type: "string" },
  },
})
const seed = Number(flags.seed)
const isAmong = (named: ReadonlyArray<string>, name: string): boolean => named.some((one) => means(one, name))
const wanted = (name: string): boolean =>
  (flags.only.length === 0 || isAmong(flags.only, name)) && !isAmong(flags.except, name)
const known = [...lines.map(({ name }) => name), ...mutants.map(({ line }) => line)]
const unknown = [...flags.only, ...flags.except].filter((one) => !known.some((name) => means(one, name)))
if (unknown.length > 0 || !Number.isInteger(seed)) {
  console.error(
    unknown.length > 0
      ? `no line is called ${unknown.join(", ")}; there are ${lines.map(({ name }) => name).join(", ")}`
      : "--seed takes a whole number",
  )
  process.exit(64)
}

if (flags.mutants) {
  const allNoticed = await hunt(
    mutants.filter(({ line }) => wanted(line)),
    seed,
  )
  process.exit(allNoticed ? 0 : 1)
}

console.log(`seed ${seed}\n${Table.head}`)
let failed = 0
let skipped = 0
for (const line of lines.filter(({ name }) => wanted(name))) {
  const started = performance.now()
  const outcome = await line
    .run({ long: flags.long, seed, bail: flags.bail, ...(flags.binary === undefined ? {} : { binary: flags.binary }) })
    .catch((error: unknown): Outcome => {
      // The stack of a tagged error has no message, and the cause says more than the error around it.
      const broken = [`the line itself broke: ${Bun.inspect(error)}`]
      return { rounds: 0, acknowledged: 0, lost: 0, duplicates: 0, broken }
    })
  if (outcome.skipped !== undefined) skipped += 1
  else if (failures(outcome).length > 0) failed += 1
  console.log(Table.line(line, outcome, (performance.now() - started) / 1_000))
  if (flags.bail && failed > 0) break
}
console.log(
  failed === 0
    ? `\nall lines hold${skipped > 0 ? `; ${skipped} could not run here` : ""}`
    : `\n${failed} failed; once more the same: bun run faults --seed ${seed}`,
)
process.exit(failed > 0 ? 1 : 0)
