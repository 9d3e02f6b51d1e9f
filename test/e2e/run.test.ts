/** `relay run` as a process: its output and its end. RELAY_UNDER selects the runtime, or the binary. */
import { describe, expect, test } from "bun:test"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { writeConfig } from "../lib/kit.ts"
import { relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const cwd = temporaryDirectory("run-")

const write = async (name: string, sinks: object): Promise<string> => {
  const routes = [
    { name: "everything", match: "**", to: Object.keys(sinks)[0] },
    { name: "failures", match: "**.*_failed", to: Object.keys(sinks) },
  ]
  const { config } = await writeConfig(cwd, sinks, { routes }, name)
  return config
}

const files = { audit: { type: "file", path: "audit.ndjson" }, trouble: { type: "file", path: "trouble.ndjson" } }
const typesIn = (file: string): ReadonlyArray<string> => {
  if (!existsSync(join(cwd, file))) return []
  const lines = readFileSync(join(cwd, file), "utf8").split("\n").slice(0, -1)
  return lines.map((line) => JSON.parse(line).data.type)
}

describe("relay run", () => {
  test("prints its address, the targets of events, and commands that work when pasted", async () => {
    const config = await write("first.json", files)
    const running = await startRelay(config, { cwd })
    await running.prints(/create_failed/)
    expect(running.stderr()).toMatch(/scheduling +http:\/\/127\.0\.0\.1:\d+\/hooks/)
    expect(running.stderr()).toMatch(/failures +\*\*\.\*_failed +→ audit \(file\), trouble \(file\)/)
    expect(running.stderr()).not.toContain("a-secret-of-this-test")
    const lines = running
      .stderr()
      .split("\n")
      .filter((line) => line.includes(" trigger "))
    expect(lines).toHaveLength(2)
    if (process.env.RELAY_UNDER !== "deno") {
      for (const line of lines) {
        const pasted = Bun.spawnSync(["sh", "-c", line], { cwd, env: { PATH: process.env.PATH ?? "" } })
        expect([pasted.exitCode, pasted.stdout.toString()]).toEqual([0, expect.stringMatching(/^202 {2}evt_/)])
      }
    } else {
      for (const type of ["appointment.created", "appointment.meeting.create_failed"]) {
        expect((await relay(["trigger", type, "-c", config], { cwd })).code).toBe(0)
      }
    }
    // A drain leaves events without an attempt to the next start, so this waits until all have arrived.
    while (typesIn("audit.ndjson").length < 2 || typesIn("trouble.ndjson").length < 1) await Bun.sleep(10)
    expect(await running.kill("SIGTERM")).toBe(0)
    expect(typesIn("audit.ndjson")).toEqual(["appointment.created", "appointment.meeting.create_failed"])
    expect(typesIn("trouble.ndjson")).toEqual(["appointment.meeting.create_failed"])
  })

  test("continues after the signals that make other servers reopen their logs, and says so", async () => {
    const running = await startRelay(await write("signals.json", files), { cwd })
    running.signal("SIGUSR1")
    running.signal("SIGUSR2")
    await running.prints("SIGUSR1 or SIGUSR2 was ignored: the relay logs to stderr")
    expect(await running.kill("SIGTERM")).toBe(0)
  })

  test("says what a stop waits for and until when, and ends immediately on a second signal, with that signal's code", async () => {
    let asked = (): void => {}
    const arrived = new Promise<void>((resolve) => {
      asked = resolve
    })
    // The target never answers, so the drain waits for it.
    const sink = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      idleTimeout: 0,
      fetch: () => {
        asked()
        return new Promise<Response>(() => {})
      },
    })
    const config = await write("stuck.json", { stuck: { type: "http", url: `http://127.0.0.1:${sink.port}/` } })
    const running = await startRelay(config, { cwd })
    await relay(["trigger", "block.created", "-c", config], { cwd })
    await arrived
    running.signal("SIGTERM")
    await running.prints(/SIGTERM: draining, until \S+Z at the latest/)
    await running.prints(/waiting for attempts in flight: stuck \(1\), for 8s at most/)
    expect(await running.kill("SIGINT")).toBe(130)
    expect(running.stderr()).toMatch(/SIGINT again: exiting immediately; everything accepted is on disk/)
    await sink.stop(true)
  })

  test("refuses to start if another relay listens there or the config is wrong, and says why", async () => {
    const config = await write("taken.json", files)
    const running = await startRelay(config, { cwd })
    const second = await relay(["run", "-c", config], { cwd })
    expect(second.code).toBe(74)
    expect(second.stderr).not.toMatch(/\n\s+at /)
    expect(second.stderr).not.toContain("internal error")
    await running.kill()
    writeFileSync(join(cwd, "wrong.json"), '{ "listen": 1 }')
    const wrong = await relay(["run", "-c", "wrong.json"], { cwd })
    expect([wrong.code, wrong.stdout]).toEqual([78, ""])
  })

  test("refuses a tampered delivery, and reports it on status", async () => {
    const config = await write("tamper.json", files)
    const running = await startRelay(config, { cwd })
    const tampered = await relay(["trigger", "client.created", "--tamper", "-c", config], { cwd })
    expect([tampered.code, tampered.stdout]).toEqual([0, expect.stringMatching(/^401 {2}evt_/)])
    const status = await relay(["status", "--json", "-c", config], { cwd })
    expect(status.code).toBe(0)
    expect(JSON.parse(status.stdout)).toMatchObject({ level: "warning", journal: { health: "ok", head: 0 } })
    await running.kill()
  })
})
