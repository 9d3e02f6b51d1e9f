/** Commands with a relay that hangs, and with a relay that works for a long time. */
import { describe, expect } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Exit, Fiber, Latch } from "effect"
import { TestClock } from "effect/testing"
import { whileAlive } from "../../../src/cli/support/adminClient.ts"
import { it } from "../../lib/effect.ts"
import { configsIn } from "../configs.ts"
import { command, temporary } from "../harness.ts"

const directory = temporary()
const config = configsIn(directory)

/** A server that listens but never answers, like a process that was stopped. */
const mute = Effect.gen(function* () {
  const asked = yield* Latch.make()
  const server = yield* Effect.acquireRelease(
    Effect.sync(() =>
      Bun.listen({ port: 0, hostname: "127.0.0.1", socket: { open: () => void asked.openUnsafe(), data: () => {} } }),
    ),
    (server) => Effect.sync(() => server.stop(true)),
  )
  return { at: `127.0.0.1:${server.port}`, asked }
})

/** Returns how a command ends after it has connected and this time has passed. */
const after = Effect.fnUntraced(function* (time: "10 seconds" | "30 seconds", ...args: ReadonlyArray<string>) {
  const { at, asked } = yield* mute
  const file = config(args[0] === "trigger" ? { listen: at } : { admin: { listen: at } })
  const running = yield* Effect.forkChild(command([...args, "-c", file]))
  yield* asked.await
  yield* TestClock.adjust(time)
  return yield* Fiber.join(running)
})

const salvaged = join(directory, "salvaged.ndjson")
writeFileSync(
  salvaged,
  `${JSON.stringify({ journal: "j", in: "log", pending: ["audit"], sequence: 1, receivedAt: 1, replayed: false, bodyBase64: "e30=", id: "evt_1", type: "block.created", accountId: "", webhook: "a", webhookId: "", signature: "", secret: "" })}\n`,
)

describe("a relay that hangs", () => {
  for (const args of [
    ["status"],
    ["lanes", "list"],
    ["lanes", "pause", "audit"],
    ["lanes", "move", "old", "audit"],
    ["events"],
    ["events", "erase", "--account", "acct_1"],
    ["audit"],
    ["dlq", "list"],
    ["dlq", "replay", "--all"],
    ["reload"],
    ["replay", "--to", "audit", "--all"],
    ["replay", "list"],
    ["explain", "evt_x"],
    ["tap"],
    ["journal", "import", salvaged],
  ]) {
    it.effect(`ends ${args.slice(0, 2).join(" ")} after ten seconds`, function* () {
      const { code, stdout, stderr } = yield* after("10 seconds", ...args)
      expect([code, stdout, stderr]).toEqual([
        69,
        "",
        expect.stringContaining("the relay does not answer within 10s: it may hang"),
      ])
    })
  }

  it.effect("ends trigger, which says that a program listens there", function* () {
    const { code, stderr } = yield* after("30 seconds", "trigger", "block.created")
    expect(code).toBe(69)
    expect(stderr).toMatch(/the server at http:\/\/127\.0\.0\.1:\d+\/hooks does not answer within 30s/)
    expect(stderr).not.toContain("Is it running?")
  })
})

describe("a request that lasts", () => {
  it.effect("is not cut off while the relay is alive", function* () {
    const asking = yield* Effect.forkChild(whileAlive(Effect.void)(Effect.as(Effect.sleep("2 hours"), "done")))
    yield* TestClock.adjust("2 hours")
    expect(yield* Fiber.join(asking)).toBe("done")
  })

  it.effect("ends when the relay hangs in it, half a minute after the last heartbeat", function* () {
    let beats = 0
    const heartbeat = Effect.suspend(() => (beats++ < 3 ? Effect.void : Effect.never))
    const asking = yield* Effect.forkChild(Effect.exit(whileAlive(heartbeat)(Effect.never)))
    yield* TestClock.adjust("59 seconds")
    expect(asking.pollUnsafe()).toBeUndefined()
    yield* TestClock.adjust("1 second")
    const exit = yield* Fiber.join(asking)
    expect(Exit.isFailure(exit) && String(exit.cause)).toContain("the relay has not answered for 30s: it may hang")
  })
})
