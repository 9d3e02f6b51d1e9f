import { describe, expect } from "bun:test"
import { Duration, Effect } from "effect"
import * as Notify from "../../src/runtime/Notify.ts"
import { it } from "../lib/effect.ts"

describe("the service manager", () => {
  it.live("is absent if the environment names no usable socket", function* () {
    for (const NOTIFY_SOCKET of [undefined, "", "relative.sock", "vsock:2:1234", `/${"x".repeat(200)}`]) {
      expect((yield* Notify.make({ NOTIFY_SOCKET, WATCHDOG_USEC: "1000" })).isHeard).toBe(false)
    }
  })

  it.live("gets a sign of life as often as it requires, and from this process only", function* () {
    const watchdog = (env: Readonly<Record<string, string>>) =>
      Effect.map(Notify.make({ NOTIFY_SOCKET: "/nonexistent/notify.sock", ...env }), (notify) => notify.watchdog)
    const every = yield* watchdog({ WATCHDOG_USEC: "30000000" })
    expect(every && Duration.toSeconds(every)).toBe(30)
    expect(yield* watchdog({ WATCHDOG_USEC: "30000000", WATCHDOG_PID: String(process.pid) })).toBeDefined()
    for (const env of [
      {},
      { WATCHDOG_USEC: "0" },
      { WATCHDOG_USEC: "soon" },
      { WATCHDOG_USEC: "1", WATCHDOG_PID: "1" },
    ]) {
      expect(yield* watchdog(env)).toBeUndefined()
    }
  })
})
