import { describe, expect, test } from "bun:test"
import { diff } from "../../../src/cli/support/goldenFiles.ts"
import { seeded } from "../../lib/seeded.ts"
import { tries } from "../../lib/tries.ts"

const text = (lines: ReadonlyArray<string>) => lines.join("\n")
const one = ["{", '  "a": 1,', '  "b": 2,', '  "c": 3,', '  "d": 4,', '  "e": 5', "}"]

describe("a diff", () => {
  test("of the same text is empty", () => {
    expect(diff(text(one), text(one))).toEqual([])
  })

  test("shows removed and added lines, and two lines around them", () => {
    const other = one.with(3, '  "c": 30,')
    expect(diff(text(one), text(other))).toEqual([
      '    "a": 1,',
      '    "b": 2,',
      '-   "c": 3,',
      '+   "c": 30,',
      '    "d": 4,',
      '    "e": 5',
      "  …",
    ])
  })

  test("shows the whole text if the file doesn't exist yet", () => {
    expect(diff("", "{\n}")).toEqual(["- ", "+ {", "+ }"])
  })

  test("names each line once, and applied to the one text gives the other", () => {
    const random = seeded(5)
    const lines = () => Array.from({ length: Math.floor(random() * 12) }, () => "abc"[Math.floor(random() * 3)] ?? "")
    for (let round = 0; round < tries(1_000); round++) {
      const [a, b] = [lines(), lines()]
      const found = diff(text(a), text(b))
      const changes = (sign: string) => found.filter((line) => line.startsWith(sign)).map((line) => line.slice(2))
      const count = (all: ReadonlyArray<string>, letter: string) => all.filter((line) => line === letter).length
      for (const letter of ["a", "b", "c"]) {
        expect(count(a, letter) - count(changes("-"), letter)).toBe(count(b, letter) - count(changes("+"), letter))
      }
      expect(found.length === 0).toBe(text(a) === text(b))
    }
  })

  test("of long texts without common lines is made without comparing every pair", () => {
    const long = (word: string) => text(Array.from({ length: 5_000 }, (_, n) => `${word} ${n}`))
    expect(diff(long("a"), long("b"))).toHaveLength(10_000)
  })
})
