import { describe, expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { lane } from "../../admin/fixture.ts"
import { it } from "../../lib/effect.ts"
import { freePort } from "../../lib/port.ts"
import { cli, temporary } from "../harness.ts"
import { runningIn } from "../running.ts"

const directory = temporary()
const running = runningIn(directory)

describe("status", () => {
  it.live("status exits 0 when all is well and 1 when something is critical, as text and as JSON", function* () {
    const well = yield* running({
      lanes: [lane("lake", { condition: "waiting", message: "it refuses connections" })],
    })
    expect((yield* well.ask("status")).code).toBe(0)
    const ill = yield* running({ lanes: [lane("lake", { condition: "misconfigured", message: "it answers 401" })] })
    const text = yield* ill.ask("status")
    expect([text.code, text.stderr]).toEqual([1, ""])
    expect(text.stdout).toStartWith("critical  lake: misconfigured; it answers 401")
    const asJson = yield* ill.ask("status", "--json")
    expect(asJson.code).toBe(1)
    expect(JSON.parse(asJson.stdout)).toMatchObject({
      level: "critical",
      problems: [{ level: "critical", state: "sink-misconfigured", name: "lake" }],
      lanes: [{ name: "lake" }],
    })
  })

  it.live("with --exit-code it exits as monitoring plugins do: 0, 1 with a warning, 2 when critical", function* () {
    const codes: Array<number> = []
    for (const condition of ["running", "waiting", "misconfigured"] as const) {
      const { ask } = yield* running({ lanes: [lane("lake", { condition })] })
      const { code, stderr } = yield* ask("status", "--exit-code")
      expect(stderr).toBe("")
      codes.push(code)
    }
    expect(codes).toEqual([0, 1, 2])
  })

  it.live("with --exit-code it exits 0 after one request of a stranger, and notes it", function* () {
    const { ask } = yield* running({
      lanes: [lane("lake")],
      refused: [{ webhook: "scheduling", reason: "method", detail: "", requestId: "abc-1", from: "203.0.113.7" }],
    })
    const { code, stdout } = yield* ask("status", "--exit-code", "--json")
    expect([code, JSON.parse(stdout).problems]).toMatchObject([0, [{ level: "note", state: "stranger-refused" }]])
  })

  test("with --exit-code it exits 3 if there is no status, and prints the reason on stdout", async () => {
    const config = join(directory, "nobody.json")
    writeFileSync(config, JSON.stringify({ admin: { listen: `127.0.0.1:${await freePort()}` } }))
    const nobody = await cli(["status", "--exit-code", "-c", config])
    expect(nobody).toEqual({ code: 3, stdout: expect.stringMatching(/^unknown {2}no relay answers at /), stderr: "" })
    writeFileSync(config, "{ wrong")
    for (const args of [
      ["-c", config],
      ["-c", join(directory, "absent.json")],
    ]) {
      const { code, stdout } = await cli(["status", "--exit-code", "--json", ...args])
      expect([code, JSON.parse(stdout)]).toEqual([3, { level: "unknown", message: expect.any(String) }])
    }
    expect((await cli(["status", "--exit-code", "--watch"])).code).toBe(64)
  })
})
