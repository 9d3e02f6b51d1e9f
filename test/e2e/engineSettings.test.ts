/** The settings of the engine that `relay run` gives itself. */
import { afterAll, describe, expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { missing } from "../../src/runtime/EngineSettings.ts"
import { freePort } from "../lib/port.ts"
import { relayBinary } from "../lib/programs.ts"
import { command, startRelay } from "../lib/relay.ts"

const cwd = mkdtempSync(join(tmpdir(), "relay-settings-"))
afterAll(() => rmSync(cwd, { recursive: true }))

const programs = { bun: { under: "bun" }, "the binary": { binary: relayBinary() } } as const
const usual = Object.fromEntries(missing(["run"], {}).map((setting) => setting.split("=")))
const config = "relay.config.json"

describe.skipIf(process.platform !== "linux").each(Object.entries(programs))("under %s", (_, program) => {
  test.each([
    ["runs with them, in the process that was started", {}],
    ["keeps those that it was given, and the rest of its environment", { BUN_JSC_forceRAMSize: "0", ODD: " = 'ü\n" }],
  ])(
    "it %s",
    async (_, env) => {
      const ports = { listen: `127.0.0.1:${await freePort()}`, admin: { listen: `127.0.0.1:${await freePort()}` } }
      writeFileSync(join(cwd, config), JSON.stringify({ ...example, ...ports }))
      const running = await startRelay(config, { cwd, env, ...program })
      const found = (file: string) => readFileSync(`/proc/${running.pid}/${file}`, "utf8").split("\0").slice(0, -1)
      const [words, variables] = [found("cmdline"), found("environ")]
      await running.kill()
      expect(words.slice(-5)).toEqual(["run", "-c", config, "--log-format", "text"])
      const lines = Object.entries<string>({ ...usual, ...env }).map(([name, value]) => `${name}=${value}`)
      expect(variables).toEqual(expect.arrayContaining(lines))
      expect(new Set(variables.map((line) => line.split("=")[0])).size).toBe(variables.length)
    },
    60_000,
  )
})

test.skipIf(process.platform !== "linux")(
  "a config is still read from a descriptor that the relay was started with",
  () => {
    writeFileSync(join(cwd, "odd.json"), JSON.stringify({ ...example, odd: 1 }))
    const words = ["-c", 'exec 9< odd.json; exec "$@"', "sh", ...command(relayBinary()), "run", "-c", "/dev/fd/9"]
    const { exitCode, stderr } = Bun.spawnSync(["sh", ...words], { cwd })
    expect([exitCode, stderr.toString()]).toEqual([78, expect.stringContaining('unknown key "odd"')])
  },
)

const example = {
  webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: "a-secret-of-this-test" }] } },
  sinks: { file: { type: "file", path: "events.ndjson" } },
  routes: [{ name: "everything", match: "**", to: "file" }],
}
