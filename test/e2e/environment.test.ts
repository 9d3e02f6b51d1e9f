/** Effects of the environment on the program, under Bun, under Deno and as a binary. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { goDirect, refusal } from "../../src/runtime/Environment.ts"
import { writeConfig } from "../lib/kit.ts"
import { freePort } from "../lib/port.ts"
import { denoBinary, relayBinary, root } from "../lib/programs.ts"
import { command, relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { onEach } from "../lib/tries.ts"

const cwd = temporaryDirectory("environment-")

const token = "an-admin-token-of-this-test"
interface Program {
  readonly under?: string
  readonly binary?: string
}
const programs = { bun: { under: "bun" }, deno: { under: "deno" }, "the binary": { binary: relayBinary() } }

/** Requests to a proxy that answers everything itself. */
const seen: Array<string> = []
const proxy = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: (request) => {
    seen.push(`${request.method} ${request.url} ${request.headers.get("authorization")}`)
    return new Response("{}")
  },
})
/** Requests to the relays' sink, which accepts everything. Their path names the relay. */
const received: Array<string> = []
const receiver = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: (request) => {
    received.push(new URL(request.url).pathname.slice(1))
    return new Response(null, { status: 204 })
  },
})
afterAll(() => Promise.all([proxy.stop(true), receiver.stop(true)]))

const at = `http://127.0.0.1:${proxy.port}`
const proxied = {
  HTTP_PROXY: at,
  HTTPS_PROXY: at,
  http_proxy: at,
  ALL_PROXY: at,
  NO_PROXY: "elsewhere.example",
  DENO_NO_UPDATE_CHECK: "1",
}

const configOf = (name: string) => `${encodeURIComponent(name)}.json`
beforeAll(async () => {
  for (const name of Object.keys(programs)) {
    const endpoint = { type: "http", url: `http://localhost:${receiver.port}/${encodeURIComponent(name)}` }
    const admin = { listen: `127.0.0.1:${await freePort()}`, token }
    await writeConfig(cwd, { endpoint }, { admin, journal: { path: `${name}.db` } }, configOf(name))
  }
})

describe.concurrent.each(onEach<Program>(programs))("under %s", (name, program) => {
  const config = configOf(name)

  test("the relay starts if no check is turned off, and no proxy sees the admin token or requests to this machine", async () => {
    const on = { NODE_TLS_REJECT_UNAUTHORIZED: "1", BUN_CONFIG_VERBOSE_FETCH: "0" }
    const running = await startRelay(config, { cwd, env: { ...proxied, ...on }, ...program })
    const status = await relay(["status", "-c", config, "--json"], { cwd, env: proxied, ...program })
    expect([status.code, JSON.parse(status.stdout).sinks?.length ?? status.stdout]).toEqual([0, expect.anything()])
    const sent = await relay(["trigger", "client.created", "-c", config], { cwd, env: proxied, ...program })
    expect([sent.code, sent.stdout]).toEqual([0, expect.stringMatching(/^202 {2}evt_/)])
    await running.kill()
    expect(seen).toEqual([])
    expect(received.filter((one) => one === encodeURIComponent(name))).toHaveLength(1)
  }, 60_000)

  test("the relay does not start if certificates would not be checked", async () => {
    const env = { NODE_TLS_REJECT_UNAUTHORIZED: "0" }
    const refused = await relay(["run", "-c", config], { cwd, env, ...program })
    expect(refused.code).toBe(78)
    expect(refused.stderr).toContain("NODE_TLS_REJECT_UNAUTHORIZED is 0: it would accept any certificate")
    expect(refused.stderr).toContain("Unset it; trust a certificate of your own by a sink's `tls.ca`")
  })

  test("the relay does not start if requests would be printed with their tokens", async () => {
    const refused = await relay(["status", "-c", config], {
      cwd,
      env: { BUN_CONFIG_VERBOSE_FETCH: "curl" },
      ...program,
    })
    expect([refused.code, refused.stdout]).toEqual([78, ""])
    expect(refused.stderr).toContain("BUN_CONFIG_VERBOSE_FETCH is set")
    expect(refused.stderr).not.toContain(token)
  })
})

test("the binary does not start if a debugger could attach to it", async () => {
  const config = configOf("the binary")
  const env = { BUN_INSPECT: "ws://127.0.0.1:0/debug" }
  const refused = await relay(["run", "-c", config], { cwd, env, binary: relayBinary() })
  expect([refused.code, refused.stdout]).toEqual([78, ""])
  expect(refused.stderr).toContain("BUN_INSPECT is set: a debugger at its port could read every secret")
})

test.skipIf(process.platform !== "linux")(
  "a relay does not start under Deno's flag that leaves certificates unchecked",
  () => {
    const flag = "--unsafely-ignore-certificate-errors"
    const [, , ...rest] = command(undefined, "deno")
    const words = [denoBinary(), "run", `${flag}=localhost`, ...rest, "validate", "-c", join(cwd, configOf("deno"))]
    const refused = Bun.spawnSync(words, { cwd: root })
    expect([refused.exitCode, refused.stderr.toString()]).toEqual([78, expect.stringContaining(flag)])
  },
)

test("arguments that turn the check of certificates off are refused, and no others", () => {
  const flag = "--unsafely-ignore-certificate-errors"
  for (const value of ["0", "false"]) expect(refusal({ NODE_TLS_REJECT_UNAUTHORIZED: value }, [])).toContain(value)
  for (const value of ["", "1", "true"]) expect(refusal({ NODE_TLS_REJECT_UNAUTHORIZED: value }, [])).toBeUndefined()
  for (const word of [flag, `${flag}=localhost`]) expect(refusal({}, ["deno", "run", word])).toContain(flag)
  for (const value of ["", "0", "false"]) expect(refusal({ BUN_CONFIG_VERBOSE_FETCH: value }, [])).toBeUndefined()
  expect(refusal({ BUN_INSPECT: "1" }, [], true)).toContain("BUN_INSPECT")
  for (const [value, compiled] of [
    ["", true],
    ["1", false],
  ] as const) {
    expect(refusal({ BUN_INSPECT: value }, [], compiled)).toBeUndefined()
  }
})

test("a relay on another machine is reached without a proxy too", () => {
  const env: Record<string, string | undefined> = { NO_PROXY: "a.example, b.example", no_proxy: "c.example" }
  goDirect(["10.0.0.1"], env)
  goDirect([], env)
  expect(env.NO_PROXY).toBe("a.example,b.example,c.example,localhost,127.0.0.1,::1,[::1],10.0.0.1")
  expect(env.no_proxy).toBe(env.NO_PROXY)
})

// Deno itself doesn't start in a deleted directory.
test.skipIf(process.env.RELAY_UNDER === "deno").each(["status", "run", "init"])(
  "relay %s in a working directory that was deleted says so",
  (name) => {
    const gone = mkdtempSync(join(tmpdir(), "relay-gone-"))
    const started = Bun.spawnSync(["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", ...command(), name], { cwd: gone })
    expect([started.exitCode, started.stderr.toString()]).toEqual([
      78,
      "relay: the working directory was deleted\n  Change to a directory that exists, and start it again\n",
    ])
  },
)
