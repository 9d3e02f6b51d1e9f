import { expect, test } from "bun:test"
import { get, parsePointer } from "../../../src/event/Pointer.ts"
import { hashOf } from "../../../src/journal/stream/Record.ts"
import { mentions, SearchIds } from "../../../src/journal/stream/SearchIds.ts"
import { seeded } from "../../lib/seeded.ts"
import { tries } from "../../lib/tries.ts"

const bytes = (text: string): Buffer => Buffer.from(text)

const usual = new SearchIds(["/data/object/id", "/data/object/client_id"])
const body = (object: unknown): Buffer => bytes(JSON.stringify({ id: "evt_1", data: { type: "a.b", object } }))

test("An id is found at each pointer, and at no other place", () => {
  const found = body({ id: "app_1", client_id: "cli_1", other: { id: "x" }, clients: [{ id: "y" }], name: "cli_2" })
  for (const id of ["app_1", "cli_1"]) expect([id, usual.has(found, id)]).toEqual([id, true])
  for (const id of ["evt_1", "x", "y", "cli_2", "app", "a.b", ""])
    expect([id, usual.has(found, id)]).toEqual([id, false])
  expect(usual.hashes(found)).toEqual([hashOf("app_1"), hashOf("cli_1")])
})

test("An id is a text or a whole number", () => {
  for (const [id, text] of [
    ["42", "42"],
    ["-7", " -7 "],
    ["123456789012345678901", "123456789012345678901"],
    ["1.5", '"1.5"'],
  ] as const) {
    expect([id, usual.has(bytes(`{"data":{"object":{"id":${text}}}}`), id)]).toEqual([id, true])
  }
  for (const value of [1.5, null, true, ["42"], { id: "42" }]) {
    expect(usual.hashes(body({ id: value }))).toEqual([])
  }
})

test("Escapes in ids and in the names of fields make no difference", () => {
  const text = String.raw`{"\u0064ata" : {"object":{ "client\u005fid" : "cl\/i\u005f\"ü\u00fc" }}}`
  expect(usual.has(bytes(text), 'cl/i_"üü')).toBe(true)
  expect(usual.hashes(bytes(text))).toEqual([hashOf('cl/i_"üü')])
})

test("A body that is cut short, or isn't JSON, is read as far as it goes", () => {
  const whole = body({ a: [1, { b: "}" }], id: "app_1" })
  for (let length = 0; length < whole.length; length++) {
    expect(usual.hashes(whole.subarray(0, length)).length).toBeLessThanOrEqual(1)
  }
  for (const text of [
    "",
    "{",
    "[",
    '"',
    "\\",
    "{{{{",
    "}}}}",
    '{"data":',
    '{"data":{"object":{"id":"',
    "[".repeat(99_999),
  ]) {
    expect([...usual.hashes(bytes(text))].length).toBeLessThanOrEqual(1)
  }
})

test("Only the bytes of the body are read from a row", () => {
  const row = Buffer.concat([body({ id: "first" }), body({ id: "second" }), body({ id: "third" })])
  const from = body({ id: "first" }).length
  expect(usual.hashes(row, from, from + body({ id: "second" }).length)).toEqual([hashOf("second")])
  expect(usual.hashes(row, from, from)).toEqual([])
})

const names = ["id", "client_id", "data", "object", "a/b", "~", "0", "1", 'q"', "ü", ""]
const pointers = ["/data/object/id", "/data/object/client_id", "/id", "/data/0/id", "/a~1b/~0", '/q"/ü', "/data/", "/1"]

test("Whatever the JSON, the ids are those that JSON.parse and the pointers lead to", () => {
  const random = seeded(17)
  const upTo = (n: number) => Math.floor(random() * n)
  const pick = <A>(from: ReadonlyArray<A>): A => from[upTo(from.length)] as A
  const value = (depth: number): unknown => {
    const kind = upTo(depth > 4 ? 4 : 8)
    if (kind === 0) return pick([null, true, 1.5, 1e21, -0.1])
    if (kind === 1) return upTo(1_000) - 500
    if (kind < 4) return pick(["", "cli_1", "ü\u2028", 'a"b', "\\", "{", "]", ",:", "\ud800", "x".repeat(upTo(300))])
    const items = Array.from({ length: upTo(5) }, () => value(depth + 1))
    return kind < 6 ? items : Object.fromEntries(items.map((item) => [pick(names), item]))
  }
  let found = 0
  for (let round = 0; round < tries(5_000); round++) {
    const searchIds = new SearchIds(pointers.filter(() => upTo(2) === 0))
    const text = JSON.stringify({ [pick(names)]: value(0), data: value(0) }, null, pick([0, 0, 1]))
    const parsed: unknown = JSON.parse(text)
    const ids = searchIds.pointers
      .map((pointer) => get(parsePointer(pointer) ?? [], parsed))
      .filter((id) => typeof id === "string" || Number.isSafeInteger(id))
      .map(String)
    const hashes = [...searchIds.hashes(bytes(text))].sort()
    expect({ text, hashes }).toEqual({ text, hashes: [...new Set(ids.map(hashOf))].sort() })
    for (const id of ids) expect({ text, id, has: searchIds.has(bytes(text), id) }).toEqual({ text, id, has: true })
    found += ids.length
  }
  expect(found).toBeGreaterThan(tries(100))
})

test("A body mentions an id that is a whole word in it, also escaped, and not a part of a longer word", () => {
  expect(mentions(body({ note: "ask cli_1, please" }), "cli_1")).toBe(true)
  expect(mentions(body({ list: ["cli_1"] }), "cli_1")).toBe(true)
  expect(mentions(body({ note: "cli_12 and xcli_1" }), "cli_1")).toBe(false)
  expect(mentions(body({ note: "xcli_1 acct_9_cli_1" }), "cli_1")).toBe(true)
  expect(mentions(body({ note: 'a "b" c' }), 'a "b"')).toBe(true)
  expect(mentions(bytes("cli_1"), "cli_1")).toBe(true)
  expect(mentions(bytes(""), "cli_1")).toBe(false)
})
