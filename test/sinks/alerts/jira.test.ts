/** The example for Jira Service Management keeps its limits: `message` 130 characters, `alias` 512. */
import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { Schema } from "effect"
import { parse } from "../../../src/config/diagnostics/Source.ts"
import { longest } from "../../../src/event/Envelope.ts"
import { Http } from "../../../src/sinks/http/Http.ts"
import { HttpConfig } from "../../../src/sinks/http/HttpConfig.ts"
import { bytes, entry, envelope } from "../samples.ts"
import { fields, list } from "./localService.ts"

const text = readFileSync(new URL("../../../config/examples/jira.json", import.meta.url), "utf8")

test("Jira accepts the alert's message and alias for any event", () => {
  const { value } = parse("jira.json", text, () => false)
  const { sinks, routes } = fields(value)
  const { oncall } = fields(sinks)
  const { type: _, delivery: __, resolve: ___, ...config } = fields(oncall)
  const decoded = Schema.decodeUnknownSync(HttpConfig)({ ...config, url: "https://jira.example.com" })
  const route = list(routes)
    .map(fields)
    .find(({ to }) => to === "oncall")
  const matches = list(route?.match).map(String)
  expect(matches).toHaveLength(5)
  for (const match of matches) {
    // A pattern may match the longest possible type.
    const type = match.includes("*") ? match.replace("*", "x".repeat(longest - match.length)) : match
    const [sent] = Http.preview(decoded, [
      entry(1, {
        type,
        accountId: "a".repeat(longest),
        body: bytes(JSON.stringify(envelope(1, { id: "i".repeat(200) }))),
      }),
    ])
    const { message, alias } = fields(sent?.body)
    expect([type, String(message).length <= 130, String(alias).length <= 512]).toEqual([type, true, true])
  }
})
