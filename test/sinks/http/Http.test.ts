import { describe, expect } from "bun:test"
import type { OutgoingHttpHeaders } from "node:http"
import { createServer, type Socket } from "node:net"
import { HTTP } from "cloudevents"
import { Effect, Fiber, Result, Schema } from "effect"
import { TestClock } from "effect/testing"
import type { Entry } from "../../../src/event/Event.ts"
import { hmacSha256, verify } from "../../../src/event/Signature.ts"
import * as Jmespath from "../../../src/formats/jmespath/Jmespath.ts"
import { Http } from "../../../src/sinks/http/Http.ts"
import { HttpConfig } from "../../../src/sinks/http/HttpConfig.ts"
import type { Reason } from "../../../src/sinks/Sink.ts"
import { it } from "../../lib/effect.ts"
import { type Handler, listening, type Received, serve } from "../receiver.ts"
import { bytes, entries, entry, envelope, reasonOf } from "../samples.ts"

const open = (config: typeof HttpConfig.Encoded) => Http.open(Schema.decodeUnknownSync(HttpConfig)(config))

/** Sends one event to a server that keeps the request and answers by `handler`. */
const sendTo = Effect.fnUntraced(function* (
  handler: Handler,
  config: Partial<typeof HttpConfig.Encoded> = {},
  { path = "/hook", event = entry(1) }: { readonly path?: string; readonly event?: Entry } = {},
) {
  const requests: Array<Received> = []
  const { url } = yield* serve((request, response, raw) => {
    requests.push(request)
    handler(request, response, raw)
  })
  const sink = yield* open({ url: `${url}${path}`, ...config })
  const reason = yield* reasonOf(sink.send([event]))
  return { reason, requests, origin: url, request: requests[0] as Received }
})

const answer =
  (status: number, headers: Readonly<Record<string, string>> = {}): Handler =>
  (_, response) =>
    response.writeHead(status, headers).end("what an answer says does not matter")

const ok = answer(200)
const text = (request: Received) => Buffer.from(request.body).toString()

describe("a request", () => {
  it.live("of format raw is the signed bytes, with the sender's signature and webhook id", function* () {
    const { request, reason } = yield* sendTo(ok)
    expect(reason).toBeUndefined()
    expect(request.method).toBe("POST")
    expect(request.url).toBe("/hook")
    expect(text(request)).toBe(JSON.stringify(envelope(1)))
    expect(request.headers).toMatchObject({
      "content-type": "application/json",
      "x-service-signature": `sha256=${"AB".repeat(32)}`,
      "x-service-webhook-id": "wh_1",
      "idempotency-key": "evt_1",
      "x-relay-event-type": "appointment.created",
      "x-relay-event-id": "evt_1",
      "user-agent": expect.stringMatching(/^relay\/\d+\.\d+\.\d+$/),
    })
    expect(request.headers).not.toHaveProperty("x-relay-signature")
  })

  it.live("of a replayed event has its own idempotency key", function* () {
    const { request } = yield* sendTo(ok, {}, { event: { ...entry(7), replayed: true } })
    expect(request.headers["idempotency-key"]).toBe("evt_7:replay:7")
  })

  it.live("leaves out absent facts: the relay's own events are not signed", function* () {
    const { request } = yield* sendTo(ok, {}, { event: entry(1, { signature: "", webhookId: "" }) })
    expect(Object.keys(request.headers).filter((name) => name.startsWith("x-service"))).toEqual([])
  })

  it.live("of another sender has the received bytes and the headers that sign them", function* () {
    const headers = { "stripe-signature": "t=1,v1=ab", "x-note": "\u00e9", "idempotency-key": "theirs" }
    const body = new TextEncoder().encode(' {"id":"evt_1"}')
    const foreign = { createdAt: "2026-01-01T00:00:00.000Z", headers }
    const { request } = yield* sendTo(ok, {}, { event: entry(1, { foreign, body, signature: "t=1,v1=ab" }) })
    expect(text(request)).toBe(' {"id":"evt_1"}')
    expect(request.headers).toMatchObject({ "stripe-signature": "t=1,v1=ab", "x-note": "%C3%A9" })
    expect(request.headers["idempotency-key"]).toBe("from:scheduling:evt_1")
    expect(Object.keys(request.headers).filter((name) => name.startsWith("x-service"))).toEqual([])
  })

  it.live("has the method, the headers and the header names of the config", function* () {
    const { request } = yield* sendTo(ok, {
      method: "PUT",
      headers: { Authorization: "Bearer abc", "Content-Type": "application/x-ndjson", "x-account": "{{account_id}}" },
      forward: { signature: "x-brand-signature", webhookId: "x-brand-webhook" },
    })
    expect(request.method).toBe("PUT")
    expect(request.headers).toMatchObject({
      authorization: "Bearer abc",
      "content-type": "application/x-ndjson",
      "x-account": "acct_1",
      "x-brand-signature": `sha256=${"AB".repeat(32)}`,
      "x-brand-webhook": "wh_1",
    })
  })

  it.live("of format template is the filled-in body, without the sender's signature", function* () {
    const { request } = yield* sendTo(ok, {
      format: "template",
      body: { text: "{{type}} of {{account_id}}", object: "{{/data/object}}", fixed: [1, true, null] },
    })
    expect(JSON.parse(text(request))).toEqual({
      text: "appointment.created of acct_1",
      object: { id: "apt_1" },
      fixed: [1, true, null],
    })
    expect(request.headers).not.toHaveProperty("x-service-signature")
  })

  it.live(
    "has the body that an expression makes; an event for which the expression fails is rejected alone, with the position",
    function* () {
      yield* Jmespath.load
      const config = {
        format: "template",
        body: { jmespath: "{id: data.object.id, big: upper(data.object.id)}" },
      } as const
      const { request, reason } = yield* sendTo(ok, config)
      expect(reason).toBeUndefined()
      expect(text(request)).toBe('{"id":"apt_1","big":"APT_1"}')
      const failing = entry(2, { body: bytes(JSON.stringify(envelope(2, { id: 4_242 }))) })
      const failed = yield* sendTo(ok, config, { event: failing })
      expect(failed.requests).toEqual([])
      expect(failed.reason).toMatchObject({
        _tag: "DeliveryRejected",
        message:
          "the expression at body.jmespath fails: upper() at character 27 takes a string as argument 1, and got number",
      })
    },
  )

  for (const mode of [undefined, "binary", "structured"] as const) {
    it.live(`of format cloudevents, ${mode ?? "binary by default"}, is read by the official SDK`, function* () {
      const { request, reason } = yield* sendTo(ok, { format: "cloudevents", ...(mode && { mode }) })
      expect(reason).toBeUndefined()
      const found = HTTP.toEvent({ headers: request.headers, body: text(request) })
      expect(found).toMatchObject({
        specversion: "1.0",
        id: "evt_1",
        source: "/webhooks/scheduling",
        type: "appointment.created",
        datacontenttype: "application/json",
        accountid: "acct_1",
        webhookid: "wh_1",
        data: envelope(1),
      })
    })
  }

  it.live(
    "of format cloudevents has the signed bytes and their signature; the structured mode has no signature",
    function* () {
      const { request } = yield* sendTo(ok, { format: "cloudevents" })
      expect(text(request)).toBe(JSON.stringify(envelope(1)))
      expect(request.headers).toMatchObject({
        "content-type": "application/json",
        "idempotency-key": "evt_1",
        "x-service-signature": `sha256=${"AB".repeat(32)}`,
        "x-service-webhook-id": "wh_1",
      })
      const structured = yield* sendTo(ok, { format: "cloudevents", mode: "structured", sign: { secret: "ours" } })
      const { headers, body } = structured.request
      expect(headers["content-type"]).toBe("application/cloudevents+json; charset=utf-8")
      expect(headers).not.toHaveProperty("x-service-signature")
      const secrets = [{ name: "ours", hmac: hmacSha256("ours") }]
      expect(verify(secrets, String(headers["x-relay-signature"]), body, 0)).toEqual({ ok: true, secret: "ours" })
    },
  )

  it.live("is signed as the sender signs, over the body that is sent", function* () {
    const { request } = yield* sendTo(ok, {
      format: "template",
      body: { a: "{{id}}" },
      sign: { secret: "our secret", header: "X-Our-Signature" },
    })
    const header = String(request.headers["x-our-signature"])
    const secrets = [{ name: "ours", hmac: hmacSha256("our secret") }]
    expect(verify(secrets, header, request.body, 0)).toEqual({ ok: true, secret: "ours" })
  })

  it.live("has values escaped for their places in the URL and the headers", function* () {
    const event = entry(1, { body: bytes(JSON.stringify(envelope(1, { id: "a/b?c#d\r\nx: y" }))) })
    const { request } = yield* sendTo(
      ok,
      { headers: { "x-id": "<{{/data/object/id}}>" } },
      { path: "/{{resource}}/{{/data/object/id}}?q={{/data/object/id}}", event },
    )
    expect(request.url).toBe("/appointment/a%2Fb%3Fc%23d%0D%0Ax%3A%20y?q=a%2Fb%3Fc%23d%0D%0Ax%3A%20y")
    expect(request.headers["x-id"]).toBe("<a/b?c#d%0D%0Ax: y>")
  })

  it.live("reuses a connection", function* () {
    const { url, connections } = yield* serve((_, response) => response.end("ok"))
    const sink = yield* open({ url })
    for (let sequence = 1; sequence <= 10; sequence++) yield* sink.send([entry(sequence)])
    expect(connections()).toBe(1)
  })
})

describe("an answer", () => {
  const verdicts: ReadonlyArray<readonly [status: number, reason: Reason["_tag"] | undefined]> = [
    [200, undefined],
    [201, undefined],
    [204, undefined],
    [301, "SinkMisconfigured"],
    [307, "SinkMisconfigured"],
    [400, "DeliveryRejected"],
    [401, "SinkMisconfigured"],
    [403, "SinkMisconfigured"],
    [404, "SinkMisconfigured"],
    [405, "SinkMisconfigured"],
    [408, "DeliveryFailed"],
    [409, "DeliveryFailed"],
    [410, "SinkMisconfigured"],
    [413, "DeliveryRejected"],
    [415, "DeliveryRejected"],
    [418, "DeliveryRejected"],
    [422, "DeliveryRejected"],
    [425, "DeliveryFailed"],
    [429, "SinkThrottled"],
    [500, "DeliveryFailed"],
    [502, "DeliveryFailed"],
    [503, "DeliveryFailed"],
    [504, "DeliveryFailed"],
  ]
  it.live("decides by its status", function* () {
    const found: Array<readonly [number, string | undefined]> = []
    for (const [status] of verdicts) found.push([status, (yield* sendTo(answer(status))).reason?._tag])
    expect(found).toEqual([...verdicts])
  })

  it.live("is named by method, origin and status, and by nothing that may be secret", function* () {
    const config = { headers: { authorization: "Bearer canary" }, method: "PATCH" } as const
    const { reason, origin } = yield* sendTo(answer(500), config, { path: "/canary/{{id}}?key=canary" })
    expect(reason?.message).toBe(`PATCH ${origin} answered 500; it says "what an answer says does not matter"`)
  })

  it.live("has the configured meaning, by status before class", function* () {
    const classify = { "409": "delivered", "404": "reject", "4xx": "retry", "500": "misconfigured" } as const
    const found: Array<string | undefined> = []
    for (const status of [409, 404, 400, 500, 502]) {
      found.push((yield* sendTo(answer(status), { classify })).reason?._tag)
    }
    expect(found).toEqual([undefined, "DeliveryRejected", "DeliveryFailed", "SinkMisconfigured", "DeliveryFailed"])
  })

  it.live("of a missing path concerns the event if the event chose the path", function* () {
    const { reason } = yield* sendTo(answer(404), {}, { path: "/{{account_id}}" })
    expect(reason?._tag).toBe("DeliveryFailed")
  })

  const waits: ReadonlyArray<readonly [retryAfter: string | undefined, millis: number]> = [
    [undefined, 5_000],
    ["7", 7_000],
    [" 7 ", 7_000],
    ["0", 1_000],
    ["3601", 3_600_000],
    ["315360000", 3_600_000],
    ["99999999999999999999999999", 3_600_000],
    ["Thu, 01 Jan 1970 00:00:30 GMT", 30_000],
    ["Wed, 31 Dec 1969 23:00:00 GMT", 1_000],
    ["Sun, 01 Jan 1980 00:00:00 GMT", 3_600_000],
    ["soon", 5_000],
    ["-5", 5_000],
    ["1.5", 5_000],
    ["2026", 2_026_000],
    ["Mon, 99 Foo 2026 00:00:00 GMT", 5_000],
  ]
  it.effect("that asks to wait makes the lane wait, between a second and an hour", function* () {
    const found: Array<readonly [string | undefined, unknown]> = []
    for (const [retryAfter] of waits) {
      const headers: Record<string, string> = retryAfter === undefined ? {} : { "retry-after": retryAfter }
      const { reason } = yield* sendTo(answer(429, { date: "Thu, 01 Jan 1970 00:00:00 GMT", ...headers }))
      found.push([retryAfter, reason?._tag === "SinkThrottled" ? reason.retryAfter : reason])
    }
    expect(found).toEqual([...waits])
  })

  it.effect(
    "that asks to wait until a time, without the receiver's time, is measured by the relay's clock",
    function* () {
      yield* TestClock.adjust("20 seconds")
      const { reason } = yield* sendTo((request, response, raw) => {
        response.sendDate = false
        answer(503, { "retry-after": "Thu, 01 Jan 1970 00:00:30 GMT" })(request, response, raw)
      })
      expect(reason).toMatchObject({ _tag: "SinkThrottled", retryAfter: 10_000 })
    },
  )

  it.live("that redirects is not followed, to another server or to a file", function* () {
    const elsewhere: Array<Received> = []
    const { url } = yield* serve((request, response) => {
      elsewhere.push(request)
      response.end()
    })
    for (const location of [url, "file:///etc/hostname", "//", "not a url \u00ff"]) {
      const { reason } = yield* sendTo((_, response) => {
        response.setHeader("location", location)
        response.writeHead(307).end()
      })
      expect(reason).toMatchObject({ _tag: "SinkMisconfigured", message: expect.stringContaining("redirects") })
    }
    expect(elsewhere).toEqual([])
  })
})

describe("a receiver that misbehaves", () => {
  it.live("by answering without an end is read only until its answer is clear", function* () {
    let written = 0
    const { reason } = yield* sendTo((_, response) => {
      const chunk = Buffer.alloc(64 * 1024, 120)
      const more = () => {
        while (!response.destroyed && written < 1024 ** 3) {
          written += chunk.length
          if (!response.write(chunk)) return
        }
      }
      response.on("drain", more)
      response.writeHead(200)
      more()
    })
    expect(reason).toBeUndefined()
    expect(written).toBeLessThan(64 * 1024 * 1024)
  })

  it.live("by never ending an answer has answered", function* () {
    const endless = (headers: OutgoingHttpHeaders) =>
      sendTo((_, response) => {
        response.writeHead(202, headers)
        response.write("x")
      })
    const answers = yield* Effect.all([endless({}), endless({ "content-length": "10" })], { concurrency: 2 })
    expect(answers.map(({ reason }) => reason)).toEqual([undefined, undefined])
  })

  it.live("by answering a status below 200 has not answered", function* () {
    const { reason } = yield* sendTo((_, response) => {
      response.socket?.end("HTTP/1.1 000 Odd\r\ncontent-length: 0\r\n\r\n")
    })
    expect(reason?._tag).toBeDefined()
  })

  it.live("by cutting its answer short has answered", function* () {
    const { reason } = yield* sendTo((_, response) => {
      response.writeHead(500, { "content-length": "100" })
      response.write("x", () => response.socket?.destroy())
    })
    expect(reason?._tag).toBe("DeliveryFailed")
  })

  it.live("by sending a compression bomb is not decompressed", function* () {
    const { gzipSync } = yield* Effect.promise(() => import("node:zlib"))
    const bomb = gzipSync(Buffer.alloc(50 * 1024 * 1024))
    const before = process.memoryUsage().rss
    const { reason, request } = yield* sendTo((_, response) =>
      response.writeHead(200, { "content-encoding": "gzip", "content-length": bomb.length }).end(bomb),
    )
    expect(reason).toBeUndefined()
    expect(request.headers["accept-encoding"]).toBe("identity")
    expect(process.memoryUsage().rss - before).toBeLessThan(30 * 1024 * 1024)
  })

  it.live("by resetting or closing is unavailable, and the event isn't charged", function* () {
    for (const behave of [(socket: Socket) => socket.resetAndDestroy(), (socket: Socket) => socket.end()]) {
      const { url } = yield* listening(createServer((socket) => socket.once("data", () => behave(socket))))
      const reason = yield* reasonOf((yield* open({ url })).send([entry(1)]))
      expect(reason).toMatchObject({ _tag: "SinkUnavailable", message: expect.stringContaining(`POST ${url}`) })
    }
  })

  it.live("by closing idle connections costs no event", function* () {
    const answer = "HTTP/1.1 204 No Content\r\n\r\n"
    const behaviours = [
      // The first closes without notice while the connection is idle, the second when the next request arrives.
      (socket: Socket) => socket.end(answer),
      (socket: Socket) => socket.write(answer, () => socket.once("data", () => socket.destroy())),
    ]
    for (const behave of behaviours) {
      let answered = 0
      const { url } = yield* listening(
        createServer((socket) =>
          socket.once("data", () => {
            answered += 1
            behave(socket)
          }),
        ),
      )
      const sink = yield* open({ url })
      const reasons = yield* Effect.forEach(entries(20), (one) => reasonOf(sink.send([one])))
      const passed = reasons.filter((reason) => reason === undefined).length
      expect(passed).toBeGreaterThan(0)
      expect(passed).toBeLessThanOrEqual(answered)
      expect(reasons.filter((reason) => reason !== undefined && reason._tag !== "SinkUnavailable")).toEqual([])
    }
  })

  it.live("by not listening is distinguished from a name that doesn't exist", function* () {
    const free = yield* Effect.scoped(listening(createServer()))
    const refused = yield* reasonOf((yield* open({ url: free.url })).send([entry(1)]))
    expect(refused).toMatchObject({ _tag: "SinkUnavailable", message: expect.stringContaining("nothing listens") })
    const nowhere = yield* reasonOf((yield* open({ url: "http://no-such-host.invalid/" })).send([entry(1)]))
    expect(nowhere).toMatchObject({ _tag: "SinkUnavailable", message: expect.stringContaining("no address") })
  })

  it.live("by not answering loses its connection when the attempt is interrupted", function* () {
    let came = () => {}
    const arrived = new Promise<void>((resolve) => {
      came = resolve
    })
    let cut = () => {}
    const closed = new Promise<void>((resolve) => {
      cut = resolve
    })
    const { url } = yield* serve((_, response) => {
      response.on("close", () => cut())
      came()
    })
    const sink = yield* open({ url })
    const sending = yield* Effect.forkChild(sink.send([entry(1)]), { startImmediately: true })
    yield* Effect.raceFirst(
      Effect.promise(() => arrived),
      Fiber.join(sending),
    )
    yield* Fiber.interrupt(sending)
    yield* Effect.promise(() => closed)
  })
})

describe("a check", () => {
  it.live("reaches the receiver with a HEAD, and takes any answer for a sign of life", function* () {
    const requests: Array<Received> = []
    const { url } = yield* serve((request, response) => {
      requests.push(request)
      response.writeHead(401).end()
    })
    yield* (yield* open({ url: `${url}/hook/{{id}}` })).check
    expect(requests.map(({ method }) => method)).toEqual(["HEAD"])
    expect(requests[0]?.headers["user-agent"]).toMatch(/^relay\/\d/)
  })
})

describe("a config", () => {
  const decode = Schema.decodeUnknownResult(HttpConfig)
  const wrong = (config: object): string => {
    const decoded = decode(config)
    return Result.isFailure(decoded) ? String(decoded.failure) : "nothing"
  }
  it.live("is refused with a reason if it could never work or would leak", () =>
    Effect.sync(() => {
      const url = "https://example.com/hook"
      const cases: ReadonlyArray<readonly [object, string]> = [
        [{ url: "example.com/hook" }, "this is not a URL: it has no `https://` in front"],
        [{ url: "file:///etc/passwd" }, "this is not a URL of HTTP: it begins with another scheme"],
        [{ url: "ftp://example.com/hook" }, "this is not a URL of HTTP: it begins with another scheme"],
        [{ url: "https:/example.com" }, "is followed by `//`"],
        [{ url: "https://" }, "this is not a URL: no host follows `://`"],
        [{ url: "https://example.com/a b" }, "it contains a blank"],
        [{ url: " https://example.com/" }, "there is a blank before or after it"],
        [{ url: "https://example.com:99999/" }, "is no port"],
        [{ url: "https://exa%mple.com/" }, "its host is none"],
        [{ url: "https://{{account_id}}.example.com/" }, "the host of a URL can't hold a placeholder"],
        [{ url: "https://example.com{{account_id}}" }, "the host of a URL can't hold a placeholder"],
        [{ url: "https://example.com:{{account_id}}/" }, "the host of a URL can't hold a placeholder"],
        [{ url: "https://user:pass@example.com/" }, "no user and password"],
        [{ url, headers: { "Content-Length": "5" } }, "written by the relay itself"],
        [{ url, headers: { authorization: "Bearer a\nb" } }, "visible ASCII only"],
        [{ url, headers: { authorization: "Bearer \u00fc" } }, "visible ASCII only"],
        [{ url, format: "template" }, 'needs a "body"'],
        [{ url, format: "cloudevents", body: {} }, 'with "cloudevents" the event itself is sent'],
        [{ url, mode: "structured" }, 'a "mode" needs "format": "cloudevents"'],
        [{ url, body: {} }, 'needs "format": "template"'],
        [{ url, classify: { "200-299": "retry" } }, "this is not a status"],
        [{ url, sign: { secret: " " } }, "can't be empty"],
        [{ url, sign: { secret: "a", header: "x y" } }, "not a header name"],
      ]
      for (const [config, message] of cases) expect(wrong(config)).toContain(message)
      expect(wrong({ url })).toBe("nothing")
      expect(wrong({ url: "HTTP://Example.com:8080?x={{id}}" })).toBe("nothing")
    }),
  )

  it.live("never shows its secrets when it is printed", () =>
    Effect.sync(() => {
      const config = Schema.decodeUnknownSync(HttpConfig)({
        url: "https://example.com/canary",
        headers: { authorization: "canary" },
        sign: { secret: "canary" },
        tls: { key: "canary" },
      })
      expect(`${JSON.stringify(config)} ${String(config)} ${Bun.inspect(config)}`).not.toContain("canary")
    }),
  )
})
