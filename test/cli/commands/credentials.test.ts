/** A config whose secrets are credentials of the service, as a package installs it, read by another process. */
import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Redacted } from "effect"
import { it } from "../../lib/effect.ts"
import { configsIn } from "../configs.ts"
import { cli, temporary } from "../harness.ts"
import { runningIn } from "../running.ts"

const directory = temporary()
const config = configsIn(directory)
const running = runningIn(directory)
const credential = (name: string) => `file:\${CREDENTIALS_DIRECTORY}/${name}`
const told = "can't be read here: it is a credential of the service"

const packaged = (listen = "127.0.0.1:2") => {
  const path = join(directory, "audit.ndjson")
  return config({
    admin: { listen, token: credential("admin-token") },
    webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: credential("scheduling") }] } },
    sinks: { audit: { type: "file", path }, oncall: { type: "http", url: credential("oncall-url") } },
    routes: [{ name: "everything", match: "**", to: ["audit", "oncall"] }],
  })
}

describe("where the service's credentials can't be read", () => {
  test("validate checks everything else, and lists the checks that it leaves out", async () => {
    const { code, stdout, stderr } = await cli(["validate", "-c", packaged()])
    expect([code, stdout]).toEqual([0, expect.stringMatching(/audit +reached/)])
    expect(stdout).toContain("2 sinks, 1 of them reached")
    expect(stdout).not.toContain("oncall")
    for (const key of ["webhooks.scheduling.secrets[0].value", "sinks.oncall.url", "admin.token"]) {
      expect(stderr).toMatch(new RegExp(`${RegExp.escape(key)} +${told}`))
    }
    expect(stderr).not.toContain("is not set")
  })

  test("doctor checks the rest too", async () => {
    const { stdout } = await cli(["doctor", "-c", packaged()])
    expect(stdout).toMatch(
      new RegExp(`warning +secret +sinks\\.oncall\\.url +${told}, so what needs it is not checked`),
    )
    expect(stdout).toMatch(/ok +sink +audit +reached/)
    expect(stdout).not.toMatch(/sink +oncall/)
  })

  test("a missing variable or credential is still an error", async () => {
    const lacking = config({ sinks: { audit: { type: "http", url: "${NOWHERE}" }, screen: { type: "console" } } })
    expect((await cli(["validate", "-c", lacking])).code).toBe(78)
    const env = { CREDENTIALS_DIRECTORY: directory }
    const absent = await cli(["validate", "-c", packaged()], { env })
    expect([absent.code, absent.stderr]).toEqual([78, expect.stringContaining("there is no such file")])
  })

  it.live("status needs no secret, and says so if the relay requires a token", function* () {
    const open = yield* (yield* running({}, credential("admin-token"))).ask("status")
    expect([open.stderr, open.stdout]).toEqual(["", expect.stringContaining("lake")])
    const admin = { listen: { host: "127.0.0.1", port: 9080 }, token: Redacted.make("the-right-token") }
    const relay = yield* running({ admin }, credential("admin-token"))
    const guarded = yield* relay.ask("status")
    expect([guarded.code, guarded.stderr]).toEqual([69, expect.stringContaining(told)])
    // Doctor can't query this relay, which is not a fault.
    const { listen } = JSON.parse(readFileSync(relay.file, "utf8")).admin
    const file = packaged(listen)
    const { stdout } = yield* Effect.promise(() => cli(["doctor", "-c", file]))
    expect(stdout).toMatch(/warning +relay +status +not checked: .* wants a token/i)
    expect(stdout).toMatch(/ok +port +admin\.listen +\S+ is taken by a relay, which wants a token/)
    expect(stdout).not.toContain("stop it")
  })
})
