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
