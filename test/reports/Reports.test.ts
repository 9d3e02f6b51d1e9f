/** The pages of public reports about programs like relay: each row links a report and names the test of its input. */
import { describe, expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import * as sinks from "../../src/sinks/Sinks.ts"
import { readPage } from "../lib/docs.ts"

const root = new URL("../../", import.meta.url)
const github = "https://github.com/"
const issue = /^https:\/\/github\.com\/([\w.-]+\/[\w.-]+)\/(?:issues|pull)\/(\d+)$/
const cells =
  /^\| (?:(?<sink>\w+) \| )?\[(?<label>.*?)\]\((?<report>\S+)\) \| (?<symptom>[^|]+) \| (?<verdict>right|poor|wrong) \| `(?<path>test\/.*?)`: (?<title>.+) \|$/

interface Report {
  /** The type of the sink that the report is about. Empty for reports about receiving. */
  readonly sink: string
  readonly label: string
  /** The address of the report's page. */
  readonly report: string
  readonly symptom: string
  readonly verdict: string
  readonly path: string
  /** The title of the test. It may be cut before a value that the test inserts. */
  readonly title: string
}

const read = (row: string): Report => {
  const {
    sink = "",
    label = "",
    report = "",
    symptom = "",
    verdict = "",
    path = "",
    title = "",
  } = cells.exec(row)?.groups ?? {}
  return { sink, label, report, symptom, verdict, path, title: title.replaceAll("\\*", "*") }
}

const pages = ["config", "operations", "receive", "sinks"].map((name) => {
  const text = readPage(`test/reports/${name}.md`)
  const rows = text.split("\n").filter((line) => line.startsWith("| ") && !/\| Report \|/.test(line))
  return { name, text, reports: rows.map(read) }
})
const ofSinks = pages.find(({ name }) => name === "sinks")?.reports ?? []

const isPage = ({ report }: Report): boolean =>
  URL.canParse(report) && report.startsWith("https://") && (!report.startsWith(github) || issue.test(report))

/** Reports whether the file of the report's test has its title. */
const hasTest = ({ path, title }: Report): boolean => {
  const file = new URL(path, root)
  return title !== "" && existsSync(file) && readFileSync(file, "utf8").includes(title)
}

test("no two reports are of the same page", () => {
  const addresses = pages.flatMap(({ reports }) => reports.map(({ report }) => report))
  expect(addresses.length).toBeGreaterThan(0)
  expect(addresses.filter((address, at) => addresses.indexOf(address) !== at)).toEqual([])
})

/** Sinks on this machine, without a service. */
const local = new Set(["console", "file"])
const fewest = 5

test("each sink of a service has reports", () => {
  const counts = Object.keys(sinks).map((type) => [type, ofSinks.filter(({ sink }) => sink === type).length])
  expect(counts.filter(([type, count]) => !local.has(String(type)) && Number(count) < fewest)).toEqual([])
  expect(ofSinks.filter(({ sink }) => !Object.hasOwn(sinks, sink))).toEqual([])
})

for (const { name, text, reports } of pages) {
  describe(`the page of reports about ${name}`, () => {
    const right = reports.filter(({ verdict }) => verdict === "right").length

    test("links issues, pull requests and other public pages, by their names", () => {
      expect(reports.filter((report) => !isPage(report))).toEqual([])
      const labels = reports.map(({ report }) => report.replace(issue, "$1#$2").replace("https://", ""))
      expect(reports.map(({ label }) => label)).toEqual(labels)
    })

    test("has each symptom once", () => {
      const symptoms = reports.map(({ symptom }) => symptom)
      expect(symptoms.filter((symptom, at) => symptoms.indexOf(symptom) !== at)).toEqual([])
    })

    test("names tests that exist", () => {
      expect(reports.filter((report) => !hasTest(report))).toEqual([])
    })

    test("has at most as many reports that were right on the first try as others, and counts both", () => {
      expect(right).toBeLessThanOrEqual(reports.length / 2)
      expect(text).toContain(`Each of the ${reports.length} rows links a public report.`)
      expect(text).toContain(`On the first try relay was right in ${right} of them;`)
    })
  })
}
