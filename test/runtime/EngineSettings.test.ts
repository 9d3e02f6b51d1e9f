import { expect, test } from "bun:test"
import { missing } from "../../src/runtime/EngineSettings.ts"

const names = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
  missing(args, env).map((setting) => setting.split("=")[0])

test("run is started again with the settings of the engine that are not there, and no other command is", () => {
  const all = names(["run", "-c", "relay.config.json"])
  expect(all).toContain("BUN_JSC_forceRAMSize")
  expect(names(["-c", "relay.config.json", "run"])).toEqual(all)
  for (const args of [[], ["--help"], ["status"], ["runbook", "RETRYING"]]) expect(names(args)).toEqual([])
})

test("what is set stays, so that it is started again once", () => {
  const all = names(["run"])
  expect(names(["run"], { BUN_JSC_forceRAMSize: "0" })).toEqual(all.filter((name) => name !== "BUN_JSC_forceRAMSize"))
  expect(names(["run"], Object.fromEntries(all.map((name) => [name, ""])))).toEqual([])
})
