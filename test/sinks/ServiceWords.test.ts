import { expect, test } from "bun:test"
import { oneLine } from "../../src/sinks/ServiceWords.ts"

test("a service's words are one line of 500 characters at most, without control characters", () => {
  expect(oneLine(' it said "no"\r\n\u001b[31mred\u202e ')).toBe('it said "no"\\r\\n\\u001b[31mred\\u202e')
  expect(oneLine("x".repeat(499))).toHaveLength(499)
  expect(oneLine("\n".repeat(499) + "x".repeat(99)).length).toBeLessThanOrEqual(500)
  expect(oneLine(`${"x".repeat(499)}😀`).isWellFormed()).toBe(true)
})
