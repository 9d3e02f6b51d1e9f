/** The record of a run of random mutants, and its use by the next run. */
import { describe, expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "../lib/programs.ts"
import { drawn, mutated } from "./Again.ts"
import { explained } from "./Explained.ts"
import { parseLcov } from "./Reach.ts"
import { type Evidence, evidenceOf, isNoticed, knownOf, type Result } from "./Results.ts"

const mutant = (verdict: Result["verdict"], more: Partial<Result> = {}): Result => ({
  module: "event",
  file: "src/event/Numbers.ts",
  line: 3,
  column: 12,
  code: "return a < b",
  kind: "operator",
  was: "<",
  becomes: "<=",
  verdict,
  state: verdict,
  ...more,
})

describe("the results of random mutants", () => {
  const all = [
    mutant("killed", { by: "a test" }),
    mutant("stopped"),
    mutant("survived", { tests: "1" }),
    mutant("unreached", { module: "routing", tests: "2" }),
  ]

  test("count what was noticed by module, and what has no explanation", () => {
    const { scores, unexplained, command } = evidenceOf(7, all)
    expect(scores).toMatchObject({
      event: { mutants: 3, noticed: 2, explained: 0 },
      routing: { mutants: 1, noticed: 0, explained: 0 },
    })
    expect({ unexplained, command }).toEqual({ unexplained: 2, command: "bun run mutants --seed 7 --count 4" })
  })

  test("are taken over by the next run, but for a survivor whose tests have changed", () => {
    const before = evidenceOf(7, all)
    expect(knownOf(before, "killed", "other")).toMatchObject({ verdict: "killed" })
    expect(knownOf(before, "survived", "1")).toMatchObject({ verdict: "survived" })
    expect(knownOf(before, "survived", "other")).toBeUndefined()
    expect(knownOf(before, "another source", "1")).toBeUndefined()
    expect(knownOf(undefined, "killed", "1")).toBeUndefined()
  })
})

test("a report of coverage gives the executed lines of each source of src", () => {
  const report = "TN:\nSF:src/a/B.ts\nDA:1,1\nDA:2,0\nDA:14,30\nend_of_record\nSF:test/C.ts\nDA:1,1\nend_of_record\n"
  expect([...parseLcov(report)]).toEqual([["src/a/B.ts", [1, 14]]])
})

describe("a mutant is put into its source again", () => {
  const source = "const one = 1\n  return a < b\nconst two = 2\n"

  test("at its column, wherever its line is now", () => {
    expect(mutated(source, mutant("killed"))).toBe(source.replace("<", "<="))
    expect(mutated(`\n\n${source}`, mutant("killed"))).toBe(`\n\n${source.replace("<", "<=")}`)
  })

  test("not if the line is gone, is there twice, or has something else at the column", () => {
    expect(mutated("return a > b", mutant("killed"))).toBeUndefined()
    expect(mutated(source + source, mutant("killed"))).toBeUndefined()
    expect(mutated(source, mutant("killed", { column: 4 }))).toBeUndefined()
  })
})

test("each explained mutant has its line in the source", () => {
  for (const { file, code, was } of explained) {
    const lines = readFileSync(join(root, file), "utf8").split("\n")
    expect([file, code, lines.some((line) => line.trim() === code)]).toEqual([file, code, true])
    expect(code).toContain(was.split("\n")[0] ?? "")
  }
})

test("the evidence has a reason for each mutant that no test noticed", () => {
  const file = join(root, "docs/evidence/mutants.json")
  expect(existsSync(file)).toBe(true)
  const evidence: Evidence = JSON.parse(readFileSync(file, "utf8"))
  expect(evidence.mutants.length).toBeGreaterThanOrEqual(30)
  expect(evidence.mutants.filter((one) => !isNoticed(one) && one.why === undefined)).toEqual([])
})

test("the evidence has mutants enough for the draw of .ci/run; `bun run mutants` finds others", () => {
  const { mutants }: Evidence = JSON.parse(readFileSync(join(root, "docs/evidence/mutants.json"), "utf8"))
  expect(drawn(mutants, root, 1).length).toBeGreaterThanOrEqual(50)
  expect(drawn(mutants, root, 1)).not.toEqual(drawn(mutants, root, 2))
})
