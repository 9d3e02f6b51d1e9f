/** The campaign's table: a row as soon as its line has run. */
import { failures, type Line, type Outcome } from "./Line.ts"

const columns = [
  ["fault", 44],
  ["rounds", 7],
  ["acknowledged", 13],
  ["lost", 5],
  ["duplicates", 11],
  ["bound", 6],
  ["seconds", 8],
] as const

const row = (cells: ReadonlyArray<string>, verdict: string): string =>
  `${cells.map((cell, index) => (index === 0 ? cell.padEnd(columns[0][1]) : cell.padStart(columns[index]?.[1] ?? 0))).join(" ")}  ${verdict}`

export const head = row(
  columns.map(([name]) => name),
  "verdict",
)

export const line = ({ name, fault }: Line, outcome: Outcome, seconds: number): string => {
  const broken = failures(outcome)
  const verdict = outcome.skipped === undefined ? (broken.length === 0 ? "ok" : "FAILED") : "skipped"
  const cells =
    outcome.skipped === undefined
      ? [
          outcome.rounds,
          outcome.acknowledged,
          outcome.lost,
          outcome.duplicates,
          outcome.bound ?? "-",
          seconds.toFixed(0),
        ]
      : ["-", "-", "-", "-", "-", seconds.toFixed(0)]
  const below = [...broken.map((one) => `FAILED: ${one}`), ...(outcome.notes ?? [])]
  if (outcome.skipped !== undefined) below.unshift(`skipped: ${outcome.skipped}`)
  return [row([`${name}: ${fault}`, ...cells.map(String)], verdict), ...below.map((one) => `    ${one}`)].join("\n")
}
