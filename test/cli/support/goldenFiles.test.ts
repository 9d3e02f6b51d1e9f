/** Golden files of `relay test`, and `explain --payload`, each from its arguments to its exit code. */
import { afterAll, describe, expect, test } from "bun:test"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { sample } from "../../../src/event/SampleEvent.ts"
import { cli } from "../harness.ts"

const root = mkdtempSync(join(tmpdir(), "relay-golden-"))
afterAll(() => rmSync(root, { recursive: true }))

let directories = 0
const canary = "canary-secret-0451"
const failure = "connected_account.refresh_failed"
const golden = "golden/refresh_failed.json"
const test1 = { event: failure, to: "oncall", payloads: { oncall: golden } }

/** A config in a directory of its own, with one test. */
const config = (test: object = test1, oncall: object = {}) => {
  const directory = join(root, `${directories++}`)
  mkdirSync(directory)
  const file = join(directory, "relay.config.json")
  const write = (oncall: object) =>
    writeFileSync(
      file,
      JSON.stringify({
        webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: canary }] } },
        sinks: { oncall: { type: "pagerduty", routingKey: canary, ...oncall } },
        routes: [{ name: "failures", match: ["*.*_failed", "relay.*"], to: "oncall" }],
        tests: [test],
      }),
    )
  write(oncall)
  return { file, write, at: (name: string) => join(directory, name) }
}

describe("a golden file", () => {
  test("is written by --update, beside the config and without secrets, and then holds", async () => {
    const { file, at } = config()
    expect(await cli(["test", "-c", file])).toMatchObject({ code: 1, stdout: expect.stringContaining("1 of 2 tests") })
    expect(existsSync(at(golden))).toBe(false)
    const updated = await cli(["test", "--update", "-c", file])
    expect(updated).toEqual({ code: 0, stdout: "2 of 2 tests passed\n", stderr: `${golden} written\n` })
    expect(JSON.parse(readFileSync(at(golden), "utf8"))).toMatchObject({ body: { routing_key: "***" } })
    expect(readFileSync(at(golden), "utf8")).not.toContain(canary)
    expect(await cli(["test", "-c", file])).toEqual({ code: 0, stdout: "2 of 2 tests passed\n", stderr: "" })
    const again = await cli(["test", "--update", "-c", file])
    expect(again.stderr).toBe("")
  })

  test("fails as a test with the differing lines if it is outdated, and stays unchanged", async () => {
    const { file, write, at } = config()
    await cli(["test", "--update", "-c", file])
    const before = readFileSync(at(golden), "utf8")
    write({ severity: "critical" })
    const { code, stdout, stderr } = await cli(["test", "-c", file])
    expect(code).toBe(1)
    expect(stdout).toContain(`FAILED  ${failure} to oncall: the payload differs from ${golden}`)
    expect(stdout).toContain('  -       "severity": "error",\n  +       "severity": "critical",\n')
    expect(stdout).toContain("1 of 2 tests passed")
    expect(stderr).toContain("--update")
    expect(readFileSync(at(golden), "utf8")).toBe(before)
    const json = JSON.parse((await cli(["test", "--json", "-c", file])).stdout)
    expect(json).toMatchObject({ ok: false, passed: 1, payloads: [{ sink: "oncall", file: golden, ok: false }] })
  })

  test("has the message of the test's action, as explain prints it", async () => {
    const api = {
      ...{ type: "http", routingKey: undefined, url: "https://example.com/", format: "template" },
      ...{ body: ["{{action}}", "{{summary}}"], update: { method: "PATCH" }, resolve: {}, alert: { repeat: "1 hour" } },
    }
    for (const [action, method, first, words] of [
      ["trigger", "POST", "trigger", /^A calendar/],
      ["update", "PATCH", "update", /^2 × A calendar/],
      ["reminder", "POST", "trigger", /^Reminder: 2 × A calendar/],
      ["resolve", "POST", "resolve", /^Resolved: 2 × A calendar/],
    ] as const) {
      const { file, at } = config({ ...test1, action }, api)
      expect(await cli(["test", "--update", "-c", file])).toMatchObject({ code: 0 })
      const written = readFileSync(at(golden), "utf8")
      const { body, ...sent } = JSON.parse(written)
      expect([sent.method, body]).toEqual([method, [first, expect.stringMatching(words)]])
      const explained = await cli(["explain", failure, "--payload", "oncall", "--action", action, "-c", file])
      expect(explained).toEqual({ code: 0, stdout: written, stderr: "" })
    }
  })

  test("can't have an action that the sink doesn't send", async () => {
    for (const [action, says] of [
      ["update", 'sends no updates: it needs "alert"'],
      ["reminder", 'sends no reminders: it needs "alert" with "repeat"'],
    ] as const) {
      const { file } = config({ ...test1, action }, { resolve: true })
      expect(await cli(["test", "-c", file])).toMatchObject({ code: 1, stderr: expect.stringContaining(says) })
      const explained = await cli(["explain", failure, "--payload", "oncall", "--action", action, "-c", file])
      expect(explained).toMatchObject({ code: 64, stderr: expect.stringContaining(says) })
    }
    const { file, at } = config({ ...test1, action: "resolve", sample: "event.json" }, { resolve: true })
    writeFileSync(at("event.json"), JSON.stringify(sample(failure, 0)))
    expect(await cli(["test", "-c", file])).toMatchObject({
      ...{ code: 1, stderr: expect.stringContaining("needs a sample of connected_account.reconnected") },
    })
  })

  test("may have been checked out with other line ends", async () => {
    const { file, at } = config()
    await cli(["test", "--update", "-c", file])
    writeFileSync(at(golden), readFileSync(at(golden), "utf8").replaceAll("\n", "\r\n"))
    expect((await cli(["test", "-c", file])).code).toBe(0)
  })

  test("is made of the object or the sample that a test gives", async () => {
    const object = config({ ...test1, object: { id: "cna_42" } })
    await cli(["test", "--update", "-c", object.file])
    expect(readFileSync(object.at(golden), "utf8")).toContain("cna_42")

    const { file, at } = config({ ...test1, sample: "event.json" })
    expect(await cli(["test", "-c", file])).toMatchObject({ code: 1, stderr: expect.stringContaining("event.json") })
    writeFileSync(at("event.json"), "{")
    expect((await cli(["test", "-c", file])).stderr).toContain("is not an event")
    writeFileSync(at("event.json"), JSON.stringify(sample("block.created", 0)))
    expect((await cli(["test", "-c", file])).stderr).toContain("is a block.created")
    writeFileSync(at("event.json"), JSON.stringify(sample(failure, 0, { accountId: "acct_77" })))
    await cli(["test", "--update", "-c", file])
    expect(readFileSync(at(golden), "utf8")).toContain("acct_77")
  })

  test("reports an error with its name if it can't be read or written", async () => {
    const { file, at } = config()
    mkdirSync(at(golden), { recursive: true })
    expect(await cli(["test", "-c", file])).toMatchObject({ code: 74, stderr: expect.stringContaining(golden) })
  })

  test("of the relay's own events shows their texts", async () => {
    const { file, at } = config({ event: "relay.lane_paused", to: "oncall", payloads: { oncall: golden } })
    await cli(["test", "--update", "-c", file])
    expect(readFileSync(at(golden), "utf8")).toContain("The sink sample does not deliver")
  })

  test("of a recipe in config/ has the message to its sink", async () => {
    for (const name of ["scheduling", "pagerduty"]) writeFileSync(join(root, name), "a-long-signing-secret")
    const env = {
      CREDENTIALS_DIRECTORY: root,
      SLACK_URL: "https://hooks.slack.com/services/T0/B0/x",
      TEAMS_URL: "https://north.api.powerplatform.com/workflows/0",
      SCHEDULING_SECRET: "a-long-signing-secret",
      JIRA_API_KEY: "x",
    }
    for (const recipe of ["alerts", "jira", "own-events"]) {
      const file = resolve(import.meta.dir, `../../../config/examples/${recipe}.json`)
      expect(await cli(["test", "-c", file], { env })).toMatchObject({ code: 0, stderr: "" })
    }
  })
})

describe("explain --payload", () => {
  test("prints the content of a golden file", async () => {
    const { file, at } = config()
    await cli(["test", "--update", "-c", file])
    const { code, stdout, stderr } = await cli(["explain", failure, "--payload", "oncall", "-c", file])
    expect([code, stderr]).toEqual([0, ""])
    expect(stdout).toBe(readFileSync(at(golden), "utf8"))
  })

  test("prints what the recovery of a failure sends with --action resolve", async () => {
    const { file } = config(test1, { resolve: true })
    const payload = async (type: string, ...more: ReadonlyArray<string>) => {
      const { stdout } = await cli(["explain", type, "--payload", "oncall", ...more, "-c", file])
      return JSON.parse(stdout).body
    }
    const { dedup_key, event_action } = await payload(failure)
    expect(event_action).toBe("trigger")
    for (const type of [failure, "connected_account.reconnected"]) {
      expect(await payload(type, "--action", "resolve")).toMatchObject({ event_action: "resolve", dedup_key })
    }
    const none = ["explain", "client.created", "--payload", "oncall", "--action", "resolve", "-c", file]
    expect(await cli(none)).toMatchObject({
      code: 64,
      stderr: expect.stringContaining("no event ends a client.created"),
    })
  })

  test("names the existing sinks if the sink doesn't exist", async () => {
    const { code, stdout, stderr } = await cli(["explain", failure, "--payload", "oncal", "-c", config().file])
    expect([code, stdout]).toEqual([64, ""])
    expect(stderr).toContain("it has oncall")
  })
})
