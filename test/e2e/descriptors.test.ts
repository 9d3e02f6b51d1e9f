/** Connections that use up the file descriptors, on Bun, on Deno and with the binary. */
import { afterAll, expect, test } from "bun:test"
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../lib/port.ts"
import { relayBinary } from "../lib/programs.ts"
import { command, startRelay } from "../lib/relay.ts"
import { onEach } from "../lib/tries.ts"

const cwd = mkdtempSync(join(tmpdir(), "relay-descriptors-"))
afterAll(() => rmSync(cwd, { recursive: true }))

const programs = onEach<ReadonlyArray<string>>({
  Bun: command(undefined, "bun"),
  Deno: command(undefined, "deno"),
  "the binary": command(relayBinary()),
})

/** Asks until an answer begins so. */
const answers = async (url: string, begins: string): Promise<void> => {
  for (;;) {
    const asked = fetch(url, { headers: { connection: "close" }, signal: AbortSignal.timeout(1_000) })
    const answer = await asked.then((response) => response.text()).catch(() => undefined)
    if (answer?.startsWith(begins)) return
    await Bun.sleep(50)
  }
}

test.skipIf(!existsSync("/proc/self/fd")).concurrent.each(programs)(
  "%s: the admin side goes on, and deliveries are accepted again when they are gone",
  async (name, words) => {
    const [deliveries, admin] = [await freePort(), await freePort()]
    const config = `${name.replace(" ", "-")}.json`
    const script = join(cwd, `${config}.sh`)
    writeFileSync(script, `#!/bin/sh\nulimit -n 72 && exec ${words.map((word) => `'${word}'`).join(" ")} "$@"\n`, {
      mode: 0o755,
    })
    writeFileSync(
      join(cwd, config),
      JSON.stringify({
        listen: `127.0.0.1:${deliveries}`,
        admin: { listen: `127.0.0.1:${admin}` },
        journal: { path: `${config}.db` },
        webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: "a-secret-of-this-test" }] } },
        sinks: { audit: { type: "file", path: `${config}.ndjson` } },
        routes: [{ name: "everything", match: "**", to: "audit" }],
      }),
    )
    const running = await startRelay(config, { cwd, binary: script })
    const sockets = Array.from({ length: 200 }, () => connect(deliveries, "127.0.0.1").on("error", () => {}))
    try {
      await running.prints(/file descriptors are used up .*no delivery is accepted/)
      // Deno ends idle connections with the listener, so that it may be over at once.
      await answers(`http://127.0.0.1:${admin}/readyz`, "")
      await answers(`http://127.0.0.1:${admin}/healthz`, "ok")
      await answers(`http://127.0.0.1:${admin}/api/v1/status`, "{")
      for (const socket of sockets) socket.destroy()
      await answers(`http://127.0.0.1:${admin}/readyz`, "ready")
      await answers(`http://127.0.0.1:${deliveries}/nowhere`, '{"status":404')
    } finally {
      for (const socket of sockets) socket.destroy()
    }
    expect(await running.kill()).toBe(0)
    expect(running.stderr()).toContain("there are file descriptors again")
  },
  60_000,
)
