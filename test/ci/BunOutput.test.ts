/** Tests how `.ci/run` reads the output of bun 1.4.5. */
import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { alone, BunOutput } from "./BunOutput.ts"

const recorded = readFileSync(join(import.meta.dir, "recorded.txt"), "utf8").split("\n")

const readAll = (lines: ReadonlyArray<string>) => {
  const tests: Array<string> = []
  const output = new BunOutput((file, test) => tests.push(`${file}: ${test}`))
  for (const line of lines) output.read(line)
  const failures = new Map(output.failures.map(({ file, test, said }) => [`${file}: ${test ?? "(all)"}`, said]))
  return { tests, output, failures }
}

describe("the output of bun test", () => {
  const { tests, output, failures } = readAll(recorded)

  test("names each failed test once, and the tests that skipped themselves", () => {
    expect(tests).toEqual([
      "test/hooks.test.ts: counts",
      "test/shared.test.ts: hangs",
      "test/shared.test.ts: needs the server",
      "test/plain.test.ts: a suite > says (once) what it > found",
      "test/plain.test.ts: a suite > hangs",
    ])
    expect([output.passed, output.failed, output.isWhole]).toEqual([21, 7, true])
    expect(output.skipped).toEqual(["skipped: the broker: no Java"])
  })

  test("has a failure for each test, and one for a file whose hook, module or servers failed", () => {
    expect([...failures.keys()]).toEqual([
      "test/hooks.test.ts: (all)",
      "test/shared.test.ts: (all)",
      "test/plain.test.ts: a suite > says (once) what it > found",
      "test/plain.test.ts: a suite > hangs",
      "test/between.test.ts: (all)",
    ])
  })

  test("gives each failure its own error and its own output", () => {
    const said = (name: string) => failures.get(name) ?? ""
    const found = said("test/plain.test.ts: a suite > says (once) what it > found")
    expect(found).toStartWith("said before it fails")
    expect(found).toContain("Expected: 2")
    expect(found).not.toMatch(/^said by the one that passes/m)
    expect(said("test/plain.test.ts: a suite > hangs")).toMatch(
      /^\(fail\) .*\n {2}\^ this test timed out after 100ms\.$/,
    )
    expect(said("test/hooks.test.ts: (all)")).toContain("error: no broker")
    expect(said("test/hooks.test.ts: (all)")).toContain("(fail) counts")
    expect(said("test/between.test.ts: (all)")).toContain("error: in no test")
  })

  test("without its last line is of a runner that crashed", () => {
    expect(readAll(recorded.slice(0, 30)).output.isWhole).toBe(false)
  })
})

test("a failure is run again by its file, and by its name as the runner compares it", () => {
  const [path, flag, pattern = ""] = alone({
    file: "test/a.test.ts",
    test: "a suite > says (once) what it > found",
    said: "",
  })
  expect([path, flag]).toEqual(["./test/a.test.ts", "-t"])
  expect("a suite says (once) what it > found").toMatch(new RegExp(pattern))
  expect("a suite says (once) what it > found later").not.toMatch(new RegExp(pattern))
  expect(alone({ file: "test/a.test.ts", said: "" })).toEqual(["./test/a.test.ts"])
})
