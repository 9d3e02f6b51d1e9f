/** Answers of receivers to an HTTP sink, taken from public reports (`test/reports/sinks.md`). */
import { describe, expect } from "bun:test"
import { createServer } from "node:net"
import { Effect, Schema } from "effect"
import { Http } from "../../../src/sinks/http/Http.ts"
import { HttpConfig } from "../../../src/sinks/http/HttpConfig.ts"
import { it } from "../../lib/effect.ts"
import { listening, serve } from "../receiver.ts"
import { bytes, entry, reasonOf } from "../samples.ts"

/** Sends an event to a receiver that answers like this. Returns the reason of the failure. */
const answered = Effect.fnUntraced(function* (
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {},
) {
  const { url } = yield* serve((_, response) => response.writeHead(status, headers).end(body))
  const sink = yield* Http.open(Schema.decodeUnknownSync(HttpConfig)({ url: `${url}/hook` }))
  return yield* reasonOf(sink.send([entry(1)]))
})

const nginx = (title: string) =>
  `<html>\r\n<head><title>400 ${title}</title></head>\r\n<body>\r\n<center><h1>400 Bad Request</h1></center>\r\n`

describe("an answer as reported", () => {
  for (const [title, status, body, says] of [
    [
      "nginx gets plain HTTP at a port for HTTPS",
      400,
      nginx("The plain HTTP request was sent to HTTPS port"),
      /it wants TLS at this port; write "https" in "url"$/,
    ],
    [
      "a server in Go gets plain HTTP at a port for HTTPS",
      400,
      "Client sent an HTTP request to an HTTPS server.\n",
      /it wants TLS at this port/,
    ],
    [
      "nginx misses a client certificate",
      400,
      nginx("No required SSL certificate was sent"),
      /"400 No required SSL certificate was sent": it wants a client certificate; set "certificate" and "key" in "tls"$/,
    ],
    [
      "nginx refuses a client certificate",
      400,
      nginx("The SSL certificate error"),
      /it does not accept the client certificate; correct/,
    ],
  ] as const) {
    it.live(`concerns the config, so the lane waits: ${title}`, function* () {
      const reason = yield* answered(status, body, { server: "nginx" })
      expect(reason?._tag).toBe("SinkMisconfigured")
      expect(reason?.message).toMatch(says)
    })
  }

  it.live("of API Gateway for an unknown path doesn't suggest a token", function* () {
    const headers = { "x-amzn-errortype": "MissingAuthenticationTokenException" }
    const reason = yield* answered(403, '{"message":"Missing Authentication Token"}', headers)
    expect(reason?._tag).toBe("SinkMisconfigured")
    expect(reason?.message).toMatch(/"Missing Authentication Token": API Gateway .*no such path or method; check "url"/)
  })

  it.live("of 403 that is a rate limit makes the lane wait, for as long as it says or a minute", function* () {
    const said = '{"message":"You have exceeded a secondary rate limit"}'
    const renewed = { date: "Sat, 21 Nov 2026 08:00:00 GMT", "x-ratelimit-reset": "1795248030" }
    for (const [body, headers, retryAfter] of [
      [said, {}, 60_000],
      ["", { "retry-after": "7" }, 7_000],
      ["", { ...renewed, "x-ratelimit-remaining": "0" }, 30_000],
    ] as const) {
      expect(yield* answered(403, body, headers)).toMatchObject({ _tag: "SinkThrottled", retryAfter })
    }
    expect((yield* answered(403, "", { ...renewed, "x-ratelimit-remaining": "9" }))?._tag).toBe("SinkMisconfigured")
  })

  it.live("that redirects names the other server, and nothing of the path", function* () {
    for (const [location, says] of [
      ["https://example.com/canary", "leads to, on https://example.com, into"],
      ["/canary/", "leads to, another path of the same server, into"],
      ["mailto:canary", "leads to into"],
    ] as const) {
      const reason = yield* answered(301, "", { location })
      expect(reason?._tag).toBe("SinkMisconfigured")
      expect(reason?.message).toContain(`redirects are not followed; put the address that it ${says} "url"`)
      expect(reason?.message).not.toContain("canary")
    }
  })

  it.live("of 413 before the body is sent is read, though the connection is cut", function* () {
    const { url } = yield* listening(
      createServer((socket) => {
        socket.once("data", () => {
          socket.pause()
          socket.write("HTTP/1.1 413 Request Entity Too Large\r\nContent-Length: 0\r\n\r\n", () => socket.destroy())
        })
      }),
    )
    const sink = yield* Http.open(Schema.decodeUnknownSync(HttpConfig)({ url }))
    const large = entry(1, { body: bytes("x".repeat(4_000_000)) })
    expect(yield* reasonOf(sink.send([large]))).toMatchObject({ _tag: "DeliveryRejected", ofEvent: true })
  })

  for (const [title, headers] of [
    ["with more headers than the runtime reads", Array.from({ length: 300 }, (_, n) => `X-${n}: a\r\n`).join("")],
    ["with a header whose name is malformed", "Access-Control-Allow-Method?: *\r\n"],
  ] as const) {
    it.live(`${title} is not taken for another protocol alone`, function* () {
      const answer = `HTTP/1.1 200 OK\r\n${headers}Content-Length: 2\r\n\r\nok`
      const { url } = yield* listening(createServer((socket) => socket.once("data", () => socket.end(answer))))
      const sink = yield* Http.open(Schema.decodeUnknownSync(HttpConfig)({ url }))
      const reason = yield* reasonOf(sink.send([entry(1)]))
      expect(reason?.message).toContain("over 256 headers, or with a header whose name is malformed, can't be read")
    })
  }

  it.live("after early hints decides", function* () {
    const { url } = yield* serve((_, response) => {
      response.writeEarlyHints({ link: "</style.css>; rel=preload; as=style" }, () => response.writeHead(503).end())
    })
    const sink = yield* Http.open(Schema.decodeUnknownSync(HttpConfig)({ url }))
    expect(yield* reasonOf(sink.send([entry(1)]))).toMatchObject({ _tag: "DeliveryFailed", code: 503 })
  })

  it.live("that asks to wait until a date is measured by the receiver's clock", function* () {
    for (const year of [2020, 2040]) {
      const headers = { date: `Sat, 21 Nov ${year} 08:00:00 GMT`, "retry-after": `Sat, 21 Nov ${year} 08:00:20 GMT` }
      expect(yield* answered(503, "", headers)).toMatchObject({ _tag: "SinkThrottled", retryAfter: 20_000 })
    }
  })
})
