/** The proxy of a request, compared with the choice of the runtime itself. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { once } from "node:events"
import { type AddressInfo, createServer } from "node:net"
import process from "node:process"
import { isItsOwn, proxyFor, refusedTunnel } from "../../src/runtime/HttpTransport.ts"

const variables = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"].flatMap((name) => [name, name.toLowerCase()])
const before = variables.map((name) => [name, process.env[name]] as const)
const clear = () => {
  for (const name of variables) delete process.env[name]
}
beforeEach(clear)
afterEach(() => {
  clear()
  for (const [name, value] of before) if (value !== undefined) process.env[name] = value
})

describe("the proxy of a request", () => {
  const plain = "http://www.receiver.invalid:81/hooks"
  const secure = "https://www.receiver.invalid/hooks"
  const proxied: ReadonlyArray<readonly [url: string, env: Readonly<Record<string, string>>, variable?: string]> = [
    [plain, {}],
    [plain, { HTTP_PROXY: "*" }, "HTTP_PROXY"],
    [plain, { http_proxy: "*" }, "http_proxy"],
    [plain, { HTTPS_PROXY: "*" }],
    [plain, { ALL_PROXY: "*" }, "ALL_PROXY"],
    [plain, { all_proxy: "*" }, "all_proxy"],
    [plain, { HTTP_PROXY: "http://127.0.0.1:1", http_proxy: "*" }, "http_proxy"],
    [plain, { HTTP_PROXY: "*", http_proxy: "" }, "HTTP_PROXY"],
    [secure, { HTTPS_PROXY: "*" }, "HTTPS_PROXY"],
    [secure, { HTTP_PROXY: "*" }],
    [secure, { ALL_PROXY: "*" }, "ALL_PROXY"],
    ...["www.receiver.invalid", "receiver.invalid", ".receiver.invalid", "*.receiver.invalid", "*"].map(
      (NO_PROXY) => [plain, { HTTP_PROXY: "*", NO_PROXY }] as const,
    ),
    ...["www.receiver.invalid:81", "other, www.receiver.invalid", "RECEIVER.INVALID"].map(
      (NO_PROXY) => [plain, { HTTP_PROXY: "*", NO_PROXY }] as const,
    ),
    ...["eceiver.invalid", "www.receiver.invalid:82", "", ","].map(
      (NO_PROXY) => [plain, { HTTP_PROXY: "*", NO_PROXY }, "HTTP_PROXY"] as const,
    ),
    [plain, { HTTP_PROXY: "*", no_proxy: "receiver.invalid", NO_PROXY: "" }],
  ]

  test("is the same as the runtime's choice", async () => {
    let asked = 0
    const server = createServer((socket) => {
      asked += 1
      socket.on("error", () => {}).end("HTTP/1.1 407 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    }).listen(0, "127.0.0.1")
    await once(server, "listening")
    const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
    for (const [url, env, variable] of proxied) {
      clear()
      const here = Object.entries(env).map(([name, value]) =>
        /^no_/i.test(name) ? [name, value] : [name, value.replace("*", `http://relay:canary@${host}`)],
      )
      Object.assign(process.env, Object.fromEntries(here))
      asked = 0
      await fetch(url).catch(() => undefined)
      const found = proxyFor(url)
      expect([url, env, found]).toEqual([url, env, variable === undefined ? undefined : { name: host, variable }])
      expect([url, env, asked > 0]).toEqual([url, env, variable !== undefined])
    }
    server.close()
  })

  test("is named by its host, or by its variable if it isn't a URL", () => {
    const name = (HTTP_PROXY: string) => proxyFor(plain, { HTTP_PROXY })?.name
    expect(name("http://relay:canary@proxy.example.com:3128/x")).toBe("proxy.example.com:3128")
    expect(name("proxy.example.com:3128")).toBe("proxy.example.com:3128")
    expect(name("http://[canary")).toBe("of HTTP_PROXY")
  })
})

test("a tunnel that a proxy refuses is distinguished from other errors, with the status if it has one", () => {
  const bun = Object.assign(new Error("Proxy refused to open a tunnel"), { code: "ERR_PROXY_TUNNEL", status: 403 })
  const deno = (words: string) => new TypeError("error sending request", { cause: new Error(words) })
  expect(refusedTunnel(bun)).toBe(403)
  expect(refusedTunnel(deno("tunnel error: proxy authorization required"))).toBe(407)
  expect(refusedTunnel(deno("tunnel error: unsuccessful"))).toBe(0)
  expect(refusedTunnel(deno("connection refused"))).toBeUndefined()
  expect(refusedTunnel("nothing")).toBeUndefined()
})

test("a response is the proxy's own if it identifies itself", () => {
  const own = (status: number, headers: Record<string, string> = {}) =>
    isItsOwn({ status, headers: new Headers(headers) })
  expect(own(407)).toBe(true)
  expect(own(403, { "x-squid-error": "ERR_ACCESS_DENIED 0" })).toBe(true)
  expect(own(502, { "proxy-status": "proxy.example.com; error=connection_refused" })).toBe(true)
  expect(own(403, { via: "1.1 squid", "proxy-status": "proxy.example.com; received-status=403" })).toBe(false)
})
