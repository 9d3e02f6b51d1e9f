/** A public report about a program like relay, and the test that gives a relay the same input. */

export interface Report {
  /** The type of the sink that the report concerns; absent for reports about receiving. */
  readonly sink?: string
  /** The page of the report. */
  readonly report: string
  /** The symptom that the report describes, in our own words. */
  readonly symptom: string
  /**
   * How relay did on the first try: `right`; `poor` if it only told too little or lacked a setting; `wrong`
   * otherwise. A change fixed each that was `poor` or `wrong`.
   */
  readonly verdict: "right" | "poor" | "wrong"
  /** The test with this input, as "path > title". The title may be cut before a value that the test inserts. */
  readonly test: string
}

export interface Catalogue {
  readonly title: string
  readonly reports: ReadonlyArray<Report>
}

/** The path and the title of a report's test. */
export const testOf = ({ test }: Report): readonly [path: string, title: string] => {
  const [path = "", ...title] = test.split(" > ")
  return [path, title.join(" > ")]
}

const issue = /^https:\/\/github\.com\/([\w.-]+\/[\w.-]+)\/(?:issues|pull)\/(\d+)$/

const link = ({ report }: Report): string => `[${report.replace(issue, "$1#$2").replace("https://", "")}](${report})`

const row = (report: Report): string => {
  const [path, title] = testOf(report)
  const sink = report.sink === undefined ? "" : `${report.sink} | `
  return `| ${sink}${link(report)} | ${report.symptom} | ${report.verdict} | \`${path}\`: ${title.replaceAll("*", "\\*")} |`
}

export const markdown = ({ title, reports }: Catalogue): string => {
  const [sink, line] = reports.some(({ sink }) => sink !== undefined) ? ["Sink | ", "---|"] : ["", ""]
  const right = reports.filter(({ verdict }) => verdict === "right").length
  const head = [
    `# ${title}`,
    "",
    "`bun test/reports/table.ts` writes this page, and a test compares it.",
    "",
    `Each of the ${reports.length} rows links a public report. The test named there gives a relay the same input. On the first try relay was right in ${right} of them; changes fixed the others. \`poor\` means that relay told too little, or lacked a setting.`,
    "",
    `| ${sink}Report | Symptom | First try | Test |`,
    `|${line}---|---|---|---|`,
  ]
  return [...head, ...reports.map(row), ""].join("\n")
}
