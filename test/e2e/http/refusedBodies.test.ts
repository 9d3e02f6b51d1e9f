/** A refused request's sender reads our status, whatever sends the body and whatever is in front. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { maxDiscarded } from "../../../src/runtime/UnreadBody.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { freePort } from "../../lib/port.ts"
import { ServerProcess } from "../../parts/ServerProcess.ts"
import { clients, isInstalled, type Sent, sendAll } from "./Clients.ts"
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
const each = (close: ReadonlyArray<boolean>) =>
  refused.flatMap(([status, path, type]) =>
    [100_000, 1_000_000, 6_000_000].flatMap((size) =>
      [false, true].flatMap((chunked) =>
        close.map((close) => ({ status, sent: { path, type, size, chunked, close } })),
      ),
    ),
  )

const words = ({ path, type, size, chunked, close }: Sent): string =>
  `${path} ${type} ${size} ${chunked ? "in chunks" : "with a length"}${close ? ", close" : ""}`

describe("a refused body of 0.1, 1 or 6 MB gets its status", () => {
  for (const [name, client] of Object.entries(clients)) {
    suiteUnless(isInstalled(client) ? undefined : `it needs ${client.version[0]}`, `by ${name}`, () => {
      test("with a length and in chunks, on connections that stay and that close", async () => {
        const all = each([false, true]).filter(({ sent }) => client.sends?.(sent) ?? true)
        const statuses = await sendAll(
          client,
          target.port,
          all.map(({ sent }) => sent),
        )
        expect(all.map(({ sent }, index) => `${words(sent)}: ${statuses[index]}`)).toEqual(
          all.map(({ status, sent }) => `${words(sent)}: ${status}`),
        )
      }, 180_000)
    })
  }
})

interface Proxy {
  readonly config: (port: number, home: string) => string
  readonly run: (file: string) => readonly [string, ...ReadonlyArray<string>]
}

/** Their defaults, but for limits of their own below the bodies here. */
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

for (const [name, proxy] of Object.entries(proxies)) {
  const version = name === "caddy" ? "version" : "-v"
  const lacking = spawnSync(name, [version], { stdio: "ignore" }).status === 0 ? undefined : `it needs ${name}`
  suiteUnless(lacking, `a refused body through ${name}`, () => {
    test("gets its status, not 502", async () => {
      const home = mkdtempSync(join(tmpdir(), "relay-refused-"))
      const file = join(home, "config")
      const port = await freePort()
      writeFileSync(file, proxy.config(port, home))
      const env = { ...process.env, HOME: home, XDG_DATA_HOME: home, XDG_CONFIG_HOME: home }
      const isUp = () =>
        fetch(`http://127.0.0.1:${port}/`).then(
          ({ status }) => status === 404,
          () => false,
        )
      const own = new ServerProcess({ name, home, command: proxy.run(file), env, isUp })
      await own.start()
      try {
        for (const { status, sent } of each([false])) {
          const { path, type, size, chunked } = sent
          const piece = new Uint8Array(50_000)
          const pieces = async function* () {
            for (let at = 0; at < size; at += piece.length) yield piece
          }
          const { status: got } = await fetch(`http://127.0.0.1:${port}${path}`, {
            method: "POST",
            headers: { "content-type": type },
            body: chunked ? pieces() : new Uint8Array(size),
          })
          expect(`${words(sent)}: ${got}`).toBe(`${words(sent)}: ${status}`)
        }
      } finally {
        await own.stop()
        rmSync(home, { recursive: true, force: true })
      }
    }, 60_000)
  })
}

describe("beyond the bounds the response comes without the rest of the body", () => {
  const type = { "content-type": "text/plain" }

  test("at once if the length is larger", async () => {
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

  test("after five seconds if the body goes on slowly", async () => {
    const connection = await Raw.open(target.port)
    connection.write(rawDelivery("", ["Host: a", "Transfer-Encoding: chunked"], type))
    const timer = setInterval(() => connection.write(chunk("x")), 100)
    // Deno answers, and goes on reading as long as the client writes.
    let answer = await connection.answers(1)
    while (answer.statuses.length === 0 && !answer.closed) answer = await connection.answers(1)
    clearInterval(timer)
    connection.destroy()
    expect([answer.statuses, answer.text.toLowerCase().includes("connection: close")]).toEqual([[415], true])
  }, 20_000)
})
