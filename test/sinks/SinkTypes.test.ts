import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"

const contracts = [...new Bun.Glob("**/*.contract.test.ts").scanSync(import.meta.dir)].map((file) =>
  readFileSync(`${import.meta.dir}/${file}`, "utf8"),
)

test("every type of sink is held to its contract", () => {
  const names = Object.keys(sinkTypes)
  expect(names.filter((name) => !contracts.some((text) => text.includes(`type: "${name}"`)))).toEqual([])
})

/** These write to this machine, or send by the HTTP sink. */
const others = new Set(["console", "file", "pagerduty", "slack", "teams", "discord", "alertmanager"])

test.each(["Targets.ts", "WrongPeers.ts"])("every sink of a service is in the campaign's %s", (file) => {
  const text = readFileSync(new URL(`../faults/cuts/${file}`, import.meta.url), "utf8")
  const services = Object.keys(sinkTypes).filter((name) => !others.has(name))
  expect(services.filter((name) => !new RegExp(`(name|type): ["\`]${name}\\b`).test(text))).toEqual([])
})
