import { describe, expect, test } from "bun:test"
import * as Numbers from "../../src/event/Numbers.ts"
import { make } from "../faults/senders/fuzz/Random.ts"
import { decimal, sameNumber } from "../formats/jmespath/random.ts"

describe("numbers of JSON", () => {
  test("are parsed and written as the same numbers, however long", () => {
    const kept = { double: 0, digits: 0 }
    for (let round = 0; round < 5_000; round++) {
      const number = decimal(make(round))
      const parsed = Numbers.parse(`[${number}]`)
      const [written = ""] = /[^[\]]+/.exec(JSON.stringify(parsed)) ?? []
      expect([number, sameNumber(written, number)]).toEqual([number, true])
      kept[Array.isArray(parsed) && typeof parsed[0] === "number" ? "double" : "digits"]++
    }
    expect(kept.double).toBeGreaterThan(500)
    expect(kept.digits).toBeGreaterThan(500)
  })

  test("of up to fifteen digits are doubles, which can be calculated with", () => {
    for (const text of ["0", "-1", "19.90", "1.0", "0.1", "123456789.012345", "1e5", "9007199254740991"]) {
      expect(Numbers.parse(text)).toBe(Number(text))
    }
  })
})
