import { describe, expect, test } from "bun:test"
import { Duration, Option, Result, Schema } from "effect"
import { format } from "../../../src/config/Address.ts"
import { parseAddress, Units } from "../../../src/config/schema/Units.ts"
import { seeded } from "../../lib/seeded.ts"

const random = seeded(20_261_121)
const int = (from: number, to: number): number => from + Math.floor(random() * (to - from + 1))
const pick = <const C extends readonly [unknown, ...ReadonlyArray<unknown>]>(choice: C): C[number] =>
  choice[int(0, choice.length - 1)] ?? choice[0]
const repeat = (test: () => void): void => {
  for (let count = 0; count < 200; count++) test()
}

const doc = { description: "" }
const duration = Units.duration.required(doc)
const size = Units.bytes.required(doc)

const decode = <A>(schema: Schema.ConstraintDecoder<A>, text: unknown): A | undefined =>
  Option.getOrUndefined(Schema.decodeUnknownOption(schema)(text))

const units = [
  ["millis", 1],
  ["seconds", 1_000],
  ["minutes", 60_000],
  ["hours", 3_600_000],
  ["days", 86_400_000],
  ["weeks", 604_800_000],
] as const
const factors = [
  ["B", 1],
  ["kB", 1e3],
  ["MB", 1e6],
  ["GB", 1e9],
  ["KiB", 1024],
  ["MiB", 1024 ** 2],
  ["GiB", 1024 ** 3],
] as const

describe("words", () => {
  test("a duration is its number of its unit", () => {
    repeat(() => {
      const [unit, millis] = pick(units)
      const count = int(1, 5_000)
      const decoded = decode(duration, `${count} ${unit}`)
      expect(decoded === undefined ? undefined : Duration.toMillis(decoded)).toBe(count * millis)
    })
  })

  test("a duration is a whole number of milliseconds", () => {
    for (const text of ["1.5 millis", "1.0001 seconds", "1.23456789 hours"]) {
      expect(Number.isInteger(Duration.toMillis(decode(duration, text) ?? Duration.zero))).toBe(true)
    }
  })

  test("a size is its number of its unit", () => {
    repeat(() => {
      const [unit, factor] = pick(factors)
      const count = int(1, 10_000)
      expect(decode(size, `${count} ${unit}`)).toBe(count * factor)
      expect(decode(size, `${count}${unit}`)).toBe(count * factor)
    })
  })

  test("an address is read as it is written", () => {
    repeat(() => {
      const host = pick(["127.0.0.1", "0.0.0.0", "localhost", "relay.example.com", "::1", "::", "fe80::1"])
      const address = { host, port: int(0, 65_535) }
      expect(parseAddress(format(address))).toEqual(address)
    })
  })

  test("decode to the encoded value", () => {
    for (const text of ["500 millis", "30 seconds", "7 days"]) {
      const value = Schema.decodeUnknownSync(duration)(text)
      expect(Schema.decodeUnknownSync(duration)(Schema.encodeSync(duration)(value))).toEqual(value)
    }
    const bytes = Schema.decodeUnknownSync(size)("10 GiB")
    expect(Schema.decodeUnknownSync(size)(Schema.encodeSync(size)(bytes))).toBe(bytes)
  })

  test("hours are minutes after midnight, and may end on the next day or at 24:00", () => {
    for (const [text, from, to] of [
      ["08:00-18:30", 480, 1_110],
      ["22:00-06:00", 1_320, 360],
      ["00:00-24:00", 0, 1_440],
    ] as const) {
      expect(decode(Units.hours(doc), text)).toEqual({ from, to })
      expect(Schema.encodeSync(Units.hours(doc))({ from, to })).toBe(text)
    }
    for (const text of [
      "",
      "8:00-18:00",
      "08:00 - 18:00",
      "24:00-06:00",
      "08:00-24:01",
      "08:60-18:00",
      "08:00-08:00",
    ]) {
      expect(decode(Units.hours(doc), text)).toBeUndefined()
    }
    for (const text of ["UTC", "Europe/Berlin"]) expect(decode(Units.timeZone(doc), text)).toBe(text)
    for (const text of ["", "Berlin", "+01:00", "Europe/Berlin "])
      expect(decode(Units.timeZone(doc), text)).toBeUndefined()
  })

  test("are refused if they aren't valid", () => {
    for (const text of [
      "",
      "7",
      "7d",
      "-1 seconds",
      "0 seconds",
      "Infinity",
      "1 nanos",
      "1  fortnight",
      "36501 days",
      7,
    ]) {
      expect(decode(duration, text)).toBeUndefined()
    }
    for (const text of ["", "7", "0 B", "-1 MiB", "1.5 B", "1 MIB", "10000000000 GiB", 7]) {
      expect(decode(size, text)).toBeUndefined()
    }
    for (const text of ["", "8080", ":8080", "localhost", "localhost:", "::1:80", "a b:80", "http://a:80", "a:99999"]) {
      expect(parseAddress(text)).toBeUndefined()
    }
    for (const text of ["", "100", "0/second", "1.5/second", "100/fortnight", "100 / second"]) {
      expect(decode(Units.rate(doc), text)).toBeUndefined()
    }
    for (const text of ["", "2026-12-01", "2026-12-01T00:00:00", "2026-13-01T00:00:00Z", "1 December 2026"]) {
      expect(decode(Units.time(doc), text)).toBeUndefined()
    }
  })

  test("a wait may be zero, and is at most an hour", () => {
    const wait = Units.wait.required(doc)
    expect(["0 seconds", "5 seconds", "1 hour"].map((text) => decode(wait, text))).toEqual(
      [0, 5, 3_600].map((seconds) => Duration.seconds(seconds)),
    )
    for (const text of ["-1 seconds", "61 minutes", "0", "Infinity"]) expect(decode(wait, text)).toBeUndefined()
  })

  test("a word with a usual short form is answered with the long one", () => {
    const said = (schema: Schema.ConstraintDecoder<unknown>, text: string) => {
      const decoded = Schema.decodeUnknownResult(schema)(text)
      return Result.isFailure(decoded) ? decoded.failure.message : ""
    }
    expect(said(duration, "30s")).toContain('did you mean "30 seconds"?')
    expect(said(duration, "1 min")).toContain('did you mean "1 minutes"?')
    expect(said(size, "10 gb")).toContain('did you mean "10 GiB"?')
    expect(said(size, "10M")).toContain('did you mean "10 MiB"?')
  })
})
