/** Access to the admin API of a running relay. RELAY_UNDER selects the runtime, or the binary. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { connect } from "node:net"
import { writeConfig } from "../lib/kit.ts"
import { freePort } from "../lib/port.ts"
import { type Relay, relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const cwd = temporaryDirectory("admin-")
const token = "a-token-of-this-test"

const write = async (name: string, admin: object, more: object = {}): Promise<string> => {
  const sinks = { audit: { type: "file", path: `${name}.ndjson` } }
  const { config } = await writeConfig(cwd, sinks, { admin, ...more }, `${name}.json`)
  return config
}

interface Started {
  readonly file: string
  readonly port: number
  readonly running: Relay
}

const start = async (name: string, guarded: boolean): Promise<Started> => {
  const port = await freePort()
  const file = await write(name, { listen: `127.0.0.1:${port}`, ...(guarded && { token }) })
  return { file, port, running: await startRelay(file, { cwd }) }
}

const startAtAll = async (): Promise<Started> => {
  const port = await freePort()
  const file = await write("all", { listen: `*:${port}`, token }, { listen: `*:${await freePort()}` })
  return { file, port, running: await startRelay(file, { cwd }) }
}

const kinds = { open: {} as Started, guarded: {} as Started }
beforeAll(async () => {
  kinds.open = await start("open", false)
  kinds.guarded = await start("guarded", true)
})
afterAll(() => Promise.all(Object.values(kinds).map(({ running }) => running.kill())))

/** Sends a request as bytes, because a client would set its own Host. Returns the status. */
const ask = (
  { port }: Started,
  line: string,
  headers: Readonly<Record<string, string>> = {},
  body = "",
): Promise<number> =>
  new Promise((resolve, reject) => {
    const all = { host: `127.0.0.1:${port}`, "content-length": String(body.length), connection: "close", ...headers }
    const head = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
    const socket = connect(port, "127.0.0.1", () => socket.write(`${line} HTTP/1.1\r\n${head.join("")}\r\n${body}`))
    socket.once("data", (chunk) => {
      resolve(Number(/^HTTP\/1\.1 (\d+)/.exec(String(chunk))?.[1]))
      socket.destroy()
    })
    socket.on("error", reject)
  })

const bearer = { authorization: `Bearer ${token}` }
const pause = "POST /api/v1/lanes/audit/pause"

describe("the admin API on loopback", () => {
  test("takes nothing from a page of another site, with a token or without", async () => {
    const port = () => kinds.open.port
    const site = { origin: "https://evil.example", "sec-fetch-site": "cross-site" }
    const type = { "content-type": "application/x-www-form-urlencoded" }
    for (const headers of [
      { ...site, ...type },
      site,
      type,
      { origin: "null", ...type },
      { origin: `http://127.0.0.1:${port() + 1}` },
      { origin: `http://localhost.evil.example:${port()}` },
      { "sec-fetch-site": "same-site" },
    ]) {
      expect(await ask(kinds.open, pause, headers, "a=b")).toBe(403)
      expect(await ask(kinds.guarded, pause, { ...headers, ...bearer }, "a=b")).toBe(403)
    }
  })

  test("is not there under a name that was rebound to this machine", async () => {
    for (const line of ["GET /api/v1/status", pause, "GET /metrics"]) {
      for (const host of ["evil.example", `evil.example:${kinds.open.port}`, "127.0.0.1.evil.example", "2130706433"]) {
        expect([line, host, await ask(kinds.open, line, { host })]).toEqual([line, host, 421])
        expect(await ask(kinds.guarded, line, { host })).toBe(421)
      }
    }
  })

  test("refuses a Host that no URL can have, and takes no odd path for a bug", async () => {
    for (const line of ["GET /api/v1/status", pause, "GET /metrics", "GET /healthz"]) {
      for (const host of ["localhost:99999", "127.0.0.1:65536", "127.0.0.999", "[:::1]:9080", "xn--a"]) {
        expect([line, host, await ask(kinds.open, line, { host })]).toEqual([line, host, 400])
      }
    }
    for (const path of [
      "/%zz",
      "/api/v1/events/%zz",
      "/api/v1/events/%ff",
      "/api/v1/events?limit=%zz",
      "//a:99999/b",
    ]) {
      expect([path, Math.floor((await ask(kinds.open, `GET ${path}`)) / 100)]).toEqual([path, 4])
    }
    expect(kinds.open.running.stderr()).not.toContain("a bug")
  })

  test("requires the token if the config has one, except for probes", async () => {
    for (const line of ["GET /api/v1/status", "GET /metrics", "GET /openapi.json", pause]) {
      for (const headers of [{}, { authorization: "Bearer wrong" }, { authorization: token }]) {
        expect([line, await ask(kinds.guarded, line, headers)]).toEqual([line, 401])
      }
    }
    expect(await ask(kinds.guarded, "GET /api/v1/status", bearer)).toBe(200)
    for (const probe of ["GET /healthz", "GET /readyz"]) expect(await ask(kinds.guarded, probe)).toBe(200)
  })

  test("carries out nothing that it refused, and everything that the command line requests", async () => {
    for (const started of Object.values(kinds)) {
      const { stdout } = await relay(["status", "--json", "-c", started.file], { cwd })
      expect(JSON.parse(stdout).lanes.find(({ name }: { name: string }) => name === "audit").condition).toBe("running")
      expect((await relay(["lanes", "pause", "audit", "-c", started.file], { cwd })).code).toBe(0)
    }
  })
})

test("beyond loopback the admin API does not start without a token", async () => {
  const file = await write("beyond", { listen: `0.0.0.0:${await freePort()}` })
  const { code, stderr } = await relay(["run", "-c", file], { cwd })
  expect([code, stderr]).toEqual([78, expect.stringContaining("has no token")])
})

describe("a relay that listens at *", () => {
  test("is found by every command that asks it, and by a delivery", async () => {
    const { file, running } = await startAtAll()
    try {
      for (const args of [["status"], ["lanes", "list"], ["reload"], ["trigger", "client.created"], ["dlq", "list"]]) {
        const { code, stderr } = await relay([...args, "-c", file], { cwd })
        expect([args, code, stderr]).toEqual([args, 0, expect.any(String)])
      }
      const { stdout } = await relay(["doctor", "-c", file], { cwd })
      expect(stdout.match(/is taken by the running relay/g)).toHaveLength(2)
    } finally {
      await running.kill()
    }
  }, 60_000)
})

test("probes are answered on the delivery port if the config says so, and nothing else of the admin API", async () => {
  const port = await freePort()
  const own = { listen: `127.0.0.1:${await freePort()}` }
  const file = await write("probes", own, { listen: `127.0.0.1:${port}`, probes: true })
  const running = await startRelay(file, { cwd })
  try {
    const started = { file, port, running }
    for (const [line, status] of [
      ["GET /healthz", 200],
      ["GET /readyz", 200],
      ["HEAD /readyz", 200],
      ["POST /readyz", 404],
      ["GET /metrics", 404],
      ["GET /hooks", 405],
      ["POST /hooks", 415],
    ] as const) {
      expect([line, await ask(started, line, { host: "relay.example.com" })]).toEqual([line, status])
    }
  } finally {
    await running.kill()
  }
})
