/** The commands that need no running relay, from arguments to exit code. */
import { afterAll, describe, expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as listed from "../../src/cli/Commands.ts"
import { eventTypes } from "../../src/event/EventType.ts"
import { cli } from "./harness.ts"

const directory = mkdtempSync(join(tmpdir(), "relay-cli-"))
afterAll(() => rmSync(directory, { recursive: true }))

let files = 0
const canary = "canary-secret-0451"

/** A config of its own for each test; nothing listens on its ports. */
const config = (changes: object = {}): string => {
  const file = join(directory, `${files++}.json`)
  const base = {
    listen: "127.0.0.1:1",
    admin: { listen: "127.0.0.1:2" },
    journal: { path: join(directory, "journal.db") },
    webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: canary }] } },
    sinks: { audit: { type: "file", path: join(directory, "audit.ndjson") }, screen: { type: "console" } },
    routes: [
      { name: "everything", match: "**", to: "audit" },
      { name: "failures", match: "**.*_failed", except: "connected_account.*", to: ["audit", "screen"] },
    ],
  }
  writeFileSync(file, JSON.stringify({ ...base, ...changes }))
  return file
}

/** A salvaged file with one event in it. */
const salvaged = (): string => {
  const file = join(directory, `${files++}.ndjson`)
  const facts = {
    id: "evt_1",
    type: "block.created",
    accountId: "",
    webhook: "a",
    webhookId: "",
    signature: "",
    secret: "",
  }
  const line = {
    journal: "j",
    in: "log",
    pending: ["audit"],
    sequence: 1,
    receivedAt: 1,
    replayed: false,
    bodyBase64: "e30=",
  }
  writeFileSync(file, `${JSON.stringify({ ...line, ...facts })}\n`)
  return file
}

describe("every command", () => {
  test("has help that says what it does and gives an example", async () => {
    const { stdout } = await cli(["--help"])
    const commands = [...stdout.slice(stdout.indexOf("SUBCOMMANDS")).matchAll(/^ {2}([a-z]+) {2,}\S/gm)].map(
      ([, name]) => name ?? "",
    )
    expect(commands).toEqual(Object.keys(listed).sort())
    expect(commands.length).toBeGreaterThan(15)
    for (const command of commands) {
      const help = await cli([command, "--help"])
      expect(help.code).toBe(0)
      expect(help.stderr).toBe("")
      expect(help.stdout).toContain("EXAMPLES")
    }
  })

  test("that is mistyped is a usage error on stderr, with what was meant", async () => {
    const { code, stdout, stderr } = await cli(["triger"])
    expect([code, stdout]).toEqual([64, ""])
    expect(stderr).toContain("trigger")
  })

  test("with a wrong flag, a wrong value or a missing argument exits 64 and prints no data", async () => {
    for (const args of [
      ["run", "--nope"],
      ["trigger"],
      ["trigger", "a.b", "-n", "many"],
      ["trigger", "a.b", "-n", "0"],
      ["lanes"],
      [],
    ]) {
      const { code, stdout, stderr } = await cli(args)
      expect([args, code, stdout]).toEqual([args, 64, ""])
      expect(stderr).not.toBe("")
    }
  })

  test("takes --config and --json before and after its name", async () => {
    const file = config()
    const [before, after] = [
      await cli(["-c", file, "--json", "explain", "block.created"]),
      await cli(["explain", "block.created", "--config", file, "--json"]),
    ]
    expect(before).toEqual(after)
    expect(JSON.parse(before.stdout)).toMatchObject({ type: "block.created", sinks: ["audit"] })
  })

  test("completes in bash, zsh and fish", async () => {
    for (const shell of ["bash", "zsh", "fish"]) {
      const { code, stdout } = await cli(["--completions", shell])
      expect(code).toBe(0)
      for (const command of Object.keys(listed)) expect(stdout).toContain(command)
    }
  })

  test("without its config exits 78 and says what to do", async () => {
    for (const command of [["run"], ["validate"], ["test"], ["explain", "a.b"], ["trigger", "a.b"], ["status"]]) {
      const { code, stderr } = await cli([...command, "-c", join(directory, "missing.json")])
      expect([command, code]).toEqual([command, 78])
      expect(stderr).toContain("relay init")
      expect(stderr).not.toMatch(/\n\s+at /)
    }
  })

  test("that needs a running relay exits 69 and names address and config", async () => {
    const file = config()
    for (const command of [
      ["status"],
      ["lanes", "list"],
      ["lanes", "pause", "audit"],
      ["dlq", "list"],
      ["dlq", "replay", "--all"],
      ["replay", "--sink", "audit", "--since", "1 hour"],
      ["journal", "acknowledge"],
      ["journal", "import", salvaged()],
    ]) {
      const { code, stderr } = await cli([...command, "-c", file])
      expect([command, code]).toEqual([command, 69])
      expect(stderr).toContain("http://127.0.0.1:2")
      expect(stderr).toContain(file)
    }
    const { code, stderr } = await cli(["trigger", "block.created", "-c", file])
    expect([code, stderr]).toEqual([69, expect.stringContaining("http://127.0.0.1:1/hooks")])
  })
})

describe("explain", () => {
  test("says which routes take a type, which don't, and why", async () => {
    const { stdout } = await cli(["explain", "appointment.meeting.create_failed", "-c", config()])
    expect(stdout).toMatch(/everything +takes it +matches \*\* +audit/)
    expect(stdout).toMatch(/failures +takes it +matches \*\*\.\*_failed +audit, screen/)
    expect(stdout).toContain("→ audit, screen")
    const other = await cli(["explain", "connected_account.refresh_failed", "-c", config()])
    expect(other.stdout).toMatch(/failures +- +excepted by connected_account\.\*/)
  })

  test("of a type outside the catalogue says so, with the nearest", async () => {
    const { code, stderr } = await cli(["explain", "appointment.creatd", "-c", config()])
    expect(code).toBe(0)
    expect(stderr).toContain("did you mean appointment.created?")
    expect((await cli(["explain", "appointment", "-c", config()])).code).toBe(64)
    expect((await cli(["explain", "a.b", "--webhook", "nope", "-c", config()])).code).toBe(64)
  })

  test("tells a route that depends on the event apart", async () => {
    const routes = [{ name: "some", match: "**", where: { "/account_id": "acct_1" }, to: "audit" }]
    const { stdout } = await cli(["explain", "block.created", "--json", "-c", config({ routes })])
    expect(JSON.parse(stdout)).toMatchObject({ sinks: [], conditional: ["audit"] })
  })
})

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

  test("exits 1 and names the sink that can't be reached", async () => {
    const sinks = { audit: { type: "file", path: join(config(), "audit.ndjson") }, screen: { type: "console" } }
    const { code, stdout, stderr } = await cli(["validate", "-c", config({ sinks })])
    expect(code).toBe(1)
    expect(stdout).toMatch(/audit +NOT REACHED +\S/)
    expect(stderr).toContain("audit")
  })

  test("tells all mistakes at once as JSON too, with their places and without the secrets", async () => {
    const file = config({ lisen: 1, routes: [{ name: "x", match: "**", to: "adit" }] })
    const { code, stdout, stderr } = await cli(["validate", "--json", "-c", file])
    expect(code).toBe(78)
    const { ok, diagnostics } = JSON.parse(stdout)
    expect(ok).toBe(false)
    expect(diagnostics.map(({ key }: { key: string }) => key)).toEqual(["routes[0].to", "lisen"])
    expect(stdout + stderr).not.toContain(canary)
  })
})

describe("init and schema", () => {
  test("init writes a config that validates, and never over another", async () => {
    const file = join(directory, "new.json")
    expect((await cli(["init", "-c", file])).code).toBe(0)
    const [, schema = ""] = /"\$schema": "(.*)"/.exec(readFileSync(file, "utf8")) ?? []
    expect(readFileSync(join(directory, schema), "utf8")).toBe((await cli(["schema"])).stdout)
    expect((await cli(["validate", "--offline", "-c", file])).code).toBe(0)
    expect((await cli(["test", "-c", file])).code).toBe(0)
    writeFileSync(file, "{}")
    const again = await cli(["init", "-c", file])
    expect([again.code, readFileSync(file, "utf8")]).toEqual([74, "{}"])
  })

  test("schema prints the JSON Schema, and nothing else", async () => {
    const { code, stdout } = await cli(["schema"])
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ $schema: expect.stringContaining("json-schema.org") })
  })
})

describe("journal", () => {
  test("check of a journal that is not there exits 74", async () => {
    const { code, stderr } = await cli(["journal", "check", "-c", config()])
    expect([code, stderr]).toEqual([74, expect.stringContaining("There is no journal")])
  })
})
