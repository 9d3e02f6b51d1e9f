import { describe, expect, test } from "bun:test"
import { eventTypes } from "../../../src/event/EventType.ts"
import { canary, configsIn } from "../configs.ts"
import { cli, temporary } from "../harness.ts"

const directory = temporary()
const config = configsIn(directory)

describe("test", () => {
  test("passes if every event goes where the config expects", async () => {
    const tests = eventTypes.filter((type) => !type.endsWith("_failed")).map((event) => ({ event, to: "audit" }))
    const { code, stdout } = await cli(["test", "-c", config({ tests })])
    expect([code, stdout]).toEqual([0, `${tests.length} of ${tests.length} tests passed\n`])
  })

  test("exits 1 with the difference, and the route that is to blame", async () => {
    const tests = [
      { event: "appointment.meeting.create_failed", to: ["audit"] },
      { event: "block.created", to: ["audit", "screen"] },
    ]
    const { code, stdout, stderr } = await cli(["test", "-c", config({ tests })])
    expect(code).toBe(1)
    expect(stdout).toContain('  + screen: not expected; the route "failures" leads there')
    expect(stdout).toContain("  - screen: no route leads there")
    expect(stdout).toContain("0 of 2 tests passed")
    expect(stderr).toContain("relay explain appointment.meeting.create_failed")
  })

  test("routes with the object that a test gives", async () => {
    const routes = [{ name: "kind", match: "**", where: { "/data/object/kind": "video" }, to: "audit" }]
    const tests = [
      { event: "block.created", object: { kind: "video" }, to: ["audit"] },
      { event: "block.created", object: { kind: "phone" }, to: [] },
    ]
    const { code, stdout } = await cli(["test", "--json", "-c", config({ routes, tests })])
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, passed: 2 })
    const astray = [
      { event: "block.created", object: { kind: "phone" }, to: "audit" },
      { event: "block.created", object: {}, to: "audit" },
    ]
    const failed = await cli(["test", "-c", config({ routes, tests: astray })])
    const why = '  - audit: no route leads there; "kind" asks that /data/object/kind is "video"'
    expect(failed.stdout).toContain(`${why}\n`)
    expect(failed.stdout).toContain(`${why}; the event has no such field\n`)
  })

  test("routes with the time of a test, or at noon of a day in January", async () => {
    const hours = (hours: string) => ({ hours, timeZone: "UTC" })
    const routes = [
      { name: "day", match: "**", within: hours("08:00-18:00"), to: "audit" },
      { name: "night", match: "**", within: hours("18:00-08:00"), to: "screen" },
    ]
    const tests = [
      { event: "block.created", to: "audit" },
      { event: "block.created", at: "2026-11-20T20:00:00Z", to: "screen" },
    ]
    expect((await cli(["test", "-c", config({ routes, tests })])).stdout).toBe("2 of 2 tests passed\n")
    const failed = await cli(["test", "-c", config({ routes, tests: [{ event: "block.created", to: "screen" }] })])
    expect(failed.stdout).toContain(
      '  - screen: no route leads there; "night" applies within 18:00-08:00 UTC, and the test is at 2026-01-15T12:00:00.000Z; its "at" sets another time\n',
    )
    expect(failed.stdout).toContain('  + audit: not expected; the route "day" leads there')
  })

  test("must hold for every webhook unless it names one", async () => {
    const secrets = [{ name: "main", value: canary }]
    const webhooks = { one: { path: "/one", secrets }, two: { path: "/two", secrets } }
    const routes = [{ name: "only one", match: "**", webhook: "one", to: "audit" }]
    const run = (test: object) => cli(["test", "-c", config({ webhooks, routes, tests: [test] })])
    expect((await run({ event: "block.created", to: "audit" })).stdout).toContain("FAILED  block.created by two")
    expect((await run({ event: "block.created", webhook: "one", to: "audit" })).code).toBe(0)
  })

  test("compares as much as it can if values are missing: a payload with a missing value is not a failure", async () => {
    const url = "https://example.com/${TOKEN}"
    const http = { type: "http", url, format: "template" }
    const sinks = {
      hides: { ...http, headers: { authorization: "Bearer ${TOKEN}" }, body: { is: "{{type}}" } },
      shows: { ...http, body: { is: "${WHO}" } },
    }
    const routes = [{ name: "all", match: "**", to: ["hides", "shows"] }]
    const payloads = { hides: "hides.json", shows: "shows.json" }
    const tests = [{ event: "block.created", to: ["hides", "shows"], payloads }]
    const changed = { hides: { ...sinks.hides, body: { was: "{{type}}" } } }
    const env = { TOKEN: canary, WHO: "us" }
    expect((await cli(["test", "--update", "-c", config({ sinks, routes, tests })], { env })).code).toBe(0)
    const lacking = await cli(["test", "-c", config({ sinks, routes, tests })])
    expect([lacking.code, lacking.stdout]).toEqual([0, "2 of 2 tests passed\n"])
    expect(lacking.stderr).toContain("block.created to shows was not compared: its payload shows sinks.shows.body.is")
    const different = await cli(["test", "-c", config({ sinks: { ...sinks, ...changed }, routes, tests })])
    expect([different.code, different.stdout]).toEqual([1, expect.stringContaining("differs from hides.json")])
    expect((await cli(["test", "-c", config({ sinks, routes, tests })], { env })).stdout).toBe("3 of 3 tests passed\n")
  })
})
