import { expect, test } from "bun:test"
import { oneLine, spokenIn } from "../../src/sinks/ServiceWords.ts"

test("a service's words are one line of 500 characters at most, without control characters", () => {
  expect(oneLine(' it said "no"\r\n\u001b[31mred\u202e ')).toBe('it said "no"\\r\\n\\u001b[31mred\\u202e')
  expect(oneLine("x".repeat(499))).toHaveLength(499)
  expect(oneLine("\n".repeat(499) + "x".repeat(99)).length).toBeLessThanOrEqual(500)
  expect(oneLine(`${"x".repeat(499)}😀`).isWellFormed()).toBe(true)
})

test("the words of JSON are its known fields or lists of mistakes, without other parts that may repeat the request", () => {
  for (const [answer, words] of [
    [
      '{"message":"Event object is invalid","errors":["no summary","no source"]}',
      "Event object is invalid: no summary; no source",
    ],
    ['{"content":["This field is required"],"embeds":["0"]}', "content: This field is required, embeds: 0"],
    ['{"secret":"canary"}', ""],
    ['{"errors":["no"],"canary":{"a":"b"}}', "no"],
    ["{}", ""],
    ["canary", "canary"],
  ] as const) {
    expect(spokenIn(answer)).toBe(words)
  }
})
