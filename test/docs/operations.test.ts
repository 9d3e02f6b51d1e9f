/** The operations page and the program agree: every state and every alert rule has its runbook, and no other has one. */
import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { states } from "../../src/admin/status/Health.ts"
import { runbooks } from "../../src/cli/commands/runbook.ts"
import { rows } from "../bench/Sizing.ts"
import { readPage } from "../lib/docs.ts"
import { root } from "../lib/programs.ts"

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly runbook_url: string }
}

const { groups } = Bun.YAML.parse(readFileSync(join(root, "config/monitoring/alerts.rules.yml"), "utf8")) as {
  readonly groups: ReadonlyArray<{ readonly rules: ReadonlyArray<Rule> }>
}

/**
 * The states that each alert leads to. A link with a label leads to a state for each value in the alert's expression.
 */
const linked = groups
  .flatMap(({ rules }) => rules)
  .flatMap(({ alert, expr, labels, annotations: { runbook_url } }) => {
    const [file, link = ""] = runbook_url.split("#")
    expect(file).toBe("../../docs/operations/runbooks.md")
    const [, label = "", values = ""] = /([a-z]+)=~"([^"]+)"/.exec(expr) ?? []
    const variable = `{{ $labels.${label} }}`
    const names = link.includes(variable) ? values.split("|").map((value) => link.replace(variable, value)) : [link]
    return names.map((state) => ({ state, alert, severity: labels.severity }))
  })

const levels: Readonly<Record<string, string>> = states

describe("the operations page", () => {
  test("has a runbook for each state of the status and each alert rule, and no others", () => {
    const wanted = new Set([...Object.keys(states), ...linked.map(({ state }) => state)])
    expect(
      runbooks()
        .map(({ state }) => state)
        .toSorted(),
    ).toEqual([...wanted].toSorted())
  })

  test("gives the level of each and its alerts, as the program and the rules do", () => {
    for (const { state, level, text } of runbooks()) {
      const alerts = linked.filter((alert) => alert.state === state)
      expect([state, level]).toEqual([state, levels[state] ?? alerts[0]?.severity ?? ""])
      const named = alerts.map(({ alert }) => `\`${alert}\``).join(", ")
      const plural = alerts.length === 1 ? "alert" : "alerts"
      const begin = `${level.replace(/^./, (first) => first.toUpperCase())}${named === "" ? "" : `; ${plural} ${named}`}. `
      expect(text).toStartWith(begin)
      // A runbook explains the state and says what to do.
      if (levels[state] !== "note") expect(text.split("\n").length + text.split(". ").length).toBeGreaterThan(3)
    }
  })

  test("only critical alerts, and those that only a person can see, wake a person", () => {
    for (const { state, alert, severity } of linked) {
      expect([alert, severity]).toEqual([alert, levels[state] ?? severity])
    }
  })
})

describe("the page on sizing", () => {
  const page = readPage("docs/operations/sizing.md")

  test("has the rows that its command prints", () => {
    const [, table = ""] = /^\| \| SQLite \| PostgreSQL \|\n.*\n((?:\|.*\n)*)/m.exec(page) ?? []
    expect(
      table
        .trimEnd()
        .split("\n")
        .map((line) => line.split(" | ")[0]?.slice(2)),
    ).toEqual([...rows])
  })

  test("counts with the most bytes an event that were measured", () => {
    const measured = [...(/^\| bytes an event on disk \| (\d+) \| (\d+) \|$/m.exec(page) ?? [])].slice(1).map(Number)
    const [, said = ""] = /at ([\d,]+) bytes an event/.exec(page) ?? []
    const bytes = Number(said.replace(",", ""))
    expect(measured.length).toBe(2)
    expect(Math.abs(Math.max(...measured) / bytes - 1)).toBeLessThan(0.1)
    const lines = [...page.matchAll(/^\| (\d+) \| ([\d.]+) GB \| (\d+) (days|hours) \|$/gm)]
    expect(lines.length).toBe(3)
    for (const [, rate, week, time, unit] of lines) {
      expect(Number(week)).toBeCloseTo((Number(rate) * bytes * 7 * 86_400) / 1e9, Number(rate) < 100 ? 1 : 0)
      const seconds = (10 * 1024 ** 3) / bytes / Number(rate)
      expect(Number(time)).toBe(Math.floor(seconds / (unit === "days" ? 86_400 : 3_600)))
    }
  })
})
