import { describe, expect, test } from "bun:test"
import { configsIn } from "../configs.ts"
import { cli, temporary } from "../harness.ts"

const directory = temporary()
const config = configsIn(directory)

describe("explain", () => {
  test("shows which routes match a type, which don't, and why", async () => {
    const { stdout } = await cli(["explain", "appointment.meeting.create_failed", "-c", config()])
    expect(stdout).toMatch(/everything +matches +by \*\* +audit/)
    expect(stdout).toMatch(/failures +matches +by \*\*\.\*_failed +audit, screen/)
    expect(stdout).toContain("→ audit, screen")
    const other = await cli(["explain", "connected_account.refresh_failed", "-c", config()])
    expect(other.stdout).toMatch(/failures +- +excepted by connected_account\.\*/)
  })

  test("says that a type is outside the catalogue, and suggests the nearest", async () => {
    const { code, stderr } = await cli(["explain", "appointment.creatd", "-c", config()])
    expect(code).toBe(0)
    expect(stderr).toContain("did you mean appointment.created?")
    expect((await cli(["explain", "appointment", "-c", config()])).code).toBe(64)
    expect((await cli(["explain", "a.b", "--webhook", "nope", "-c", config()])).code).toBe(64)
  })

  test("marks a route that depends on the event", async () => {
    const routes = [{ name: "some", match: "**", where: { "/account_id": "acct_1" }, to: "audit" }]
    const { stdout } = await cli(["explain", "block.created", "--json", "-c", config({ routes })])
    expect(JSON.parse(stdout)).toMatchObject({ sinks: [], conditional: ["audit"] })
    const where = {
      "/account_id": { prefix: "acct_", not: ["acct_1", "acct_2"] },
      "/data/object/vip": { exists: true },
    }
    const asked = await cli(["explain", "block.created", "-c", config({ routes: [{ ...routes[0], where }] })])
    expect(asked.stdout).toContain(
      'may match  where /account_id begins with "acct_" and is none of "acct_1", "acct_2" and /data/object/vip exists',
    )
  })

  test("shows the hours of a route, and what they decide at a time", async () => {
    const within = { hours: "08:00-18:00", timeZone: "Europe/Berlin" }
    const routes = [{ name: "day", match: "**", within, to: "audit" }]
    const asked = async (...flags: ReadonlyArray<string>) =>
      (await cli(["explain", "block.created", "-c", config({ routes }), ...flags])).stdout
    expect(await asked()).toContain("may match  where it is received within 08:00-18:00 Europe/Berlin")
    expect(await asked()).toContain("→ no sink, and possibly audit")
    expect(await asked("--at", "2026-11-20T16:59:00Z")).toMatch(/matches +by \*\* within 08:00-18:00 Europe\/Berlin/)
    expect(await asked("--at", "2026-11-20T17:00:00Z")).toMatch(/- +only within 08:00-18:00 Europe\/Berlin/)
    const event = await cli(["explain", "evt_1", "--at", "2026-11-20T17:00:00Z", "-c", config({ routes })])
    expect([event.code, event.stderr]).toEqual([64, expect.stringContaining("an event has its own time of receipt")])
  })

  test("--payload shows a variable that is not set, and a file that can't be read, by their names", async () => {
    const routes = [{ name: "all", match: "**", to: ["topic", "bus"] }]
    const sinks = {
      topic: { type: "sns", topicArn: "${TOPIC_ARN}" },
      bus: {
        type: "kafka",
        brokers: ["b:9092"],
        topic: "${STAGE}.{{resource}}",
        headers: { team: "file:/nowhere/team" },
      },
    }
    const payload = async (sink: string) => {
      const asked = ["explain", "client.created", "--payload", sink, "-c", config({ sinks, routes })]
      return JSON.parse((await cli(asked)).stdout)
    }
    expect(await payload("topic")).toMatchObject({ topicArn: "${TOPIC_ARN} (not set)" })
    expect(await payload("bus")).toMatchObject({
      topic: "${STAGE} (not set).client",
      headers: { team: "file:/nowhere/team (not read)" },
    })
  })

  test("explains a type without the secrets, and names the missing ones", async () => {
    const secrets = [{ name: "main", value: "file:/nowhere/secret" }]
    const file = config({ webhooks: { scheduling: { path: "/hooks", secrets } } })
    const { code, stdout, stderr } = await cli(["explain", "block.created", "-c", file])
    expect([code, stdout]).toEqual([0, expect.stringContaining("→ audit")])
    expect(stderr).toContain('the file of "file:/nowhere/secret" can\'t be read: there is no such file')
  })
})
