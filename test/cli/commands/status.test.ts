import { describe, expect } from "bun:test"
import { Effect } from "effect"
import { lane } from "../../admin/fixture.ts"
import { it } from "../../lib/effect.ts"
import { temporary } from "../harness.ts"
import { runningIn } from "../running.ts"

const directory = temporary()
const running = runningIn(directory)

describe("status", () => {
  it.live("status exits 0 when all is well and 1 when something is red, as text and as JSON", () =>
    Effect.gen(function* () {
      const well = yield* running({
        lanes: [lane("lake", { condition: "waiting", message: "it refuses connections" })],
      })
      expect((yield* well.ask("status")).code).toBe(0)
      const ill = yield* running({ lanes: [lane("lake", { condition: "misconfigured", message: "it answers 401" })] })
      const text = yield* ill.ask("status")
      expect([text.code, text.stderr]).toEqual([1, ""])
      expect(text.stdout).toStartWith("lake: misconfigured; it answers 401")
      const asJson = yield* ill.ask("status", "--json")
      expect(asJson.code).toBe(1)
      expect(JSON.parse(asJson.stdout)).toMatchObject({ red: true, lanes: [{ name: "lake" }] })
    }).pipe(Effect.orDie),
  )
})
