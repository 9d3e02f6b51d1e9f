import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { resolve } from "node:path"
import { lines, mutants } from "./Lines.ts"

const root = resolve(import.meta.dir, "../..")

test("each guard that a mutant removes stands in its file once, and its line is one of the campaign", () => {
  const names = lines.map(({ name }) => name)
  for (const { file, find, gone, line } of mutants) {
    const times = readFileSync(resolve(root, file), "utf8").split(find).length - 1
    expect([gone, times, names.includes(line)]).toEqual([gone, 1, true])
  }
})
