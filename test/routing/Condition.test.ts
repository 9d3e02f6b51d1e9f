import { describe, expect, test } from "bun:test"
import * as Condition from "../../src/routing/Condition.ts"
import { seeded } from "../lib/seeded.ts"
import { tries } from "../lib/tries.ts"
import { holds, randomCondition } from "./oracle.ts"

const values = [
  undefined,
  null,
  true,
  false,
  0,
  1,
  2,
  "",
  "1",
  "10",
  "100",
  "x",
  "xyz",
  "01",
  "a x",
  {},
  [],
  ["1"],
  { n: 1 },
]

describe("a condition", () => {
  test("agrees with a naive implementation, and its witnesses decide it", () => {
    const random = seeded(23)
    for (let round = 0; round < tries(3_000); round++) {
      const condition = randomCondition(random)
      const made = Condition.make(condition)
      const said = values.map((value) => made(value))
      expect([condition, said]).toEqual([condition, values.map((value) => holds(condition, value))])
      const witnessed = new Set(Condition.witnesses(condition).map(made))
      for (const one of said) expect([condition, witnessed.has(one)]).toEqual([condition, true])
    }
  })

  test("is described in words, with long lists and texts cut", () => {
    const said = (condition: Condition.Condition) => Condition.describe(condition)
    expect(said(["a"])).toBe('is "a"')
    expect(said(["a", 1, null])).toBe('is one of "a", 1, null')
    expect(said({ prefix: ["EU-"], not: ["EU-1"] })).toBe('begins with "EU-" and is not "EU-1"')
    expect(said({ exists: true, not: { prefix: ["a", "b"], oneOf: [1, 2] } })).toBe(
      'exists and is none of 1, 2 and does not begin with one of "a", "b"',
    )
    expect([said({ exists: false }), said({ not: { exists: true } }), said({ not: { exists: false } })]).toEqual([
      "does not exist",
      "does not exist",
      "exists",
    ])
    expect(said([1, 2, 3, 4, 5, 6, 7])).toBe("is one of 1, 2, 3, 4, 5, 2 more")
    expect(said(["x".repeat(99)])).toHaveLength(64)
    // The texts have 60 and 61 characters with their quotes.
    expect(said(["x".repeat(58)])).toBe(`is "${"x".repeat(58)}"`)
    expect(said(["x".repeat(59)])).toBe(`is "${"x".repeat(59)}…`)
  })
})
