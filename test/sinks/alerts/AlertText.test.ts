import { describe, expect, test } from "bun:test"
import { arrange, clean, fit } from "../../../src/sinks/alerts/Alert.ts"
import { seeded } from "../../lib/seeded.ts"
import { tries } from "../../lib/tries.ts"
import { hostile, hostiles, huge } from "./hostile.ts"

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" })
const characters = (text: string): ReadonlyArray<string> => Array.from(graphemes.segment(text), (_) => _.segment)

const doubled = (text: string) => text.replaceAll("<", "&lt;")

describe("a text", () => {
  test("that fits is unchanged, except for characters that control a terminal or a reader", () => {
    expect(fit("A meeting could not be created", 1024)).toBe("A meeting could not be created")
    expect(fit("a\r\nb\0c\u202ed\x1b[2J", 1024)).toBe("a b c d [2J")
    expect(fit("  a   b ", 1024)).toBe("a b")
    expect(fit("", 10)).toBe("")
  })

  test("is well-formed, on one line, and within its limit in UTF-16 code units, for any input", () => {
    const random = seeded(7)
    for (const text of [...hostiles(tries(2_000)), ...huge]) {
      const limit = 2 + Math.floor(random() * 200)
      const cut = fit(text, limit, doubled)
      expect(cut.length).toBeLessThanOrEqual(limit)
      expect(cut.isWellFormed()).toBe(true)
      expect(cut).not.toMatch(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u)
    }
  })

  test("is cut between characters as people see them, and ends in an ellipsis", () => {
    const random = seeded(8)
    for (const text of hostiles(tries(1_000))) {
      const limit = 120 + Math.floor(random() * 200)
      const whole = clean(text)
      // `fit` doesn't read far enough to find text behind many blanks.
      if (whole.length <= limit && text.length > limit) continue
      const cut = fit(text, limit)
      if (whole.length <= limit) {
        expect(cut).toBe(whole)
        continue
      }
      expect(cut).toEndWith("…")
      let length = 0
      const ends = new Set(characters(whole).map((character) => (length += character.length)))
      expect(ends.has(cut.length - 1)).toBe(true)
      expect(whole.startsWith(cut.slice(0, -1))).toBe(true)
    }
  })

  test("keeps a family together, or leaves it out", () => {
    expect(fit("ab👨‍👩‍👧‍👦cd", 13)).toBe("ab…")
    expect(fit("ab👨‍👩‍👧‍👦cd", 14)).toBe("ab👨‍👩‍👧‍👦…")
    expect(fit("ab👨‍👩‍👧‍👦c", 14)).toBe("ab👨‍👩‍👧‍👦c")
  })

  test("shows no half of a character at the end of the part that is read", () => {
    for (let blanks = 250; blanks < 280; blanks++) {
      expect(fit(`a${" ".repeat(blanks)}👨‍👩‍👧‍👦😀`, 10)).toMatch(/^a( …|…| 👨‍👩‍👧‍👦….*)?$|^a…$/u)
    }
  })

  test("with one character larger than the limit is cut between that character's marks", () => {
    expect(fit(`z${"\u0300".repeat(500)}`, 10)).toBe(`z${"\u0300".repeat(8)}…`)
  })

  test("never ends in half an escape", () => {
    for (let limit = 2; limit < 30; limit++) expect(fit("a<<<<<<<<", limit, doubled)).toMatch(/^a(&lt;)*…?$/)
  })
})

describe("facts", () => {
  const room = { facts: 5, name: 10, value: 20, total: 120 }

  test("that fit are all shown", () => {
    const facts = [1, 2, 3, 4, 5].map((n) => ({ name: `n${n}`, value: `v${n}` }))
    expect(arrange(facts, room)).toEqual(facts)
  })

  test("that don't fit are counted at the end", () => {
    const facts = Array.from({ length: 9 }, (_, n) => ({ name: `n${n}`, value: `v${n}` }))
    expect(arrange(facts, room)).toEqual([...facts.slice(0, 4), { name: "…", value: "5 more" }])
  })

  test("are within the number, the lengths and the total, for any input, and none is empty", () => {
    const random = seeded(9)
    for (let round = 0; round < tries(500); round++) {
      const facts = Array.from({ length: Math.floor(random() * 12) }, () => ({
        name: hostile(random),
        value: hostile(random),
      }))
      const arranged = arrange(facts, room, doubled)
      expect(arranged.length).toBeLessThanOrEqual(room.facts)
      expect(arranged.every(({ name, value }) => name.length <= room.name && value.length <= room.value)).toBe(true)
      expect(arranged.every(({ name, value }) => name.trim() !== "" && value.trim() !== "")).toBe(true)
      expect(arranged.reduce((sum, { name, value }) => sum + name.length + value.length, 0)).toBeLessThanOrEqual(
        room.total,
      )
      expect(arranged.length === 0).toBe(facts.length === 0)
    }
  })
})
