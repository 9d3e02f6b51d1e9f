import { describe, expect } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Redacted } from "effect"
import { it } from "../../lib/effect.ts"
import { cli, temporary } from "../harness.ts"
import { runningIn } from "../running.ts"

const directory = temporary()
const running = runningIn(directory)

describe("asking a running relay", () => {
  it.live("sends the token of the config, and reports a wrong token without showing it", function* () {
    const admin = { listen: { host: "127.0.0.1", port: 9080 }, token: Redacted.make("the-right-token") }
    expect((yield* (yield* running({ admin }, "the-right-token")).ask("lanes", "list")).code).toBe(0)
    const { code, stderr } = yield* (yield* running({ admin }, "another-token")).ask("lanes", "list")
    expect([code, stderr]).toEqual([69, expect.stringContaining("rejects the token")])
    expect(stderr).not.toContain("another-token")
  })

  it.live("with --as, that token of the config is sent, and with its role read it changes nothing", function* () {
    const tokens = [
      { name: "ada", role: "operate", value: "the-token-of-ada" },
      { name: "screen", role: "read", value: "the-token-of-the-screen" },
    ] as const
    const known = tokens.map(({ value, ...one }) => ({ ...one, value: Redacted.make(value) }))
    const { ask, told } = yield* running({ admin: { tokens: known } }, { tokens })
    expect((yield* ask("lanes", "list", "--as", "screen")).code).toBe(0)
    expect(yield* ask("lanes", "pause", "lake", "--as", "screen")).toEqual({
      code: 1,
      stdout: "",
      stderr: "relay: the token screen has the role read and can't change anything: use one with the role operate\n",
    })
    expect(yield* told).toEqual([])
    expect((yield* ask("lanes", "pause", "lake")).code).toBe(0)
    const nobody = yield* ask("status", "--as", "nobody")
    expect([nobody.code, nobody.stderr]).toEqual([
      78,
      expect.stringContaining("has no admin token called nobody: it has ada, screen"),
    ])
    const { stdout } = yield* ask("audit", "--as", "screen")
    expect(stdout.split("\n")[0]).toMatch(/^ *TIME +WHO +BY +WHAT +ON +RESULT$/)
    expect(stdout).toMatch(/ada +the command line +lanes pause +lake +done\n/)
    expect(stdout).toMatch(/screen +the command line +lanes pause +lake +refused: the token screen/)
    const changed = known.map((one) => ({ ...one, value: Redacted.make("another") }))
    const other = yield* (yield* running({ admin: { tokens: changed } }, { tokens })).ask("status")
    expect([other.code, other.stderr]).toEqual([
      69,
      expect.stringMatching(/rejects the token ada of .*\(admin\.tokens\)/),
    ])
  })

  it.live("another program at the address isn't a relay", function* () {
    const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => Response.json({ hello: "world" }) })
    const file = join(directory, "other.json")
    writeFileSync(file, JSON.stringify({ admin: { listen: `127.0.0.1:${server.port}` } }))
    const { code, stderr } = yield* Effect.promise(() => cli(["status", "-c", file]))
    expect([code, stderr]).toEqual([69, expect.stringContaining("not a relay of this version: another program")])
    yield* Effect.promise(() => server.stop(true))
  })
})
