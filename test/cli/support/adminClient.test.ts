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
  it.live("the token of the config is sent; one that does not fit is told as such, and not shown", () =>
    Effect.gen(function* () {
      const admin = { listen: { host: "127.0.0.1", port: 9080 }, token: Redacted.make("the-right-token") }
      expect((yield* (yield* running({ admin }, "the-right-token")).ask("lanes", "list")).code).toBe(0)
      const { code, stderr } = yield* (yield* running({ admin }, "another-token")).ask("lanes", "list")
      expect([code, stderr]).toEqual([69, expect.stringContaining("rejects the token")])
      expect(stderr).not.toContain("another-token")
    }).pipe(Effect.orDie),
  )

  it.live("another program on the address is no relay", () =>
    Effect.gen(function* () {
      const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => Response.json({ hello: "world" }) })
      const file = join(directory, "other.json")
      writeFileSync(file, JSON.stringify({ admin: { listen: `127.0.0.1:${server.port}` } }))
      const { code, stderr } = yield* Effect.promise(() => cli(["status", "-c", file]))
      expect([code, stderr]).toEqual([69, expect.stringContaining("not a relay of this version: another program")])
      yield* Effect.promise(() => server.stop(true))
    }).pipe(Effect.orDie),
  )
})
