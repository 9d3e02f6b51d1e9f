/**
 * The output of the benchmark: a table for each scenario, and at the end each requirement with its measurement and
 * verdict.
 */
import * as Rounds from "./Rounds.ts"

export interface Verdict {
  readonly requirement: string
  readonly measured: string
  readonly ok: boolean
  /** A stretch goal does not fail the benchmark. */
  readonly stretch?: boolean
  /** The run was too noisy, or a part is missing. This is neither a pass nor a failure. */
  readonly unmeasured?: boolean
}

const word = ({ ok, stretch, unmeasured }: Verdict): string => {
  if (ok) return "ok"
  if (unmeasured === true) return "not measurable"
  return stretch === true ? "not reached" : "MISSED"
}

/** The exit code: 1 if a requirement was missed, else 2 if one could not be measured. */
export const statusOf = (all: ReadonlyArray<Verdict>): number => {
  const words = all.map(word)
  if (words.includes("MISSED")) return 1
  return words.includes("not measurable") ? 2 : 0
}

const table = (rows: ReadonlyArray<ReadonlyArray<string>>, left: number): string => {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  return rows
    .map((row) =>
      row
        .map((cell, column) => (column < left ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)))
        .join("  ")
        .trimEnd(),
    )
    .join("\n")
}

export const show = ({ median, min, max }: Rounds.Spread, digits: number): string =>
  `${median.toFixed(digits)} [${min.toFixed(digits)}..${max.toFixed(digits)}]`

/** Formats the figures as `show` does, but shorter. */
export const brief = ({ median, min, max }: Rounds.Spread, digits: number): string =>
  `${median.toFixed(digits)} (${min.toFixed(digits)}–${max.toFixed(digits)})`

export const titled = (title: string, rows: ReadonlyArray<ReadonlyArray<string>>): string =>
  `\n${title}\n${table(rows, 1)}\n`

/** Returns a scenario's table. Its ratios are to `references`, which are among the subjects. */
export const scenario = (
  title: string,
  subjects: ReadonlyArray<Rounds.Subject>,
  references: ReadonlyArray<Rounds.Subject>,
): string => {
  const against = references.flatMap(({ target }) => [`req/s ÷ ${target.name}`, `CPU ÷ ${target.name}`])
  const head = ["median [min..max]", "req/s", "CPU µs/req", "p50 ms", "p99 ms", ...against, "behind at end"]
  const rows = subjects.map((subject) => [
    subject.target.name,
    show(Rounds.of(subject, "rate"), 0),
    show(Rounds.of(subject, "cpu"), 1),
    show(Rounds.of(subject, "p50"), 2),
    show(Rounds.of(subject, "p99"), 2),
    ...references.flatMap((reference) =>
      reference === subject
        ? ["", ""]
        : [show(Rounds.ratio(subject, reference, "rate"), 2), show(Rounds.ratio(subject, reference, "cpu"), 2)],
    ),
    subject.target.delivered === undefined ? "" : show(Rounds.of(subject, "behind"), 0),
  ])
  return titled(title, [head, ...rows])
}

export const verdicts = (all: ReadonlyArray<Verdict>): string =>
  `\n${table(
    [
      ["requirement", "measured", "verdict"],
      ...all.map((verdict) => [
        verdict.stretch === true ? `${verdict.requirement} (stretch)` : verdict.requirement,
        verdict.measured,
        word(verdict),
      ]),
    ],
    3,
  )}\n`
