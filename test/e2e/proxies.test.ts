/**
 * The configs in `config/deploy/proxies.md`, run by their programs. Only addresses and the paths of certificates are
 * replaced.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { lacking as lacksOpenssl, makeAuthority } from "../lib/authority.ts"
import { readPage } from "../lib/docs.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { freePort } from "../lib/port.ts"
import { startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { configOf, type FrontProxy, names, proxies, reasonToSkip } from "../parts/FrontProxies.ts"
import { ServerProcess } from "../parts/ServerProcess.ts"
import { envelope, headers, startTarget, type Target } from "./http/fixture.ts"

const page = readPage("config/deploy/proxies.md")

/** The config with the line for a Unix socket. */
const overSocket = (config: string, { label }: FrontProxy): string => {
  const [, line = ""] = new RegExp(`^\\| ${label} \\| \`(.*?)\` \\|$`, "m").exec(page) ?? []
  return config.replace(/^( *|\t*)\S.*127\.0\.0\.1:8080.*$/m, `$1${line}`).replace(/^\s*health_port.*\n/m, "")
}

for (const name of names) {
  const proxy: FrontProxy = proxies[name]
  suiteUnless(reasonToSkip(proxy) ?? lacksOpenssl, `the relay behind ${name}`, () => {
    const home = temporaryDirectory("behind-")
    let file = ""
    const env = { ...process.env, HOME: home, XDG_DATA_HOME: home, XDG_CONFIG_HOME: home }
    let target: Target
    let own: ServerProcess
    let url = ""
    let isReady = true
    let stopHealth = () => {}

    const send = (
      body: string,
      changes: Readonly<Record<string, string | undefined>> = {},
      path = "/hooks/scheduling",
    ) =>
      fetch(`${url}${path}`, {
        method: "POST",
        body,
        headers: headers(body, changes),
        tls: { rejectUnauthorized: false },
      })

    /** Sends until the answer has this status. Earlier answers depend on the time of the proxy's health check. */
    const sendUntil = async (status: number): Promise<void> => {
      while ((await send(envelope())).status !== status) await Bun.sleep(50)
    }

    /** Runs the proxy at a port of this machine. */
    const start = async (config: string, port: number): Promise<ServerProcess> => {
      const local = config
        .replaceAll("/etc/ssl/relay/", `${home}/`)
        .replace("hooks.example.com {", `${url} {\n\tbind 127.0.0.1`)
        .replace("listen 443", `listen 127.0.0.1:${port}`)
        .replace("bind :443", `bind 127.0.0.1:${port}`)
      const own = mkdtempSync(join(home, "proxy-"))
      file = join(own, "config")
      writeFileSync(file, proxy.complete(local, own))
      const isUp = () =>
        send("", {}, "/").then(
          () => true,
          () => false,
        )
      const process = new ServerProcess({ name, home: own, command: proxy.run(file), env, isUp })
      await process.start()
      return process
    }

    beforeAll(async () => {
      target = await startTarget()
      const relay = JSON.parse(readFileSync(join(target.directory, "relay.config.json"), "utf8"))
      // The relay's own health, unless a test makes it not ready.
      const health = Bun.serve({
        hostname: "127.0.0.1",
        port: 0,
        fetch: ({ url, headers, method }) =>
          isReady
            ? fetch(`http://${relay.admin.listen}${new URL(url).pathname}`, { headers, method })
            : new Response(null, { status: 503 }),
      })
      stopHealth = () => void health.stop(true)
      const { pem } = makeAuthority(home).issue("hooks.example.com", "DNS:hooks.example.com")
      for (const [path, text] of Object.entries({ fullchain: pem.cert, key: pem.key, relay: pem.cert + pem.key }))
        writeFileSync(join(home, `${path}.pem`), text)
      const port = await freePort()
      url = `https://127.0.0.1:${port}`
      const config = configOf(name)
        .replace("127.0.0.1:8080", `127.0.0.1:${target.port}`)
        .replace("port 9080", `port ${health.port}`)
      own = await start(config, port)
    })
    afterAll(async () => {
      await own?.stop()
      await target?.stop()
      stopHealth()
    })

    test("has a config that the program itself finds right", () => {
      const [program = "", ...args] = proxy.check(file)
      const { status, stdout, stderr } = spawnSync(program, args, { encoding: "utf8", env })
      expect([status, status === 0 ? "" : stdout + stderr]).toEqual([0, ""])
      expect(stdout + stderr).not.toMatch(/\[warn/i)
    })

    test("gets each delivery byte by byte, small and large", async () => {
      const small = envelope("appointment.created", { note: "Zoë  日本 %2F \\u00e9 \r\n" }).replace("{", "{ \r\n\t")
      const large = envelope("appointment.created", { note: "x".repeat(200 * 1024) })
      for (const body of [small, large]) {
        expect((await send(body)).status).toBe(202)
        expect(await target.keeps(body)).toBe(true)
      }
    })

    test("refuses as without a proxy, with its own problem", async () => {
      const body = envelope()
      const large = envelope("appointment.created", { note: "x".repeat(300 * 1024) })
      const answers = [
        await send(body, { "x-service-signature": undefined }),
        await send(large),
        await send(body, { "content-type": "text/plain" }),
        await send(body, {}, "/hooks/unknown"),
      ]
      expect(answers.map(({ status }) => status)).toEqual([401, 413, 415, 404])
      for (const answer of answers) expect(answer.headers.get("content-type")).toBe("application/problem+json")
    })

    test("is not asked for other paths", async () => {
      const answer = await send(envelope(), {}, "/api/v1/status")
      expect(answer.status).toBe(404)
      expect(answer.headers.get("content-type")).not.toBe("application/problem+json")
    })

    if (proxy.looks) {
      test("gets no delivery while /readyz fails, and gets deliveries again afterwards", async () => {
        isReady = false
        await sendUntil(503)
        isReady = true
        await sendUntil(202)
      })
    }

    test("reaches a relay at a Unix socket by the line for it", async () => {
      const socket = join(home, "relay.sock")
      const given = JSON.parse(readFileSync(join(target.directory, "relay.config.json"), "utf8"))
      const admin = { listen: `127.0.0.1:${await freePort()}` }
      const changed = { ...given, listen: `unix:${socket}`, socket: { mode: "0666" }, probes: true, admin }
      const config = join(home, "relay.config.json")
      writeFileSync(config, JSON.stringify(changed))
      const relay = await startRelay(config, { cwd: home })
      await own.stop()
      try {
        own = await start(
          overSocket(configOf(name), proxy).replace("/run/relay/relay.sock", socket),
          Number(new URL(url).port),
        )
        await sendUntil(202)
        expect((await send(envelope(), { "x-service-signature": undefined })).status).toBe(401)
      } finally {
        await relay.kill()
      }
    })
  })
}

describe("the page on proxies", () => {
  test("has a config for each of them", () => {
    for (const name of names) expect(configOf(name)).toContain("/hooks/")
  })

  test("states the relay's limits, and each config keeps to them", () => {
    const webhooks = readPage("docs/reference/webhooks.md")
    const defaultOf = (key: string) => new RegExp(`${key}\` \\| \\w+ \\| \`(.*?)\``).exec(webhooks)?.[1] ?? ""
    const seconds = (file: string, pattern: RegExp) => Number(pattern.exec(readPage(file))?.[1])
    const idle = seconds("docs/reference/listeners.md", /`idleTimeout` \| duration \| `(\d+) seconds`/)
    const body = seconds("src/ingest/Ingest.ts", /const bodyDeadline = Duration.seconds\((\d+)\)/)
    const firstByte = seconds("src/ingest/Ingest.ts", /const firstByteDeadline = Duration.seconds\((\d+)\)/)
    const commit = defaultOf("commitTimeout")
    const rows = [...page.matchAll(/^\| (body|time of .*?|idle connection) \| (.*?) \|/gm)].map(([, , said]) => said)
    expect(rows).toEqual([
      `[\`maxBody\`](../../docs/reference/webhooks.md), ${defaultOf("maxBody")}`,
      `${body} seconds, ${firstByte} for the first byte`,
      `\`commitTimeout\`, ${commit}`,
      `[\`idleTimeout\`](../../docs/reference/listeners.md), ${idle} seconds`,
    ])
    const limits = (pattern: RegExp) => [...page.matchAll(pattern)].map(([, limit]) => Number(limit))
    const sizes = limits(/(?:client_max_body_size|client_body_buffer_size|max_size) (\d+)(?:m;|MiB)/g)
    const idles = limits(/(?:keepalive_timeout|keepalive|timeout http-keep-alive) (\d+)s/g)
    const responses = limits(/(?:proxy_read_timeout|response_header_timeout|timeout server) (\d+)s/g)
    const bodies = limits(/(?:client_body_timeout|read_body|timeout client) (\d+)s/g)
    for (const found of [sizes, idles, responses, bodies]) expect(found).toHaveLength(3)
    expect(Math.min(...sizes)).toBeGreaterThan(Number.parseInt(defaultOf("maxBody"), 10))
    expect(Math.max(...idles)).toBeLessThanOrEqual(idle - 10)
    expect(Math.min(...responses)).toBeGreaterThan(Number.parseInt(commit, 10))
    expect(Math.max(...bodies)).toBeLessThanOrEqual(body)
  })
})
