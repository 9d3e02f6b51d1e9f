/**
 * The questions that operators ask most: the FAQ answers each under a heading
 * with the question's words, with an example. Its commands run in
 * `test/docs/commands.test.ts`, its configs are checked here.
 */
import { describe, expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { cli, temporary } from "../cli/harness.ts"
import { readPage } from "../lib/docs.ts"

/** The answers, by heading. */
const answers = new Map(
  readPage("docs/faq.md")
    .split(/^## /m)
    .slice(1)
    .map((text) => [text.slice(0, text.indexOf("\n")), text.slice(text.indexOf("\n"))]),
)

/** The words of each question, as its heading has them. */
const questions: ReadonlyArray<ReadonlyArray<string>> = [
  ["answers", "sender"],
  ["nginx", "Caddy"],
  ["disk", "million events a day"],
  ["Kubernetes"],
  ["npm"],
  ["erase"],
  ["verify", "Go"],
  ["scrape"],
  ["rotate"],
  ["last night's failures"],
  ["Kafka", "down for a day"],
  ["order"],
  ["Slack"],
  ["route", "by account"],
  ["mute"],
  ["upgrade one relay without loss"],
  ["SQLite to PostgreSQL"],
  ["lost with the disk"],
  ["restore"],
  ["two relays"],
  ["silent sender"],
]

const configsIn = (answer: string) => [...answer.matchAll(/^```json\n(.*?)^```$/gms)].map(([, json = ""]) => json)

const base = {
  listen: "127.0.0.1:8080",
  webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: "a-secret-of-this-test" }] } },
  sinks: { lake: { type: "console" } },
}

describe("the FAQ", () => {
  const directory = temporary()

  test("is linked from the README", () => {
    expect(readPage("README.md")).toContain("](docs/faq.md)")
  })

  for (const words of questions) {
    test(`answers with an example: ${words.join(", ")}`, () => {
      const found = [...answers].filter(([heading]) => words.every((word) => heading.includes(word)))
      expect(found.map(([, answer]) => /`relay [a-z]/.test(answer) || configsIn(answer).length > 0)).toEqual([true])
    })
  }

  for (const [heading, answer] of answers) {
    for (const json of configsIn(answer)) {
      test(`has a valid config under "${heading}"`, async () => {
        const shown = JSON.parse(json)
        const [name] = Object.keys(shown.sinks ?? base.sinks)
        const routes = [{ name: "everything", match: "**", to: [name] }]
        const file = join(directory, "relay.config.json")
        writeFileSync(file, JSON.stringify({ ...base, routes, ...shown }))
        const { code, stderr } = await cli(["validate", "--offline", "-c", file])
        expect([code, code === 0 ? "" : stderr]).toEqual([0, ""])
      })
    }
  }
})
