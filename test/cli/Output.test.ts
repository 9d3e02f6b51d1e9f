import { describe, expect, test } from "bun:test"
import { bytes, count, plain, span, table } from "../../src/cli/Output.ts"

describe("what commands print", () => {
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

  test("sizes, spans and counts are written for people", () => {
    expect([0, 1023, 1536, 10 * 1024 ** 3].map(bytes)).toEqual(["0 bytes", "1023 bytes", "1.5 KiB", "10.0 GiB"])
    expect([-5, 1500, 600_000, 3 * 3_600_000, 5 * 86_400_000].map(span)).toEqual(["0 s", "2 s", "10 min", "3 h", "5 d"])
    expect([count(1, "event"), count(12_345, "event")]).toEqual(["1 event", "12,345 events"])
  })
})
