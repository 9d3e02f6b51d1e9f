/** The catalogues of public reports. */
import { describe, expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import * as sinks from "../../src/sinks/Sinks.ts"
import { markdown, type Report, testOf } from "./Report.ts"
import { catalogue } from "./sinks.ts"
import { catalogues } from "./table.ts"

const root = new URL("../../", import.meta.url)
const github = "https://github.com/"
const isIssue = /^https:\/\/github\.com\/[\w.-]+\/[\w.-]+\/(issues|pull)\/\d+$/

const isPage = ({ report }: Report): boolean =>
  URL.canParse(report) && report.startsWith("https://") && (!report.startsWith(github) || isIssue.test(report))

/** Reports whether the file of the report's test has its title. */
const hasTest = (report: Report): boolean => {
  const [path, title] = testOf(report)
  const file = new URL(path, root)
  return path.startsWith("test/") && title !== "" && existsSync(file) && readFileSync(file, "utf8").includes(title)
}

test("no two reports are of the same page", () => {
  const pages = catalogues.flatMap(([, { reports }]) => reports.map(({ report }) => report))
  expect(pages.length).toBeGreaterThan(0)
  expect(pages.filter((page, at) => pages.indexOf(page) !== at)).toEqual([])
})

/** Sinks of this machine, which no service stands behind. */
const local = new Set(["console", "file"])
const fewest = 5

test("each sink of a service has reports", () => {
  const counts = Object.keys(sinks).map((sink) => [sink, catalogue.reports.filter((one) => one.sink === sink).length])
  expect(counts.filter(([sink, count]) => !local.has(String(sink)) && Number(count) < fewest)).toEqual([])
  expect(catalogue.reports.filter(({ sink = "" }) => !Object.hasOwn(sinks, sink))).toEqual([])
})

for (const [page, catalogue] of catalogues) {
  const { title, reports } = catalogue
  describe(title, () => {
    test("links issues, pull requests and other public pages", () => {
      expect(reports.filter((report) => !isPage(report))).toEqual([])
    })

    test("has each symptom once, in a line", () => {
      const symptoms = reports.map(({ symptom }) => symptom)
      expect(symptoms.filter((symptom, at) => symptoms.indexOf(symptom) !== at || /[\n|]/.test(symptom))).toEqual([])
    })

    test("names tests that exist", () => {
      expect(reports.filter((report) => !hasTest(report))).toEqual([])
    })

    test("has at most as many reports that were right on the first try as others", () => {
      const right = reports.filter(({ verdict }) => verdict === "right")
      expect(right.length).toBeLessThanOrEqual(reports.length / 2)
    })

    test("is what its page shows; after a change: bun test/reports/table.ts", () => {
      expect(readFileSync(page, "utf8")).toBe(markdown(catalogue))
    })
  })
}
