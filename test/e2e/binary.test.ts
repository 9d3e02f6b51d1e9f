/**
 * The compiled binary starts quickly, and ignores other programs' files in its working directory. Runs unless
 * RELAY_UNDER selects the source.
 */
import { describe, expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { writeConfig } from "../lib/kit.ts"
import { relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const under = process.env.RELAY_UNDER ?? "binary"
if (under !== "binary") console.warn(`skipped: the binary: RELAY_UNDER=${under} asks for the source`)

describe.if(under === "binary")("the binary", () => {
  const cwd = temporaryDirectory("binary-")

  // A program compiled by Bun reads these files by default.
  writeFileSync(join(cwd, ".env"), "AUDIT_PATH=/nonexistent/evil.ndjson\n")
  writeFileSync(join(cwd, ".env.local"), "AUDIT_PATH=/nonexistent/evil.ndjson\n")
  writeFileSync(join(cwd, "bunfig.toml"), 'preload = ["./evil.ts"]\n')
  writeFileSync(join(cwd, "evil.ts"), 'console.log("EVIL"); process.exit(99)\n')
  writeFileSync(join(cwd, "tsconfig.json"), "{ this is not JSON")
  writeFileSync(join(cwd, "package.json"), "{ nor is this")

  const sinks = { audit: { type: "file", path: `\${AUDIT_PATH:-${join(cwd, "audit.ndjson")}}` } }
  const write = () => writeConfig(cwd, sinks, {}, "relay.config.json")

  test("prints its help", async () => {
    const { code, stdout, stderr } = await relay(["--help"], { cwd })
    expect([code, stderr]).toEqual([0, ""])
    expect(stdout).toContain("SUBCOMMANDS")
  })

  test("reads no .env, no bunfig.toml, no tsconfig.json and no package.json of its directory", async () => {
    await write()
    const { code, stdout, stderr } = await relay(["validate"], { cwd })
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
    expect(stdout).not.toContain("EVIL")
    expect(stdout).toMatch(/audit +reached/)
  })

  test("relays, with the journal's worker in it", async () => {
    const { config } = await write()
    const running = await startRelay(config, { cwd })
    const { code, stdout } = await relay(["trigger", "block.created", "-n", "50"], { cwd })
    expect([code, stdout]).toEqual([0, expect.stringContaining("50 × 202")])
    expect(await running.kill()).toBe(0)
    expect(running.stderr()).not.toMatch(/WARN|ERROR/)
  })

  test("answers a crash of its own with words, not with its source", async () => {
    const { code, stderr } = await relay(["validate", "-c", "/proc/self/mem"], { cwd })
    expect(code).toBe(78)
    expect(stderr.length).toBeLessThan(1000)
  })
})
