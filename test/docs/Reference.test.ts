import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { parse } from "jsonc-parser"
import { embedded } from "../../src/config/load/ConfigText.ts"
import { load } from "../../src/config/load/Load.ts"
import { jsonSchema, jsonSchemaText } from "../../src/config/schema/JsonSchema.ts"
import { journalTypes } from "../../src/journal/Journals.ts"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"
import { cli } from "../cli/harness.ts"
import { readFile } from "../config/fixture.ts"
import { validate } from "../config/validate.ts"
import { exampleConfigs, pagesBelow, readPage } from "../lib/docs.ts"
import { it } from "../lib/effect.ts"
import { renewed, sections } from "./reference.ts"

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8")
const schema = jsonSchema({ sinkTypes, journalTypes })

const examples = ["relay.config.json", ...exampleConfigs]

/** Every variable is set, and every file is there. */
const env: Readonly<Record<string, string>> = {
  JIRA_API_KEY: "token",
  CREDENTIALS_DIRECTORY: "/run/credentials/relay.service",
  NORTH_SECRET: "a-signing-secret-one",
  NORTH_SIGNING_SECRET: "a-signing-secret-two",
  NORTH_URL: "https://north.example.com",
  NORTH_WEBHOOK_ID: "wh_north",
  SCHEDULING_SECRET: "a-signing-secret-six",
  INCIDENT_IO_TOKEN: "token",
  SMTP_PASSWORD: "password",
  SLACK_TOKEN: "xoxb-seven",
  SLACK_URL: "https://hooks.slack.com/services/T0/B0/x",
  SOUTH_SECRET: "a-signing-secret-three",
  SOUTH_URL: "https://south.example.com",
  TEAMS_URL: "https://north.api.powerplatform.com/workflows/0",
}
/** Files that the configs name. */
const credentials = {
  "/etc/relay/admin-token": "an-admin-token-of-32-bytes-or-more\n",
  "/run/credentials/relay.service/alerts-url": "https://alerts.example.com/T0/B0\n",
  "/run/credentials/relay.service/backoffice-token": "token\n",
  "/run/credentials/relay.service/pagerduty": "seven\n",
  "/run/credentials/relay.service/scheduling": "a-signing-secret-four\n",
  "/run/credentials/relay.service/scheduling-old": "a-signing-secret-five\n",
  "/run/credentials/relay.service/slack-token": "xoxb-seven\n",
}

describe("the committed files", () => {
  test("the JSON Schema is what `relay schema` prints; if not: bun test/docs/reference.ts", () => {
    expect(read("config/relay.schema.json")).toBe(jsonSchemaText({ sinkTypes, journalTypes }))
  })

  test("relay.config.json is what the relay falls back to and `relay init` writes", () => {
    expect(read("relay.config.json")).toBe(embedded)
  })

  for (const path of examples) {
    it.effect(`${path} loads without a warning, and the JSON Schema agrees`, function* () {
      const text = read(path)
      const files = { ...credentials, [path]: text }
      const { warnings } = yield* load(path, { sinkTypes, journalTypes, env, readFile: readFile(files) })
      expect(warnings).toEqual([])
      expect(validate(schema, parse(text, [], { allowTrailingComma: true }))).toEqual([])
    })
  }
})

describe("the page on alerting", () => {
  const page = read("docs/operations/alerting.md")
  const blocks = [...page.matchAll(/^```jsonc\n(.*?)^```/gms)].map(([, block = ""]) => block)

  it.effect("has parts of configs, which load without a warning", function* () {
    expect(blocks.length).toBeGreaterThan(3)
    const directory = { CREDENTIALS_DIRECTORY: "/run/credentials/relay.service" }
    const webhook = { path: "/hooks", secrets: [{ name: "main", value: "a-signing-secret-seven" }] }
    for (const block of blocks) {
      const text = `{ "webhooks": ${JSON.stringify({ scheduling: webhook })}, ${block} }`
      const files = readFile({ ...credentials, "page.json": text })
      const loaded = load("page.json", { sinkTypes, journalTypes, env: { ...env, ...directory }, readFile: files })
      expect((yield* loaded).warnings).toEqual([])
    }
  })
})

describe("where no variable is set and no credential is there, as in CI", () => {
  for (const path of examples) {
    test(`${path} passes its tests, and missing values are reported`, async () => {
      const file = new URL(`../../${path}`, import.meta.url).pathname
      const { code, stdout, stderr } = await cli(["test", "-c", file])
      expect([code, stdout]).toEqual([0, expect.stringMatching(/^(\d+) of \1 tests? passed\n$/)])
      const text = read(path)
      const needed = [...text.matchAll(/^(?! *\/\/).*\$\{([A-Z_]+)\}/gm)].map(([, name]) => name)
      for (const name of needed) {
        const isCredential = name === "CREDENTIALS_DIRECTORY"
        expect(stderr).toContain(isCredential ? "a credential of the service" : `the variable ${name} is not set`)
      }
      if (needed.length === 0) expect(stderr).toBe("")
    })
  }
})

describe("the reference", () => {
  const pages = pagesBelow("docs/reference")
  const reference = pages.map(readPage).join("\n")

  test("has every key as the schema has it; if not: bun test/docs/reference.ts", () => {
    const wanted = renewed(schema)
    expect(pages).toEqual([...wanted.keys()].sort())
    for (const [path, text] of wanted) expect(readPage(path)).toBe(text)
  })

  for (const { title, rows } of sections(schema)) {
    test(`leaves out no key of ${title}`, () => {
      expect(rows.filter((row) => !reference.includes(`${row}\n`))).toEqual([])
    })
  }
})
