/** The sender of a refused request gets our status, with any client and behind any proxy. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { maxDiscarded } from "../../../src/runtime/RequestGuard.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { freePort } from "../../lib/port.ts"
import { temporaryDirectory } from "../../lib/temporaryRoot.ts"
import { ServerProcess } from "../../parts/ServerProcess.ts"
import { type Client, clients, isInstalled, type Sent, sendAll } from "./Clients.ts"
import { chunk, rawDelivery, startTarget, type Target } from "./fixture.ts"
import * as Raw from "./Raw.ts"

let target: Target
beforeAll(async () => {
  target = await startTarget()
})
afterAll(() => target.stop())

const refused: ReadonlyArray<readonly [status: number, path: string, type: string]> = [
  [413, "/hooks/small", "application/json"],
  [404, "/hooks/unknown", "application/json"],
  [415, "/hooks/small", "text/plain"],
]
const all: ReadonlyArray<{ readonly status: number; readonly sent: Sent }> = refused.flatMap(([status, path, type]) =>
  [100_000, 1_000_000, 6_000_000].flatMap((size) =>
    [false, true].flatMap((chunked) =>
      [false, true].map((close) => ({ status, sent: { path, type, size, chunked, close } })),
    ),
  ),
)

const words = ({ path, type, size, chunked, close }: Sent): string =>
  `${path} ${type} ${size} ${chunked ? "in chunks" : "with a length"}${close ? ", close" : ""}`

/** Clients that need only a few seconds. */
const quick = ["curl", "Node's http"]

const lackingClient = (name: string, client: Client, isDirect: boolean): string | undefined => {
  if (!isInstalled(client)) return `it needs ${client.version[0]}`
  if (process.env.RELAY_PARTS === "1" || (isDirect && quick.includes(name))) return undefined
  return "RELAY_PARTS=1 bun test runs it with all clients and proxies"
}

/** Makes a test for each client, which sends all requests to the port. */
const sendsAll = (port: () => number, isDirect: boolean): void => {
  for (const [name, client] of Object.entries(clients)) {
    suiteUnless(lackingClient(name, client, isDirect), `by ${name}`, () => {
      test("with a length and in chunks, on connections that stay and that close", async () => {
        const some = all.filter(({ sent }) => client.sends?.(sent) ?? true)
        const statuses = await sendAll(
          client,
          port(),
          some.map(({ sent }) => sent),
        )
        expect(some.map(({ sent }, index) => `${words(sent)}: ${statuses[index]}`)).toEqual(
          some.map(({ status, sent }) => `${words(sent)}: ${status}`),
        )
      }, 180_000)
    })
  }
}

describe("a refused body of 0.1, 1 or 6 MB gets its status", () => {
  sendsAll(() => target.port, true)
})

interface Proxy {
  readonly config: (port: number, home: string) => string
  readonly run: (file: string) => readonly [string, ...ReadonlyArray<string>]
}

/** The proxies have their defaults, except for limits below the size of these bodies. */
const proxies: Readonly<Record<string, Proxy>> = {
  nginx: {
    config: (port, home) =>
      `pid ${home}/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\nclient_max_body_size 8m;\n${[
        "client_body",
        "proxy",
        "fastcgi",
        "uwsgi",
        "scgi",
      ]
        .map((name) => `${name}_temp_path ${home}/${name};`)
        .join(
          "\n",
        )}\nserver {\nlisten 127.0.0.1:${port};\nlocation / { proxy_pass http://127.0.0.1:${target.port}; }\n}\n}\n`,
    run: (file) => ["nginx", "-c", file, "-g", "daemon off; master_process off;"],
  },
  haproxy: {
    config: (port) =>
      `defaults\n mode http\n timeout connect 2s\n timeout client 30s\n timeout server 30s\nlisten front\n bind 127.0.0.1:${port}\n server relay 127.0.0.1:${target.port}\n`,
    run: (file) => ["haproxy", "-db", "-f", file],
  },
  caddy: {
    config: (port) => `{\n\tadmin off\n}\nhttp://127.0.0.1:${port} {\n\treverse_proxy 127.0.0.1:${target.port}\n}\n`,
    run: (file) => ["caddy", "run", "--adapter", "caddyfile", "--config", file],
  },
}

const lackingProxy = (name: string): string | undefined => {
  const version = name === "caddy" ? "version" : "-v"
  if (spawnSync(name, [version], { stdio: "ignore" }).status !== 0) return `it needs ${name}`
  return process.env.RELAY_PARTS === "1" ? undefined : "RELAY_PARTS=1 bun test runs it with all clients"
}

for (const [name, proxy] of Object.entries(proxies)) {
  suiteUnless(lackingProxy(name), `a refused body through ${name} gets its status, not 502`, () => {
    const home = temporaryDirectory("refused-")
    let port: number
    let own: ServerProcess
    beforeAll(async () => {
      port = await freePort()
      const file = join(home, "config")
      writeFileSync(file, proxy.config(port, home))
      const env = { ...process.env, HOME: home, XDG_DATA_HOME: home, XDG_CONFIG_HOME: home }
      const isUp = () =>
        fetch(`http://127.0.0.1:${port}/`).then(
          ({ status }) => status === 404,
          () => false,
        )
      own = new ServerProcess({ name, home, command: proxy.run(file), env, isUp })
      await own.start()
    })
    afterAll(() => own.stop())
    sendsAll(() => port, false)
  })
}

describe("beyond the bounds the response comes without the rest of the body", () => {
  const type = { "content-type": "text/plain" }

  test("immediately if the length is larger", async () => {
    const connection = await Raw.open(target.port)
    connection.write(rawDelivery("", ["Host: a", `Content-Length: ${maxDiscarded + 1}`], type))
    expect((await connection.answers(1)).statuses).toEqual([415])
    connection.destroy()
  })

  test("after the largest number of bytes, with `Connection: close`, if the body is in chunks", async () => {
    const connection = await Raw.open(target.port)
    connection.write(rawDelivery("", ["Host: a", "Transfer-Encoding: chunked"], type))
    const piece = chunk("x".repeat(1024 * 1024))
    for (let bytes = 0; bytes <= maxDiscarded; bytes += 1024 * 1024) connection.write(piece)
    const { statuses, text } = await connection.ended()
    expect(statuses).toEqual([415])
    expect(text.toLowerCase()).toContain("connection: close")
    connection.destroy()
  })

  test("after a second if the body stops", async () => {
    const connection = await Raw.open(target.port)
    connection.write(rawDelivery("", ["Host: a", "Content-Length: 100"], type))
    expect((await connection.answers(1)).statuses).toEqual([415])
    connection.destroy()
  })

  test("after five seconds if the body continues slowly", async () => {
    const connection = await Raw.open(target.port)
    connection.write(rawDelivery("", ["Host: a", "Transfer-Encoding: chunked"], type))
    const timer = setInterval(() => connection.write(chunk("x")), 100)
    // Deno answers, and continues to read while the client writes.
    let answer = await connection.answers(1)
    while (answer.statuses.length === 0 && !answer.closed) answer = await connection.answers(1)
    clearInterval(timer)
    connection.destroy()
    expect([answer.statuses, answer.text.toLowerCase().includes("connection: close")]).toEqual([[415], true])
  }, 20_000)
})
