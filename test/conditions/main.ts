/**
 * `bun run conditions`: plays all conditions at all sinks and prints the table.
 *
 *   bun run conditions [--only COLUMN[.ROW]] [--quick] [--binary dist/relay] [--list]
 *
 * Exits 1 if a scenario fails. `--quick` is the short form. `--list` prints the cells and plays nothing.
 */
import { parseArgs } from "node:util"
import { relayBinary } from "../lib/programs.ts"
import { type Cell, isStatement, loadColumns, type Row, rowNames, rows, type Scenario } from "./Column.ts"

const { values: flags } = parseArgs({
  options: {
    only: { type: "string", multiple: true, default: [] },
    quick: { type: "boolean", default: false },
    list: { type: "boolean", default: false },
    binary: { type: "string" },
  },
})
/** Columns that are played at the same time. */
const together = 3

interface Result {
  readonly name: string
  readonly scenario: Scenario
  readonly broken: ReadonlyArray<string>
  readonly seconds: number
}

const columns = await loadColumns()
const isWanted = (column: string, row: Row): boolean =>
  flags.only.length === 0 || flags.only.some((only) => only === column || only === `${column}.${row}`)
const unknown = flags.only.filter((only) => !columns.has(only.split(".")[0] ?? ""))
if (unknown.length > 0) {
  console.error(`no column is called ${unknown.join(", ")}; there are ${[...columns.keys()].join(", ")}`)
  process.exit(64)
}

const scenariosOf = (cell: Cell | undefined): ReadonlyArray<Scenario> => {
  if (cell === undefined || isStatement(cell)) return []
  return flags.quick ? cell.filter(({ isQuick }) => isQuick) : cell
}

if (flags.list) {
  for (const [column, { cells }] of columns) {
    for (const row of rowNames.filter((row) => isWanted(column, row))) {
      const cell = cells[row]
      const lines =
        cell === undefined ? ["missing"] : isStatement(cell) ? [`never: ${cell.never} (${cell.source})`] : []
      for (const line of [...lines, ...scenariosOf(cell).map(({ what }) => what)])
        console.log(`${column}.${row} ${line}`)
    }
  }
  process.exit(0)
}

const binary = flags.binary ?? relayBinary()
const results: Array<Result> = []

const playColumn = async (column: string): Promise<void> => {
  for (const row of rowNames.filter((row) => isWanted(column, row))) {
    for (const scenario of scenariosOf(columns.get(column)?.cells[row])) {
      const name = `${column}.${row}`
      if (scenario.lacking !== undefined) {
        console.log(`${name} skipped: ${scenario.lacking}`)
        continue
      }
      const began = performance.now()
      const broken = await scenario.run({ long: false, seed: 1, binary })
      const seconds = (performance.now() - began) / 1_000
      results.push({ name, scenario, broken, seconds })
      console.log(`${name} ${broken.length === 0 ? "ok" : "FAILED"} ${seconds.toFixed(1)} s: ${scenario.what}`)
      for (const one of broken) console.log(`    ${one}`)
    }
  }
}

const waiting = [...columns.keys()]
const worker = async (): Promise<void> => {
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await playColumn(next)
}
await Promise.all(Array.from({ length: together }, worker))

const sign = (column: string, row: Row): string => {
  const cell = columns.get(column)?.cells[row]
  if (cell === undefined) return "?"
  if (isStatement(cell)) return "-"
  const played = results.filter(({ name }) => name === `${column}.${row}`)
  if (played.some(({ broken }) => broken.length > 0)) return "X"
  return played.length === 0 ? "" : String(played.length)
}

const width = Math.max(...[...columns.keys()].map((name) => name.length))
console.log(`\n${" ".repeat(width)}  ${rowNames.map((row) => row.padStart(2)).join(" ")}`)
for (const column of columns.keys()) {
  console.log(`${column.padEnd(width)}  ${rowNames.map((row) => sign(column, row).padStart(2)).join(" ")}`)
}
console.log("\nA number: scenarios that hold. X: one fails. -: can't happen. ?: missing.")
for (const row of rowNames) console.log(`${row}. ${rows[row]}`)
const failed = results.filter(({ broken }) => broken.length > 0)
for (const { name, scenario, broken } of failed) {
  console.log([`FAILED: ${name}: ${scenario.what}`, ...broken].join("\n    "))
}
console.log(failed.length === 0 ? "\nall conditions hold" : `\n${failed.length} of ${results.length} failed`)
process.exit(failed.length > 0 ? 1 : 0)
