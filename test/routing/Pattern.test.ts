/** Patterns compared with the definition of their syntax, and with a slow and simple oracle. */
import { describe, expect, test } from "bun:test"
import { eventTypes, relayEventTypes } from "../../src/event/EventType.ts"
import * as Pattern from "../../src/routing/Pattern.ts"
import { seeded } from "../lib/seeded.ts"
import { tries } from "../lib/tries.ts"
import { matches as oracle } from "./oracle.ts"

const matchedTypes = (source: string) => eventTypes.filter(Pattern.make(source).matches)

const matches = (pattern: string, type: string): boolean => Pattern.make(pattern).matches(type)

const cases: ReadonlyArray<readonly [pattern: string, yes: ReadonlyArray<string>, no: ReadonlyArray<string>]> = [
  ["client.created", ["client.created"], ["client.updated", "client", "client.created.x", "xclient.created"]],
  ["client.*", ["client.created", "client.deleted"], ["client", "client.a.b", "clients.created"]],
  ["*.created", ["client.created", "block.created"], ["appointment.meeting.created", "created"]],
  ["*", ["heartbeat"], ["client.created"]],
  ["**", ["heartbeat", "client.created", "appointment.meeting.created"], []],
  ["**.created", ["client.created", "appointment.meeting.created", "created"], ["client.updated"]],
  ["appointment.**", ["appointment", "appointment.created", "appointment.meeting.created"], ["appointments.created"]],
  ["appointment.**.created", ["appointment.created", "appointment.meeting.created"], ["appointment.created.x"]],
  [
    "appointment.meeting.*_failed",
    ["appointment.meeting.create_failed"],
    ["appointment.meeting.created", "appointment.create_failed"],
  ],
  ["{client,block}.created", ["client.created", "block.created"], ["service.created"]],
  ["client.{created,deleted}", ["client.created", "client.deleted"], ["client.updated"]],
  ["{client.created,block.*}", ["client.created", "block.updated"], ["client.updated"]],
  [
    "connected_account.re*",
    ["connected_account.refresh_failed", "connected_account.reconnected"],
    ["connected_account.created"],
  ],
]

describe("a pattern", () => {
  for (const [pattern, yes, no] of cases) {
    test(`${pattern} takes ${yes.join(", ")} and not ${no.join(", ") || "nothing"}`, () => {
      for (const type of yes) expect([type, matches(pattern, type)]).toEqual([type, true])
      for (const type of no) expect([type, matches(pattern, type)]).toEqual([type, false])
    })
  }

  test("distinguishes case", () => expect(matches("Client.*", "client.created")).toBe(false))

  test("takes a dot for a dot, never for any character", () => expect(matches("a.b", "axb")).toBe(false))

  test("matches a type that isn't a dotted name only if it matches everything", () => {
    for (const type of [".", ".x", "x.", "a..b", "a/b", "/", "..", "a./b"]) {
      expect([type, matches("**", type)]).toEqual([type, true])
      for (const pattern of ["*", "a.b", "a.*", "a.**", "**.b", "*.*", "**.**"]) {
        expect([pattern, type, matches(pattern, type)]).toEqual([pattern, type, false])
      }
    }
  })

  test("agrees with the oracle over random patterns and types", () => {
    const random = seeded(7)
    const pick = <A>(from: ReadonlyArray<A>): A => from[Math.floor(random() * from.length)] as A
    const segment = () => pick(["a", "b", "ab", "*", "a*", "*b", "a*b", "**", "{a,b}", "{ab,b*}", "*{a,b}"])
    const word = () => pick(["a", "b", "ab", "aab", "abb", "ba"])
    let taken = 0
    for (let round = 0; round < tries(20_000); round++) {
      const pattern = Array.from({ length: 1 + Math.floor(random() * 4) }, segment).join(".")
      const type = Array.from({ length: 1 + Math.floor(random() * 4) }, word).join(".")
      const expected = oracle(pattern, type)
      if (expected) taken += 1
      expect([pattern, type, matches(pattern, type)]).toEqual([pattern, type, expected])
    }
    expect(taken).toBeGreaterThan(tries(1_000))
  })
})

describe("the relay's own events", () => {
  test("are not matched by a pattern that begins with a wildcard", () => {
    for (const pattern of ["**", "*.*", "*.dead_letter", "**.dead_letter", "{relay,client}.*"]) {
      for (const type of relayEventTypes) expect([pattern, matches(pattern, type)]).toEqual([pattern, false])
    }
  })

  test("are matched by a pattern that names them", () => {
    for (const type of relayEventTypes) {
      expect(matches("relay.*", type)).toBe(true)
      expect(matches("relay.**", type)).toBe(true)
      expect(matches(type, type)).toBe(true)
    }
  })

  test("are all that such a pattern matches", () => {
    for (const type of eventTypes) expect(matches("relay.**", type)).toBe(false)
  })
})

describe("the text of a pattern is wrong", () => {
  const wrong: ReadonlyArray<readonly [string, RegExp]> = [
    ["", /empty/],
    ["client created", /letters/],
    ["client/created", /letters/],
    ["client.[ab]", /not a regular expression/],
    ["client.?", /not a regular expression/],
    ["!client.*", /"except"/],
    ["client.*,block.*", /several patterns/],
    [".created", /empty segment/],
    ["client..created", /empty segment/],
    ["client.", /empty segment/],
    ["client.**_failed", /alone/],
    ["a**", /alone/],
    ["{client,block.created", /`\{`/],
    ["client},block", /`\{`/],
    ["}client{", /`\{`/],
    ["client.{created}", /at least two/],
    ["client.{{created,updated}}", /at least two/],
    ["client.{}", /is empty/],
    ["client.{,updated}", /is empty/],
    ["client.{created,,updated}", /is empty/],
    ["client.{created,}", /is empty/],
    ["{client.,block.}created", /a dot at its end/],
    ["client{.created,.updated}", /a dot at its end/],
    ["client.{created,{updated}}", /at least two/],
    // A glob would take these braces literally, so the pattern would match nothing.
    ["{a,b}".repeat(14), /more than 1000 patterns/],
    [`${"{a,".repeat(65)}b${"}".repeat(65)}`, /16 deep/],
    [`a.${"b".repeat(1_000)}`, /1000 characters/],
    ["a".repeat(257), /can never match/],
    [`{client.created,${"a".repeat(257)}}`, /can never match/],
    ["{relay,client}.*", /begins with `relay\.`/],
    ["{client.created,relay.dead_letter}", /begins with `relay\.`/],
    ["client.*{*,x}", /alone/],
  ]
  for (const [pattern, why] of wrong) {
    test(`for ${pattern === "" ? "nothing at all" : pattern}`, () => expect(Pattern.problem(pattern)).toMatch(why))
  }

  test("not at the limits of braces", () => {
    const ten = "{a,b,c,d,e,f,g,h,i,j}"
    expect(Pattern.problem(`${ten}${ten}.${ten}`)).toBeUndefined()
    expect(matches(`${ten}${ten}.${ten}`, "aj.e")).toBe(true)
    const deep = `${"{a,".repeat(16)}b${"}".repeat(16)}`
    expect(Pattern.problem(deep)).toBeUndefined()
    expect(matches(deep, "b")).toBe(true)
    expect(Pattern.problem(`${"a".repeat(255)}.*`)).toBeUndefined()
  })

  test("not in any of the working patterns above", () => {
    for (const [pattern] of cases) expect([pattern, Pattern.problem(pattern)]).toEqual([pattern, undefined])
  })
})

test("a pattern lists the matching types of the catalogue", () => {
  expect(matchedTypes("block.*")).toEqual(["block.created", "block.updated", "block.deleted"])
  expect(matchedTypes("**")).toHaveLength(42)
  expect(matchedTypes("blok.*")).toEqual([])
})

test("a hostile pattern takes no longer than another", () => {
  const pattern = Pattern.make(`${"*a".repeat(200)}.b`)
  expect(pattern.matches(`${"a".repeat(5000)}.c`)).toBe(false)
})
