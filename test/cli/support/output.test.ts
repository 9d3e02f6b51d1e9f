import { describe, expect, test } from "bun:test"
import { bytes, count, plain, screen, span, table, toJson } from "../../../src/cli/support/output.ts"

describe("what commands print", () => {
  test("messages to stderr by a way that no runtime colours", () => {
    const printed: Array<string> = []
    const error = () => {
      throw new Error("Bun makes this red on a terminal")
    }
    const console = screen({ ...globalThis.console, error, warn: (text: string) => void printed.push(text) })
    console.error("relay 0.1.0")
    expect(printed).toEqual(["relay 0.1.0"])
  })

  test("a table's columns are aligned and nothing trails", () => {
    expect(
      table([
        ["A", "BB", ""],
        ["long name", "b", "c"],
      ]),
    ).toBe("  A          BB\n  long name  b   c")
  })

  test("control characters of a name never reach the terminal", () => {
    expect(table([["\u001b[31mred\u0007\n"]])).toBe("  \ufffd[31mred\ufffd\ufffd")
    expect(plain("a\u009bb\u0000c")).toBe("a\ufffdb\ufffdc")
    expect(plain("Grüße → 你好")).toBe("Grüße → 你好")
  })

  test("characters that turn text around, have no width or break a line never reach the terminal", () => {
    const odd = [
      "\u202e",
      "\u2066",
      "\u200b",
      "\u200f",
      "\ufeff",
      "\u2028",
      "\u2029",
      "\u00ad",
      "\u{e0041}",
      "\ud800",
      "\ue000",
    ]
    for (const one of odd) {
      expect(plain(`a${one}b`)).toBe("a\ufffdb")
      expect(table([[`a${one}b`]])).toBe("  a\ufffdb")
      const said = toJson({ [one]: `${one}${one}` }, 2)
      expect(said).toMatch(/^[ -~\n]*$/)
      expect(JSON.parse(said)).toEqual({ [one]: `${one}${one}` })
    }
  })

  test("only line breaks and colours reach the terminal as control characters", () => {
    const passed: Array<unknown> = []
    const print = (...parts: ReadonlyArray<unknown>) => void passed.push(...parts)
    const console = screen({ ...globalThis.console, log: print, error: print, warn: print, info: print, debug: print })
    console.log("\u001b[31mred\u001b[0m\n\tline\u001b[2J\u202e\u0007")
    console.error("a\u202eb")
    console.warn("a\u001b]0;title\u0007b")
    console.info("a\u200bb")
    console.debug("a\rb")
    expect(passed).toEqual([
      "\u001b[31mred\u001b[0m\n\tline\ufffd[2J\ufffd\ufffd",
      "a\ufffdb",
      "a\ufffd]0;title\ufffdb",
      "a\ufffdb",
      "a\ufffdb",
    ])
  })

  test("sizes, spans and counts are written for people", () => {
    expect([0, 1023, 1536, 10 * 1024 ** 3].map(bytes)).toEqual(["0 bytes", "1023 bytes", "1.5 KiB", "10.0 GiB"])
    expect([-5, 1500, 600_000, 3 * 3_600_000, 5 * 86_400_000].map(span)).toEqual(["0 s", "2 s", "10 min", "3 h", "5 d"])
    expect([count(1, "event"), count(12_345, "event")]).toEqual(["1 event", "12,345 events"])
  })
})
