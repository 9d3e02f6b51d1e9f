/** The messages to mistakes. People review them in `mistakes.md`, and this test keeps that page up to date. */
import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { parse } from "../../../src/config/diagnostics/Source.ts"
import { canary } from "../../cli/configs.ts"
import { sample, tries } from "../../lib/tries.ts"
import { golden, makeAll, markdown } from "./table.ts"

const all = await makeAll((mistakes) => sample(mistakes))
const told = all.flatMap(([, told]) => told)
const isWhole = tries(5) === 5

/** The mistakes of a table, by their headings. */
const rows = (table: string): ReadonlyArray<string> => table.split(/^(?=#)/m).filter((block) => block.startsWith("###"))

describe("what is said to mistakes", () => {
  test("is in mistakes.md; if it is better now, update the page: bun test/config/mistakes/table.ts", () => {
    const [shown, made] = [readFileSync(golden, "utf8"), markdown(all)]
    const written = new Set(rows(`${shown}\n`))
    expect(rows(`${made}\n`).filter((row) => !written.has(row))).toEqual([])
    if (isWhole) expect(shown).toBe(made)
  })

  test("points at the mistake if it is in the config", () => {
    const placed = told.filter(({ mistake }) => mistake.config?.includes("§") === true)
    expect(placed.length).toBeGreaterThan(tries(200))
    const places = placed.map(({ mistake: { name, config = "" }, text }) => {
      const before = config.slice(0, config.indexOf("§"))
      const [, line, column] = /^relay\.config\.json:(\d+):(\d+): /m.exec(text) ?? []
      const expected = [before.split("\n").length, before.length - before.lastIndexOf("\n")]
      return { name, expected, found: [Number(line), Number(column)] }
    })
    expect(places.filter(({ expected, found }) => expected.join() !== found.join())).toEqual([])
  })

  test("shows no secret and no stack trace", () => {
    for (const { mistake, text } of told) {
      expect([mistake.name, text.includes(canary)]).toEqual([mistake.name, false])
      expect([mistake.name, /\n\s+at \S+[:(]|internal error/.test(text)]).toEqual([mistake.name, false])
    }
  })

  test("ends with the exit code of a wrong config, and with 0 if there are only warnings", () => {
    const codes = told.filter(({ mistake, code, text }) => {
      if (mistake.command !== undefined) return false
      return code !== (/: error( |:)/.test(text) ? 78 : 0)
    })
    expect(codes.map(({ mistake, code }) => [mistake.name, code])).toEqual([])
  })

  test("covers 150 mistakes or more, each with its own name", () => {
    const names = all.flatMap(([title, told]) => told.map(({ mistake }) => `${title}: ${mistake.name}`))
    expect(new Set(names).size).toBe(names.length)
    expect(names.length).toBeGreaterThan(tries(150))
  })
})

test("a missing quote is one mistake, reported on its line, wherever it is missing", () => {
  const text = readFileSync(new URL("../../../relay.config.json", import.meta.url), "utf8").replaceAll(
    /^ *\/\/.*$/gm,
    "",
  )
  const quotes = [...text.matchAll(/"/g)].map(({ index }) => index)
  expect(quotes.length).toBeGreaterThan(100)
  const wrong = quotes.flatMap((at) => {
    const { problems } = parse("relay.config.json", text.slice(0, at) + text.slice(at + 1), () => false)
    const line = text.slice(0, at).split("\n").length
    return problems.length === 1 && problems[0]?.line === line ? [] : [{ line, problems }]
  })
  expect(wrong).toEqual([])
})
