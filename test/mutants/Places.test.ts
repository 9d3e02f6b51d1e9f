/** Which changes the random mutants make of a source. */
import { afterAll, expect, test } from "bun:test"
import { symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "../lib/programs.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { compilerOf, placesOf } from "./Places.ts"

const text = `export const limit: 3 | true = 3
/** 1 === 2 */
export const isFull = (count: number, open: boolean): boolean => {
  if (!open && count >= 10) return true
  for (const one of [0]) console.log("a === b", one - 1)
  return open ? count === limit : false
}
`

const project = temporaryDirectory("places-")
writeFileSync(join(project, "Small.ts"), text)
writeFileSync(
  join(project, "tsconfig.json"),
  JSON.stringify({ compilerOptions: { strict: true, noEmit: true, types: [], lib: ["ESNext", "DOM"] } }),
)
symlinkSync(join(root, "node_modules"), join(project, "node_modules"))
const compiler = await compilerOf(project)
afterAll(() => compiler.close())

test("a source has its operators, constants, conditions and statements as places, and nothing of its types", async () => {
  const places = placesOf(await compiler.source("Small.ts"))
  expect(places.map(({ kind, start, end, becomes }) => [kind, text.slice(start, end), becomes])).toEqual([
    ["constant", "3", "(3 + 1)"],
    ["condition", "!open", "open"],
    ["condition", "!open && count >= 10", "!(!open && count >= 10)"],
    ["operator", "&&", "||"],
    ["operator", ">=", ">"],
    ["constant", "10", "(10 + 1)"],
    ["constant", "true", "false"],
    ["constant", "0", "1"],
    ["statement", 'console.log("a === b", one - 1)', ";"],
    ["operator", "-", "+"],
    ["constant", "1", "(1 + 1)"],
    ["condition", "open", "!(open)"],
    ["operator", "===", "!=="],
    ["constant", "false", "true"],
  ])
})

test("a change that doesn't compile has an error, and the next one is checked without it", async () => {
  const [first] = placesOf(await compiler.source("Small.ts"))
  expect(first).toBeDefined()
  expect(await compiler.error("Small.ts", text.replace("= 3", "= 4"))).toContain("not assignable")
  expect(await compiler.error("Small.ts", text.replace("= 3", "= (("))).toContain("expected")
  expect(await compiler.error("Small.ts", text.replace("&&", "||"))).toBeUndefined()
})
