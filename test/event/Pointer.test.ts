/** JSON Pointers, RFC 6901. */
import { expect, test } from "bun:test"
import { get, parsePointer } from "../../src/event/Pointer.ts"

const at = (text: string, root: unknown): unknown => {
  const pointer = parsePointer(text)
  if (pointer === undefined) throw new Error(`${text} is no pointer`)
  return get(pointer, root)
}

test("the examples of the RFC's section 5", () => {
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

test("what leads nowhere is undefined", () => {
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

test("inherited properties are not there", () => {
  for (const pointer of ["/toString", "/__proto__", "/constructor/name", "/hasOwnProperty"]) {
    expect(at(pointer, { a: {} })).toBeUndefined()
  }
  expect(at("/__proto__/x", JSON.parse('{"__proto__":{"x":1}}'))).toBe(1)
})

test("text that is no pointer does not parse", () => {
  for (const text of ["a", "a/b", " /a", "/~", "/a~2b", "/~~1", "#/a"]) expect(parsePointer(text)).toBeUndefined()
})
