/** Tests the verdicts of a run, with small suites of its own. */
import { describe, expect, test } from "bun:test"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import process from "node:process"
import { root } from "../lib/programs.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { isDefect } from "./Defects.ts"
import { Run, type Step } from "./Run.ts"
import { isGood, summary } from "./Summary.ts"

const directory = temporaryDirectory("ci-")

const passes = `test("passes", () => {})\n`
const fails = `test("fails", () => { expect("found").toBe("wanted") })\n`
/** Fails the first time that it runs. */
const unstable = (name: string) =>
  `test("${name}", () => {
    const isFirst = !existsSync(import.meta.path + "-${name}")
    writeFileSync(import.meta.path + "-${name}", "")
    if (isFirst) throw new Error("${name} failed the first time")
  })\n`
const hangs = `test("hangs", async () => { await new Promise(() => {}) })\n`

const files = (name: string, bodies: Readonly<Record<string, string>>): string => {
  const home = join(directory, name)
  for (const [file, body] of Object.entries(bodies)) {
    mkdirSync(dirname(join(home, file)), { recursive: true })
    const imports = `import { beforeAll, expect, test } from "bun:test"\nimport { existsSync, writeFileSync } from "node:fs"\n`
    writeFileSync(join(home, file), imports + body)
  }
  return home
}

const check = (script: string, kind: Step["kind"] = "check"): Step => ({
  name: script,
  command: ["sh", "-c", script],
  kind,
})

const suite = (...paths: ReadonlyArray<string>): Step => ({ name: `suite ${paths}`, command: paths, kind: "tests" })

const go = async (
  home: string,
  steps: { first?: ReadonlyArray<Step>; sideBySide?: ReadonlyArray<Step>; quiet?: ReadonlyArray<Step> },
  limit = 600_000,
) => {
  const printed: Array<string> = []
  const runner = [process.execPath, "test", "--timeout", "60000"]
  const run = new Run({ root: home, runner, limit, print: (text) => printed.push(text) })
  const result = await run.all({ first: [], sideBySide: [], quiet: [], ...steps })
  return { good: isGood(result), result, end: summary(result, 1), printed: printed.join("\n") }
}

describe("a run", () => {
  test("is good if all passes, and counts each test", async () => {
    const home = files("good", { "test/a.test.ts": passes, "test/b.test.ts": passes })
    const { good, end } = await go(home, { first: [check("true")], sideBySide: [suite("a.test"), suite("b.test")] })
    expect(good).toBe(true)
    expect(end.split("\n").at(-1)).toBe("3 passed, 0 failed, 0 unstable in 1 s: ok")
  })

  test("repeats a failed test alone, and lists it as unstable with its first failure", async () => {
    const home = files("unstable", { "test/a.test.ts": passes + unstable("one") + unstable("two") })
    const { good, end, printed } = await go(home, { sideBySide: [suite("a.test")] })
    expect(good).toBe(true)
    expect(end).toContain("suite a.test: test/a.test.ts: one")
    expect(end).toContain("error: one failed the first time")
    expect(end.split("\n").at(-1)).toBe("3 passed, 0 failed, 2 unstable in 1 s: ok")
    expect(printed.match(/2 filtered out/g)).toHaveLength(2)
  })

  test("has failed if more than two are unstable", async () => {
    const home = files("three", { "test/a.test.ts": unstable("one") + unstable("two") + unstable("three") })
    const { good, end } = await go(home, { sideBySide: [suite("a.test")] })
    expect(good).toBe(false)
    expect(end.split("\n").at(-1)).toBe("3 passed, 0 failed, 3 unstable, more than 2 in 1 s: FAILED")
  })

  test("has failed if a test fails again, or a check", async () => {
    const home = files("failed", { "test/a.test.ts": passes + fails })
    const { good, end } = await go(home, { sideBySide: [suite("a.test"), check("exit 3")] })
    expect(good).toBe(false)
    expect(end).toContain("suite a.test: test/a.test.ts: fails")
    expect(end).toContain(`Expected: "wanted"`)
    expect(end).toMatch(/1 passed, 2 failed, 0 unstable in 1 s: FAILED$/)
  })

  test("tries a file again whose hook failed, as one", async () => {
    const hook = `beforeAll(() => {
      const isFirst = !existsSync(import.meta.path + "-hook")
      writeFileSync(import.meta.path + "-hook", "")
      if (isFirst) throw new Error("no broker")
    })\n`
    const home = files("hook", { "test/a.test.ts": hook + passes, "test/b.test.ts": passes })
    const { result, end } = await go(home, { sideBySide: [suite("a.test", "b.test")] })
    expect(result.unstable.map(({ file, test }) => [file, test])).toEqual([["test/a.test.ts", undefined]])
    expect(end).toContain("error: no broker")
  })

  test("ends with the first defect: running tests are killed, later ones are left out, and none is repeated", async () => {
    const home = files("defect", {
      "test/faults/a.test.ts": unstable("loses") + hangs,
      "test/b.test.ts": `writeFileSync(import.meta.path + "-pid", String(process.pid))\n${hangs}`,
    })
    const { good, result, end } = await go(home, {
      sideBySide: [suite("b.test"), check("sleep 1"), suite("faults/a.test")],
      quiet: [check("touch quiet")],
    })
    expect(good).toBe(false)
    expect(result.stopped).toBe("a defect: test/faults/a.test.ts: loses")
    expect(result.failed.map(({ test }) => test)).toEqual(["loses"])
    expect(result.unstable).toEqual([])
    expect(result.ended.map(({ step }) => step.name)).not.toContain("touch quiet")
    expect(end).toContain("error: loses failed the first time")
    const pid = Number(readFileSync(join(home, "test/b.test.ts-pid"), "utf8"))
    expect(() => process.kill(pid, 0)).toThrow()
  })

  test("ends with a check that shows defects, and never tries it again", async () => {
    const home = files("campaign", {})
    mkdirSync(home, { recursive: true })
    const { result, end } = await go(home, {
      quiet: [check("echo >>tries; echo 3 lost; exit 1", "defects"), check("true")],
    })
    expect(result.ended).toHaveLength(1)
    expect(readFileSync(join(home, "tries"), "utf8")).toBe("\n")
    expect(end).toContain("  3 lost")
  })

  test("ends at its limit, and names the tests that were still running", async () => {
    const home = files("late", { "test/a.test.ts": hangs })
    const { good, result } = await go(home, { sideBySide: [suite("a.test")] }, 1_000)
    expect(good).toBe(false)
    expect(result.stopped).toEndWith("still running: suite a.test")
  })

  test("has failed if a runner crashed, tested nothing, or can't start", async () => {
    const home = files("broken", { "test/a.test.ts": `${passes}test("crashes", () => process.exit(0))\n` })
    for (const path of ["a.test", "nothing.test"]) {
      const { good, result } = await go(home, { sideBySide: [suite(path)] })
      expect([good, result.failed.length, result.unstable.length]).toEqual([false, 1, 0])
    }
  })

  test("runs nothing else if a required step fails", async () => {
    const home = files("first", { "test/a.test.ts": passes })
    const { result } = await go(home, { first: [check("false")], sideBySide: [suite("a.test")] })
    expect(result.ended.map(({ step }) => step.name)).toEqual(["false"])
    expect(result.stopped).toStartWith("false failed")
  })
})

test("a failure in the campaign's tests or in a contract is a defect", () => {
  const defects = ["test/faults/simulation/Simulation.test.ts", "test/sinks/kafka/KafkaFaults.test.ts"]
  const contracts = ["test/sinks/http/Http.contract.test.ts", "test/journal/sqlite/SqliteJournal.test.ts"]
  expect([...defects, ...contracts].filter((file) => !isDefect(root, file))).toEqual([])
  const others = ["test/page/Actions.test.ts", "test/sinks/aws/AwsMessage.test.ts", "test/docs/links.test.ts"]
  expect(others.filter((file) => isDefect(root, file))).toEqual([])
})
