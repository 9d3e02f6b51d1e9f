/** A relay that listens on a Unix socket. RELAY_UNDER selects the runtime, or the binary. */
import { describe, expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import { existsSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { writeConfig } from "../lib/kit.ts"
import { freePort } from "../lib/port.ts"
import { failing, relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { envelope, headers, secret } from "./http/fixture.ts"

const cwd = temporaryDirectory("unix-")
const socket = join(cwd, "relay.sock")
const file = join(cwd, "relay.config.json")

const write = (more: object = {}) =>
  writeConfig(
    cwd,
    { audit: { type: "file", path: "./events.ndjson" } },
    {
      listen: `unix:${socket}`,
      probes: true,
      webhooks: { scheduling: { path: "/hooks/scheduling", secrets: [{ name: "suite", value: secret }] } },
      ...more,
    },
    "relay.config.json",
  )

const run = (...args: ReadonlyArray<string>) => relay([...args, "-c", file], { cwd })

const send = (path: string, init: RequestInit = {}) => fetch(`http://localhost${path}`, { ...init, unix: socket })

/** `relay restart` requires Bun. */
describe.skipIf(process.env.RELAY_UNDER === "deno")("a restart at a Unix socket", () => {
  const deliver = async (): Promise<number> => {
    const body = envelope()
    return (await send("/hooks/scheduling", { method: "POST", body, headers: headers(body) })).status
  }

  test("leaves it to the second process", async () => {
    await write()
    const running = await startRelay(file, { cwd })
    const { code, stdout } = await run("restart", "--json")
    const { pid } = JSON.parse(stdout)
    try {
      expect([code, await deliver()]).toEqual([0, 202])
      await running.prints("drained")
      expect(await deliver()).toBe(202)
    } finally {
      process.kill(pid, "SIGTERM")
      await running.exited
    }
    expect(existsSync(socket)).toBe(false)
  })

  test("leaves it to the first process if the second one is killed", async () => {
    await write()
    const running = await startRelay(file, { cwd, env: failing("opened") })
    try {
      expect([(await run("restart")).code, await deliver()]).toEqual([1, 202])
    } finally {
      await running.kill()
    }
    expect(existsSync(socket)).toBe(false)
  })
})

describe("a relay at a Unix socket", () => {
  test("receives deliveries there, and every command finds it", async () => {
    const admin = { listen: `127.0.0.1:${await freePort()}` }
    await write({ admin, socket: { mode: "0606", group: String(process.getgid?.()) } })
    const running = await startRelay(file, { cwd })
    try {
      expect(running.stderr()).toContain(`unix:${socket} /hooks/scheduling`)
      expect(statSync(socket).mode & 0o777).toBe(0o606)
      const body = envelope()
      expect((await send("/hooks/scheduling", { method: "POST", body, headers: headers(body) })).status).toBe(202)
      expect(
        (
          await send("/hooks/scheduling", {
            method: "POST",
            body,
            headers: headers(body, { "x-service-signature": undefined }),
          })
        ).status,
      ).toBe(401)
      expect((await send("/readyz")).status).toBe(200)
      for (const args of [["status"], ["lanes", "list"], ["reload"], ["trigger", "client.created"], ["validate"]]) {
        const { code, stderr } = await run(...args)
        expect([args, code, stderr]).toEqual([args, 0, expect.any(String)])
      }
      expect((await run("doctor")).stdout).toContain(`unix:${socket} is taken by the running relay`)
      await write({ admin, socket: { mode: "0666" } })
      const { stdout, stderr } = await run("reload")
      expect(stdout + stderr).toContain("socket")
    } finally {
      expect(await running.kill()).toBe(0)
    }
    expect(existsSync(socket)).toBe(false)
  }, 60_000)

  test("replaces the socket of a killed relay, and leaves a running relay's socket unchanged", async () => {
    await write()
    const killed = await startRelay(file, { cwd })
    await killed.kill("SIGKILL")
    expect(statSync(socket).isSocket()).toBe(true)
    expect((await run("doctor")).stdout).toContain(`unix:${socket} is free`)
    const running = await startRelay(file, { cwd })
    try {
      expect(statSync(socket).mode & 0o777).toBe(0o660)
      await write({ journal: { path: "./other.db" }, sinks: { audit: { type: "file", path: "./other.ndjson" } } })
      const { code, stderr } = await run("run")
      expect([code, stderr]).toEqual([74, expect.stringContaining(`"listen", unix:${socket}, is taken: another relay`)])
      expect((await send("/readyz")).status).toBe(200)
    } finally {
      await running.kill()
    }
  }, 60_000)

  const starts = async (more: object): Promise<string> => {
    await write(more)
    const { code, stderr } = await run("run")
    expect(code).toBe(74)
    return stderr
  }

  test("doesn't start without a directory or group, or on another kind of file, and says why", async () => {
    expect(await starts({ listen: `unix:${cwd}/none/relay.sock` })).toContain("its directory does not exist")
    expect(await starts({ socket: { group: "no-such-group" } })).toContain('there is no group "no-such-group"')
    writeFileSync(socket, "")
    expect(await starts({})).toContain("is a file, and not a socket: remove it")
    expect(statSync(socket).isFile()).toBe(true)
  }, 60_000)

  test("has no temporary file left", () => {
    expect(spawnSync("ls", [cwd], { encoding: "utf8" }).stdout).not.toMatch(/relay\.sock\./)
  })
})
