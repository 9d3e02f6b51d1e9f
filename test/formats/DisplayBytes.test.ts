import { describe, expect, test } from "bun:test"
import { displayBytes } from "../../src/formats/Rendering.ts"
import { bytes } from "../sinks/samples.ts"

describe("bytes are shown", () => {
  test("as JSON or as text if that loses nothing, and otherwise as base64", () => {
    expect(displayBytes(bytes('{"a":[1,null]}'))).toEqual({ a: [1, null] })
    for (const text of ['{"a": 1}', '{"a":1.0}', '{"a":1,"a":2}', "[12345678901234567890]", "plain", "", "\ufeff{}"]) {
      expect(displayBytes(bytes(text))).toBe(text)
    }
    expect(displayBytes(Uint8Array.of(0x7b, 0xff))).toEqual({ base64: "e/8=" })
  })
})
