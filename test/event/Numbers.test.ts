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

  test("have one text for each value, in the form of a double, and are ordered by value", () => {
    const read = (text: string) => Numbers.of(text)
    /** The value times ten to the power of 900. */
    const scaled = (text: string): bigint => {
      const [, sign, whole = "", fraction = "", power = "0"] =
        /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? []
      return BigInt(`${sign}${whole}${fraction}`) * 10n ** BigInt(900 + Number(power) - fraction.length)
    }
    for (let round = 0; round < 2_000; round++) {
      const random = make(round)
      const number = decimal(random)
      const near = random.chance(0.5)
        ? decimal(random)
        : `${number.replace(/[eE].*/, "")}${random.pick(["", "e0", "e1"])}`
      const [one, other] = [scaled(number), scaled(near)]
      const order = one < other ? -1 : one > other ? 1 : 0
      expect([number, near, Math.sign(Numbers.compare(read(number), read(near))) + 0]).toEqual([number, near, order])
      const [text = "", same] = [Numbers.textOf(read(number)), Numbers.textOf(read(near))]
      expect([number, near, text === same]).toEqual([number, near, order === 0])
      expect([number, scaled(text)]).toEqual([number, one])
      if (String(Number(text)) === text) expect(Numbers.simplest(read(number)) === Number(text)).toBe(true)
    }
    expect(Numbers.textOf(Numbers.of("1e99999999999999999999"))).toBe("1e99999999999999999999")
    expect(Numbers.textOf("5")).toBeUndefined()
  })

  test("of up to fifteen digits are doubles, which can be calculated with", () => {
    for (const text of ["0", "-1", "19.90", "1.0", "0.1", "123456789.012345", "1e5", "9007199254740991"]) {
      expect(Numbers.parse(text)).toBe(Number(text))
    }
  })
})
