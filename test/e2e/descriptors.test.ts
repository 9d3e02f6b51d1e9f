/** Connections that use up the file descriptors, under Bun, under Deno and as a binary. */
import { expect, test } from "bun:test"
import { existsSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import { join } from "node:path"
import { writeConfig } from "../lib/kit.ts"
import { relayBinary } from "../lib/programs.ts"
import { command, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { onEach } from "../lib/tries.ts"

const cwd = temporaryDirectory("descriptors-")

const programs = onEach<ReadonlyArray<string>>({
  Bun: command(undefined, "bun"),
  Deno: command(undefined, "deno"),
  "the binary": command(relayBinary()),
})

/** Sends requests until an answer starts with `begins`. */
const answers = async (url: string, begins: string): Promise<void> => {
  for (;;) {
    const asked = fetch(url, { headers: { connection: "close" }, signal: AbortSignal.timeout(1_000) })
    const answer = await asked.then((response) => response.text()).catch(() => undefined)
    if (answer?.startsWith(begins)) return
    await Bun.sleep(50)
  }
}

test.skipIf(!existsSync("/proc/self/fd")).concurrent.each(programs)(
  "under %s, a relay without free file descriptors serves its admin API, and accepts deliveries when some are free",
  async (_, words) => {
    const { config, url, admin, ports } = await writeConfig(cwd)
    const script = join(cwd, `${config}.sh`)
    writeFileSync(script, `#!/bin/sh\nulimit -n 72 && exec ${words.map((word) => `'${word}'`).join(" ")} "$@"\n`, {
      mode: 0o755,
    })
    const running = await startRelay(config, { cwd, binary: script })
    const sockets = Array.from({ length: 200 }, () => connect(ports[0], "127.0.0.1").on("error", () => {}))
    try {
      await running.prints(/file descriptors are used up .*no delivery is accepted/)
      // Deno closes idle connections with the listener, so descriptors may be free immediately.
      await answers(`${admin}/readyz`, "")
      await answers(`${admin}/healthz`, "ok")
      await answers(`${admin}/api/v1/status`, "{")
      for (const socket of sockets) socket.destroy()
      await answers(`${admin}/readyz`, "ready")
      await answers(`${new URL(url).origin}/nowhere`, '{"status":404')
    } finally {
      for (const socket of sockets) socket.destroy()
    }
    expect(await running.kill()).toBe(0)
    expect(running.stderr()).toContain("there are file descriptors again")
  },
  60_000,
)
