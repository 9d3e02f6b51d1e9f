/** Invalid heads: hosts, request lines, names and values, and floods of them. */
import { envelope, signature } from "../../../e2e/http/fixture.ts"
import * as Case from "../Case.ts"

const { delivery, differences, host, length } = Case

const hosts = Case.kind("hosts")
const hosted = (name: string, lines: ReadonlyArray<string>, expected: Case.Expected) => {
  const body = envelope()
  return hosts(name, delivery(body, { framing: [...lines, length(body)] }), [body], expected)
}

const lines = Case.kind("request lines")
const lined = (line: string, expected: Case.Expected, options: Case.Options = {}, name = JSON.stringify(line)) => {
  const body = envelope()
  return lines(name, delivery(body, { line }), [body], expected, options)
}

const syntax = Case.kind("header syntax")
const odd = (name: string, more: ReadonlyArray<string>, expected: Case.Expected) => {
  const body = envelope()
  return syntax(name, delivery(body, { more }), [body], expected)
}

const floods = Case.kind("header floods")
const flood = (name: string, more: ReadonlyArray<string>, expected: Case.Expected, line = Case.receive) => {
  const body = envelope()
  return floods(name, delivery(body, { more, line }), [body], expected)
}
const many = (count: number, make: (index: number) => string = (index) => `X-${index}: a`) =>
  Array.from({ length: count }, (_, index) => make(index))

const hop = Case.kind("hop by hop")
const hopping = (name: string, more: ReadonlyArray<string>, expected: Case.Expected, line = Case.receive) => {
  const body = envelope()
  return hop(name, delivery(body, { more, line }), [body], expected)
}

const garbage = Case.kind("no HTTP")
const stray = (name: string, text: string, expected: Case.Expected) =>
  garbage(name, Buffer.from(text, "latin1"), [], expected)

const unknownMethod = {
  bun: Case.nothing,
  deno: 405,
  why: "Bun ends the connection of a method that it does not know",
} as const

export const cases: ReadonlyArray<Case.Case> = [
  hosted("two", ["Host: a", "Host: b"], 400),
  hosted("two that are equal", [host, host], 400),
  hosted("two in one header", ["Host: a, b"], 400),
  hosted("two of other case", ["Host: a", "HOST: a"], 400),
  hosted("none", [], 400),
  hosted("an empty one", ["Host:"], 400),
  hosted("a path", ["Host: evil/x?y#"], 400),
  hosted("a query", ["Host: evil?x"], 400),
  hosted("a fragment", ["Host: evil#x"], 400),
  hosted("a user", ["Host: user:word@relay.example"], 400),
  hosted("a blank", ["Host: relay example"], 400),
  hosted("a tab", ["Host: relay\texample"], 400),
  hosted("a backslash", ["Host: relay\\example"], 400),
  hosted("a port that is none", ["Host: relay.example:port"], 400),
  hosted("a port of six digits", ["Host: relay.example:123456"], 400),
  hosted("a port below nothing", ["Host: relay.example:-1"], 400),
  hosted("two colons", ["Host: relay.example:80:80"], 400),
  hosted("an open bracket", ["Host: [::1"], 400),
  hosted("bytes above ASCII", ["Host: relay.ex\xe4mple"], 400),
  hosted("a NUL", ["Host: relay\0.example"], 400),
  hosted("a percent escape", ["Host: relay%2eexample"], 400),
  hosted("a blank before the colon", ["Host : relay.example"], 400),
  hosted("on a folded line", ["Host:\r\n relay.example"], 400),
  hosted("a bracketed address", ["Host: [::1]:8080"], 202),
  hosted("a name that is not ours", ["Host: anybody.example"], 202),
  hosted("4 KiB", [`Host: ${"a".repeat(4096)}`], 202),
  hosted("another one forwarded", [host, "X-Forwarded-Host: evil.example", "Forwarded: host=evil.example"], 202),

  lined("post /hooks/scheduling HTTP/1.1", unknownMethod),
  lined("GET /hooks/scheduling HTTP/1.1", 405),
  lined("PUT /hooks/scheduling HTTP/1.1", 405),
  lined("PATCH /hooks/scheduling HTTP/1.1", 405),
  lined("DELETE /hooks/scheduling HTTP/1.1", 405),
  lined("OPTIONS /hooks/scheduling HTTP/1.1", 405),
  lined("OPTIONS * HTTP/1.1", { bun: 400, deno: 404, why: "Bun takes no asterisk" }),
  lined("TRACE /hooks/scheduling HTTP/1.1", 405),
  lined("CONNECT relay.example:443 HTTP/1.1", 404, { isLast: true }),
  lined("QUERY /hooks/scheduling HTTP/1.1", 405),
  lined("P\0ST /hooks/scheduling HTTP/1.1", differences.version),
  lined("POSTPOST /hooks/scheduling HTTP/1.1", unknownMethod),
  lined(" POST /hooks/scheduling HTTP/1.1", 400),
  lined("POST  /hooks/scheduling HTTP/1.1", 400),
  lined("POST /hooks/scheduling  HTTP/1.1", differences.version),
  lined("POST\t/hooks/scheduling\tHTTP/1.1", differences.version),
  lined("POST /hooks/scheduling", differences.version),
  lined("POST /hooks/scheduling ", differences.version),
  lined("POST HTTP/1.1", 400),
  lined("POST hooks/scheduling HTTP/1.1", 400),
  lined("POST /hooks/scheduling HTTP/0.9", differences.version),
  lined("POST /hooks/scheduling HTTP/1.0", 202),
  lined("POST /hooks/scheduling HTTP/1.2", differences.version),
  lined("POST /hooks/scheduling HTTP/2.0", differences.version),
  lined("POST /hooks/scheduling HTTP/1.1.1", differences.version),
  lined("POST /hooks/scheduling HTTP/11", differences.version),
  lined("POST /hooks/scheduling http/1.1", differences.version),
  lined("POST /hooks/scheduling HTTQ/1.1", differences.version),
  lined("POST /hooks/scheduling HTTP/1.1 HTTP/1.1", differences.version),
  lined("POST http://relay.example/hooks/scheduling HTTP/1.1", 202),
  lined("POST http://evil.example/hooks/scheduling HTTP/1.1", 202),
  lined("POST https://evil.example@relay.example/hooks/scheduling HTTP/1.1", 202),
  lined("POST //evil.example/hooks/scheduling HTTP/1.1", 404),
  lined(`POST /${"a".repeat(12_000)} HTTP/1.1`, 404, {}, "a path of 12 KB"),
  lined(`POST /${"a".repeat(100_000)} HTTP/1.1`, differences.head, {}, "a path of 100 KB"),

  odd("a NUL in a value", ["X-A: a\0b"], 400),
  odd("a NUL in a name", ["X-\0A: b"], 400),
  odd("an escape character in a value", ["X-A: \x1b[31m"], 400),
  odd("a delete in a value", ["X-A: a\x7fb"], {
    bun: 202,
    deno: 400,
    why: "Bun lets the one control character through",
  }),
  odd("a bare carriage return in a value", ["X-A: a\rb"], 400),
  odd("a bare line feed between headers", ["X-A: a\nX-B: b"], {
    bun: 400,
    deno: 202,
    why: "Deno takes a bare line feed for the end of a line, as RFC 9112 (2.2) allows",
  }),
  odd("a folded value", ["X-A: a\r\n b"], 400),
  odd("a blank in a name", ["X A: b"], 400),
  odd("a blank before the colon", ["X-A : b"], 400),
  odd("no colon", ["X-A"], 400),
  odd("no name", [": b"], 400),
  odd("a name with brackets", ["X(A): b"], 400),
  odd("a name above ASCII", ["X-\xe4: b"], 400),
  odd("a value above ASCII", ["X-A: \xe4\xff"], 202),
  odd("an empty value", ["X-A:"], 202),
  odd("a value of blanks", ["X-A:  \t "], 202),
  odd("no blank behind the colon", ["X-A:b"], 202),
  odd("the names of a prototype", ["__proto__: a", "constructor: b", "toString: c", "hasOwnProperty: d"], 202),

  flood("80 headers", many(80), 202),
  flood("a thousand headers", many(1_000), differences.head),
  flood("ten thousand headers", many(10_000), differences.head),
  flood(
    "a thousand of one name",
    many(1_000, () => "X-A: a"),
    differences.head,
  ),
  flood("a value of 8 KB", [`X-A: ${"a".repeat(8_000)}`], 202),
  flood("a value of 100 KB", [`X-A: ${"a".repeat(100_000)}`], differences.head),
  flood("a value of a megabyte", [`X-A: ${"a".repeat(1_000_000)}`], differences.head),
  flood("a name of 100 KB", [`${"a".repeat(100_000)}: b`], differences.head),
  flood(
    "50 cookies",
    many(50, (index) => `Cookie: a${index}=${"b".repeat(50)}`),
    202,
  ),
  flood(
    "60 signatures",
    many(60, () => `X-Service-Signature: ${signature("")}`),
    401,
  ),
  flood("a signature of 8 KB", [`X-Service-Signature: ${"A".repeat(8_000)}`], 401),
  flood(
    "60 webhook ids",
    many(60, (index) => `X-Service-Webhook-Id: wh_${index}`),
    202,
  ),

  hopping("an expectation that can be met", ["Expect: 100-continue"], 202),
  hopping("an expectation that can't", ["Expect: the-spanish-inquisition"], 202),
  hopping(
    "an upgrade to a socket",
    [
      "Connection: Upgrade",
      "Upgrade: websocket",
      "Sec-WebSocket-Version: 13",
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ],
    differences.upgrade,
  ),
  hopping(
    "an upgrade to HTTP/2",
    ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"],
    differences.upgrade,
  ),
  hopping("a connection that names the signature", ["Connection: close, x-service-signature"], 202),
  hopping("a connection that names the length", ["Connection: content-length"], 202),
  hopping("another method for the override", ["X-HTTP-Method-Override: GET"], 202),
  hopping("another path for the rewrite", ["X-Original-URL: /admin", "X-Rewrite-URL: /admin"], 202),
  hopping("a range", ["Range: bytes=0-1"], 202),
  hopping("credentials", ["Authorization: Basic YWRtaW46YWRtaW4="], 202),
  hopping("an override of a GET", ["X-HTTP-Method-Override: POST"], 405, "GET /hooks/scheduling HTTP/1.1"),

  stray("a TLS greeting", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
  stray("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", { bun: 400, deno: Case.nothing, why: "Deno speaks HTTP/2" }),
  stray("SSH", "SSH-2.0-OpenSSH_9.9\r\n\r\n", 400),
  stray("a proxy's header", "PROXY TCP4 1.1.1.1 1.1.1.1 1 1\r\n\r\n", 400),
  stray("empty lines", "\r\n".repeat(100), 400),
  stray("a head without end", `GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(1_000_000)}`, differences.head),
  stray("a head that breaks off", "POST /hooks/scheduling HTTP/1.1\r\nHost: a\r\n", Case.nothing),
  stray("nothing but NUL", "\0".repeat(1000), 400),
  stray("a line of a megabyte", "a".repeat(1_000_000), differences.head),
  stray("all bytes", String.fromCharCode(...Array.from({ length: 256 }, (_, byte) => byte)), 400),
]
