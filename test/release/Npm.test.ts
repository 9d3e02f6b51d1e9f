/** The npm package, installed by npm into an empty directory and run by npx. */
import { expect, test } from "bun:test"
import { spawn, spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import manifest from "../../package.json" with { type: "json" }
import { Sender, secret } from "../faults/relay/Traffic.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { root } from "../lib/programs.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import * as Npm from "./Npm.ts"
import { versionOf } from "./Version.ts"

const lacking = (): string | undefined => {
  if (process.env.RELAY_PARTS !== "1") return "RELAY_PARTS=1 bun test runs it, with npm"
  return Bun.which("npx") === null ? "it needs npm" : undefined
}

suiteUnless(lacking(), "the npm package", () => {
  test("runs by npx as npm installs it by default, and again after npm has installed it twice", async () => {
    const cwd = temporaryDirectory("npm-")
    const tarball = await Npm.make({ root, version: versionOf(root), into: cwd })
    writeFileSync(join(cwd, "package.json"), "{}")
    for (const _ of ["once", "again"]) {
      const { status, stderr } = spawnSync("npm", ["install", tarball], { cwd, encoding: "utf8" })
      expect([status, status === 0 ? "" : stderr]).toEqual([0, ""])
      const version = spawnSync("npx", ["relay", "--version"], { cwd, encoding: "utf8" })
      expect(version).toMatchObject({ status: 0, stdout: expect.stringContaining(manifest.version) })
    }
  }, 120_000)

  test("runs by npx without install scripts, accepts an event, and drains at SIGTERM", async () => {
    const cwd = temporaryDirectory("npm-")
    const tarball = await Npm.make({ root, version: versionOf(root), into: cwd })
    writeFileSync(join(cwd, "package.json"), "{}")
    const npm = (...args: ReadonlyArray<string>) => spawnSync("npm", args, { cwd, encoding: "utf8" })
    const { status, stderr } = npm("install", "--ignore-scripts", tarball)
    expect([status, status === 0 ? "" : stderr]).toEqual([0, ""])
    const version = spawnSync("npx", ["relay", "--version"], { cwd, encoding: "utf8" })
    expect(version).toMatchObject({ status: 0, stdout: expect.stringContaining(manifest.version) })

    // It reads its config, and none of the files that Bun would read.
    writeFileSync(join(cwd, ".env"), `SECRET=${secret}`)
    const config = readFileSync(join(root, "relay.config.json"), "utf8")
    const text = config.replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:0")
    writeFileSync(join(cwd, "relay.config.json"), text.replace("relay-development-secret", `\${SECRET}`))
    const launcher = join(cwd, "node_modules/.bin/relay")
    expect(spawnSync(launcher, ["validate"], { cwd, encoding: "utf8" })).toMatchObject({ status: 78 })
    writeFileSync(join(cwd, "relay.config.json"), text.replace("relay-development-secret", secret))

    const relay = spawn(launcher, ["run", "--log-format", "text"], {
      cwd,
      env: { ...process.env, RELAY_DRAIN_REFUSE: "0 seconds" },
    })
    let said = ""
    for (const stream of [relay.stdout, relay.stderr]) stream.on("data", (chunk) => (said += chunk))
    const ended = new Promise((resolve) => relay.once("close", resolve))
    while (!said.includes("try it") && relay.exitCode === null) await Bun.sleep(20)
    // The printed command works without bun on the PATH.
    expect(said).toContain("node_modules/relay/bin/relay.cjs trigger ")
    const [address = said] = /127\.0\.0\.1:[1-9]\d*/.exec(said) ?? []
    expect(await new Sender(address).send()).toBe(202)
    relay.kill("SIGTERM")
    expect(await ended).toBe(0)
    expect(said).toContain("drained")
  }, 120_000)
})
