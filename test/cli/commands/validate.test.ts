import { describe, expect, test } from "bun:test"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { relay } from "../../lib/relay.ts"
import { canary, configsIn } from "../configs.ts"
import { cli, temporary } from "../harness.ts"

const directory = temporary()
const config = configsIn(directory)

describe("validate", () => {
  test("reaches the sinks, and not with --offline", async () => {
    const file = config()
    expect(await cli(["validate", "-c", file])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/audit +reached/),
    })
    const offline = await cli(["validate", "--offline", "-c", file])
    expect(offline).toMatchObject({ code: 0, stdout: expect.not.stringContaining("reached") })
  })

  test("fails without a config file, and names the config that would be used", async () => {
    const empty = join(config(), "..", "empty")
    mkdirSync(empty, { recursive: true })
    const { code, stdout, stderr } = await relay(["validate", "--offline"], { cwd: empty })
    expect([code, stdout]).toEqual([78, ""])
    expect(stderr).toContain(
      "relay.config.json: error: there is no such file here: `relay run` would use the embedded defaults",
    )
  })

  test("exits 1 if the journal's directory can't be used, and warns about its disk", async () => {
    const file = config({ journal: { path: join(config(), "journal.db") } })
    const { code, stdout, stderr } = await cli(["validate", "-c", file])
    expect([code, stderr]).toEqual([1, expect.stringContaining("its journal can't be used")])
    expect(stdout).toContain("journal: the journal's directory")
    const small = await cli(["validate", "-c", config({ journal: { minFree: "1000 TiB" } })])
    expect([small.code, small.stdout]).toEqual([1, expect.stringContaining("must stay free (journal.minFree)")])
  })

  test("exits 1 and names the sink that can't be reached", async () => {
    const sinks = { audit: { type: "file", path: join(config(), "audit.ndjson") }, screen: { type: "console" } }
    const { code, stdout, stderr } = await cli(["validate", "-c", config({ sinks })])
    expect(code).toBe(1)
    expect(stdout).toMatch(/audit +NOT REACHED +\S/)
    expect(stderr).toContain("audit")
  })

  test("says whether a journal on another machine can be used, as doctor does", async () => {
    const journal = { type: "postgres", url: "postgres://relay:journal-canary@127.0.0.1:1/relay" }
    const file = config({ journal })
    const { code, stdout, stderr } = await cli(["validate", "-c", file])
    expect([code, stderr]).toEqual([1, expect.stringContaining("its journal can't be used")])
    expect(stdout).toContain("journal: PostgreSQL at 127.0.0.1:1: nothing listens there\n")
    const doctor = await cli(["doctor", "--json", "-c", file])
    expect(JSON.parse(doctor.stdout).findings).toContainEqual({
      part: "journal",
      name: "postgres",
      verdict: "wrong",
      message: "PostgreSQL at 127.0.0.1:1: nothing listens there",
    })
    expect(stdout + stderr + doctor.stdout).not.toContain("journal-canary")
    expect((await cli(["validate", "--offline", "-c", file])).code).toBe(0)
  })

  test("takes a warning for an error with --strict only", async () => {
    const file = config({ routes: [{ name: "x", match: ["**", "apointment.*"], to: "audit" }] })
    const lenient = await cli(["validate", "-c", file])
    expect([lenient.code, lenient.stderr]).toEqual([0, expect.stringContaining("2 warnings")])
    const strict = await cli(["validate", "--strict", "-c", file])
    expect([strict.code, strict.stderr]).toEqual([1, expect.stringContaining("--strict its warnings are errors")])
    expect((await cli(["validate", "--strict", "-c", config()])).code).toBe(0)
    const json = await cli(["validate", "--strict", "--json", "-c", file])
    expect([json.code, JSON.parse(json.stdout).ok]).toEqual([1, false])
  })

  test("lists all mistakes also as JSON, with their positions and without the secrets", async () => {
    const file = config({ lisen: 1, routes: [{ name: "x", match: "**", to: "adit" }] })
    const { code, stdout, stderr } = await cli(["validate", "--json", "-c", file])
    expect(code).toBe(78)
    const { ok, diagnostics } = JSON.parse(stdout)
    expect(ok).toBe(false)
    expect(diagnostics.map(({ key }: { key: string }) => key)).toEqual(["routes[0].to", "lisen"])
    expect(stdout + stderr).not.toContain(canary)
  })

  test("works without secrets only with --offline, and lists the missing ones", async () => {
    const secrets = [{ name: "main", value: "${SIGNING_SECRET}" }]
    const file = config({ webhooks: { scheduling: { path: "/hooks", secrets } } })
    const offline = await cli(["validate", "--offline", "-c", file])
    expect([offline.code, offline.stdout]).toEqual([0, expect.stringContaining(": valid, ")])
    expect(offline.stderr).toMatch(/webhooks\.scheduling\.secrets\[0\]\.value +the variable SIGNING_SECRET is not set/)
    const json = await cli(["validate", "--offline", "--json", "-c", file])
    expect(JSON.parse(json.stdout).absent).toEqual([
      { key: "webhooks.scheduling.secrets[0].value", message: "the variable SIGNING_SECRET is not set" },
    ])
    expect((await cli(["validate", "-c", file])).code).toBe(78)
    const set = await cli(["validate", "-c", file], { env: { SIGNING_SECRET: canary } })
    expect([set.code, set.stderr]).toEqual([0, ""])
  })
})
