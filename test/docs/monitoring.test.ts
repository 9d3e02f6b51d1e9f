/**
 * The Grafana dashboard and the Prometheus rules in `config/monitoring/` are well-formed, and use only metrics and
 * labels of `/metrics`. All words of an expression are checked, so a renamed metric fails here and not on a pager.
 */
import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { exported } from "./exported.ts"

const directory = resolve(import.meta.dir, "../../config/monitoring")
const read = (file: string) => readFileSync(join(directory, file), "utf8")

/** Every family that a relay exports, with its labels, and all states of a lane. */
const series = new Map<string, Set<string>>()
const states = new Set<string>()
for (const { name, labels } of exported) {
  // Prometheus adds these to everything that it scrapes.
  series.set(name, new Set([...labels.map(([label]) => label), "instance", "job"]))
  for (const [label, value] of labels) if (label === "state") states.add(value)
}

const functions = [
  ..."sum max min by and or unless on rate increase delta histogram_quantile topk absent time".split(" "),
  ..."bool offset without".split(" "),
]

/** Returns the faults of an expression. */
const faults = (expr: string): ReadonlyArray<string> => {
  const found: Array<string> = []
  const say = (fault: string) => found.push(`${fault}: ${expr}`)
  const open = { ")": "(", "]": "[", "}": "{" } as const
  const stack: Array<string> = []
  for (const char of expr.replaceAll(/"(?:[^"\\]|\\.)*"/g, "")) {
    if ("([{".includes(char)) stack.push(char)
    else if (char in open && stack.pop() !== open[char as keyof typeof open]) say(`a stray ${char}`)
  }
  if (stack.length > 0) say("a bracket that stays open")
  const selectors = [...expr.matchAll(/([a-z_]+)\{([^}]*)\}/g)]
  for (const [, name = "", matchers = ""] of selectors) {
    for (const matcher of matchers.split(/,(?=[a-z]+[=!])/)) {
      const [, label = "", operator = "", value = ""] = /^([a-z]+)(=~|!~|!=|=)"(.*)"$/.exec(matcher) ?? []
      if (operator === "" || series.get(name)?.has(label) !== true) say(`${name} has no label ${label}`)
      if (label === "state") {
        for (const state of value.split("|")) if (!states.has(state)) say(`there is no state ${state}`)
      }
    }
  }
  const bare = expr.replaceAll(/\{[^}]*\}|\[[^\]]*\]|"[^"]*"/g, " ")
  const names = [...bare.matchAll(/(?<![a-z_0-9])[a-z_]+/g)].map(([name]) => name)
  const metrics = names.filter((name) => name.startsWith("relay_"))
  if (metrics.length === 0) say("no metric of the relay")
  for (const metric of metrics) if (!series.has(metric)) say(`no metric is named ${metric}`)
  const labels = [...bare.matchAll(/\b(?:by|on|without) \(([^)]*)\)/g)].flatMap(([, list = ""]) => list.split(", "))
  for (const label of labels) {
    if (!metrics.some((metric) => series.get(metric)?.has(label))) say(`none of its metrics has the label ${label}`)
  }
  for (const name of names) {
    if (!(metrics.includes(name) || functions.includes(name) || labels.includes(name))) say(`what is ${name}?`)
  }
  return found
}

describe("an expression", () => {
  test("fails the check if it names an unknown metric or isn't closed", () => {
    for (const wrong of [
      "relay_nothing > 0",
      'relay_lane_state{stat="running"}',
      'relay_lane_state{state="dead"}',
      "sum by (webhook) (relay_dead_letters)",
      "sum(relay_dead_letters",
      "summ(relay_dead_letters)",
      "up == 0",
    ]) {
      expect(faults(wrong)).not.toEqual([])
    }
    expect(faults('sum by (sink) (rate(relay_lane_state{state=~"running|paused"}[5m])) > 0')).toEqual([])
  })
})

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly for?: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

describe("the alert rules", () => {
  const file = Bun.YAML.parse(read("alerts.rules.yml")) as {
    readonly groups: ReadonlyArray<{ readonly name: string; readonly rules: ReadonlyArray<Rule> }>
  }
  const rules = file.groups.flatMap((group) => group.rules)

  test("have the form that Prometheus reads: groups of rules, each with its required keys and no others", () => {
    expect(Object.keys(file)).toEqual(["groups"])
    expect(rules.length).toBeGreaterThan(10)
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length)
    for (const { alert, expr, for: held = "0s", labels, annotations, ...rest } of rules) {
      expect(rest).toEqual({})
      expect(alert).toMatch(/^Relay[A-Z][A-Za-z]+$/)
      expect(held).toMatch(/^\d+[smh]$/)
      expect(["critical", "warning"]).toContain(labels.severity ?? "")
      expect(Object.keys(annotations)).toEqual(["summary", "description", "runbook_url"])
      // Labels in a summary must survive the expression's aggregation.
      for (const [, label = ""] of Object.values(annotations)
        .join(" ")
        .matchAll(/\$labels\.([a-z]+)/g)) {
        expect(`${alert}: ${expr}`).toMatch(new RegExp(`by \\([^)]*\\b${label}\\b[^)]*\\)`))
      }
    }
  })

  test("are about metrics and labels that the relay has", () => {
    expect(rules.flatMap(({ expr }) => faults(expr))).toEqual([])
  })
})

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description?: string
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly targets?: ReadonlyArray<{ readonly refId: string; readonly expr: string }>
}

describe("the dashboard", () => {
  const dashboard = JSON.parse(read("grafana.json")) as {
    readonly panels: ReadonlyArray<Panel>
    readonly templating: { readonly list: ReadonlyArray<{ readonly name: string; readonly query: string }> }
  }
  const panels = dashboard.panels.filter(({ type }) => type !== "row")
  const variables = dashboard.templating.list

  test("has panels with a description each, on a grid without overlaps", () => {
    const ids = dashboard.panels.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    const taken = new Set<string>()
    for (const { gridPos, title } of dashboard.panels) {
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24)
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect([title, taken.has(`${x},${y}`)]).toEqual([title, false])
          taken.add(`${x},${y}`)
        }
      }
    }
    for (const { description = "", targets = [] } of panels) {
      expect(description).not.toBe("")
      expect(targets.length).toBeGreaterThan(0)
      expect(new Set(targets.map(({ refId }) => refId)).size).toBe(targets.length)
    }
  })

  test("is about metrics and labels that the relay has, through variables that there are", () => {
    for (const { targets = [] } of panels) {
      for (const { expr } of targets) {
        for (const [, name = ""] of expr.matchAll(/"\$([a-z]+)"/g)) {
          expect(variables.map((variable) => variable.name)).toContain(name)
        }
        expect(faults(expr)).toEqual([])
      }
    }
    for (const { query } of variables.filter(({ name }) => name !== "datasource")) {
      const [, metric = "", label = ""] = /^label_values\(([a-z_]+), ([a-z]+)\)$/.exec(query) ?? []
      expect(series.get(metric)?.has(label)).toBe(true)
    }
  })

  test("shows every metric that the relay has", () => {
    const all = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)).join(" ")
    const families = [...series.keys()].map((name) => name.replace(/_(bucket|sum|count)$/, ""))
    for (const family of new Set(families)) expect(all).toContain(family)
  })
})
