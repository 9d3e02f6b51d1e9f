import { describe, expect, test } from "bun:test"
import { eventTypes } from "../../../src/event/EventType.ts"
import { canary, configsIn } from "../configs.ts"
import { cli, temporary } from "../harness.ts"

const directory = temporary()
const config = configsIn(directory)

describe("test", () => {
  test("passes when every event goes where the config says", async () => {
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
  })

  test("must hold for every webhook unless it names one", async () => {
    const secrets = [{ name: "main", value: canary }]
    const webhooks = { one: { path: "/one", secrets }, two: { path: "/two", secrets } }
    const routes = [{ name: "only one", match: "**", webhook: "one", to: "audit" }]
    const run = (test: object) => cli(["test", "-c", config({ webhooks, routes, tests: [test] })])
    expect((await run({ event: "block.created", to: "audit" })).stdout).toContain("FAILED  block.created by two")
    expect((await run({ event: "block.created", webhook: "one", to: "audit" })).code).toBe(0)
  })
})
