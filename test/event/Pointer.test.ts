/** JSON Pointers, RFC 6901. */
import { expect, test } from "bun:test"
import { get, parsePointer } from "../../src/event/Pointer.ts"

const at = (text: string, root: unknown): unknown => {
  const pointer = parsePointer(text)
  if (pointer === undefined) throw new Error(`${text} is no pointer`)
  return get(pointer, root)
}

test("a JSON Pointer finds the values of the examples in section 5 of the RFC", () => {
  const document = {
    foo: ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "c%d": 2,
    "e^f": 3,
    "g|h": 4,
    "i\\j": 5,
    'k"l': 6,
    " ": 7,
    "m~n": 8,
  }
  const expected: ReadonlyArray<readonly [string, unknown]> = [
    ["", document],
    ["/foo", ["bar", "baz"]],
    ["/foo/0", "bar"],
    ["/", 0],
    ["/a~1b", 1],
    ["/c%d", 2],
    ["/e^f", 3],
    ["/g|h", 4],
    ["/i\\j", 5],
    ['/k"l', 6],
    ["/ ", 7],
    ["/m~0n", 8],
  ]
  for (const [pointer, value] of expected) expect(at(pointer, document)).toEqual(value)
})

test("a JSON Pointer to a missing value gives undefined", () => {
  const document = { list: ["a"], text: "abc", nothing: null }
  for (const pointer of [
    "/x",
    "/list/1",
    "/list/-",
    "/list/00",
    "/list/length",
    "/text/0",
    "/text/length",
    "/nothing/x",
  ]) {
    expect(at(pointer, document)).toBeUndefined()
  }
  expect(at("/nothing", document)).toBeNull()
})

test("a JSON Pointer finds no inherited property", () => {
  for (const pointer of ["/toString", "/__proto__", "/constructor/name", "/hasOwnProperty"]) {
    expect(at(pointer, { a: {} })).toBeUndefined()
  }
  expect(at("/__proto__/x", JSON.parse('{"__proto__":{"x":1}}'))).toBe(1)
})

test("a text that is not a JSON Pointer does not parse", () => {
  for (const text of ["a", "a/b", " /a", "/~", "/a~2b", "/~~1", "#/a"]) expect(parsePointer(text)).toBeUndefined()
})
