import { expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { resolve } from "node:path"
import { lines, mutants } from "./Lines.ts"
import { isTests } from "./Mutants.ts"

const root = resolve(import.meta.dir, "../..")

test("each guard that a mutant removes stands in its file once, and its line or its tests exist", () => {
  const names = lines.map(({ name }) => name)
  for (const { file, find, gone, line } of mutants) {
    const times = readFileSync(resolve(root, file), "utf8").split(find).length - 1
    const isThere = isTests(line) ? existsSync(resolve(root, line)) : names.includes(line)
    expect([gone, times, isThere]).toEqual([gone, 1, true])
  }
})
