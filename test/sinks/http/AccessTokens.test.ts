/**
 * OAuth 2.0 client credentials of an HTTP sink: fetching, renewing and refusing tokens, and the meaning of failures.
 */
import { describe, expect, test } from "bun:test"
import type { ServerResponse } from "node:http"
import { createServer } from "node:net"
import { type Duration, Effect, Fiber, Redacted, Result, Schema } from "effect"
import { TestClock } from "effect/testing"
import { Http } from "../../../src/sinks/http/Http.ts"
import { HttpConfig } from "../../../src/sinks/http/HttpConfig.ts"
import { it } from "../../lib/effect.ts"
import { throttlings } from "../../lib/throttlings.ts"
import { hour, settable } from "../../lib/wallClock.ts"
import { preview } from "../preview.ts"
import { type Handler, listening, type Received, serve } from "../receiver.ts"
import { entry, reasonOf } from "../samples.ts"
import { client, tokenEndpoint } from "./tokenEndpoint.ts"

type OAuth = NonNullable<(typeof HttpConfig.Encoded)["oauth"]>

const credentials = { clientId: client.id, clientSecret: client.secret }

/** A sink to a receiver that answers by `handler`, with tokens from the endpoint. */
const opened = Effect.fnUntraced(function* (
  oauth: { readonly tokenUrl: string } & Partial<OAuth>,
  handler: Handler = (_, response) => response.end(),
  more: Partial<typeof HttpConfig.Encoded> = {},
) {
  const received: Array<Received> = []
  const { url } = yield* serve((request, response, raw) => {
    received.push(request)
    handler(request, response, raw)
  })
  const config = { url, oauth: { ...credentials, ...oauth }, ...more }
  const sink = yield* Http.open(Schema.decodeUnknownSync(HttpConfig)(config))
  return { sink, received, bearers: () => received.map(({ headers }) => headers.authorization) }
})

/** Answers 401 to every token except this one. */
const only =
  (token: () => string): Handler =>
  ({ headers }, response) =>
    response.writeHead(headers.authorization === `Bearer ${token()}` ? 204 : 401).end(headers.authorization)

const form = ({ body }: Received) => Object.fromEntries(new URLSearchParams(Buffer.from(body).toString()))

describe("an access token", () => {
  it.effect("is fetched when the first event needs it, once for all attempts, and sent with each", function* () {
    const { tokenUrl, requests } = yield* tokenEndpoint()
    const { sink, bearers } = yield* opened({
      tokenUrl,
      scope: "events:write more",
      audience: "https://api.example.com",
    })
    expect(requests).toHaveLength(0)
    yield* Effect.forEach([1, 2, 3, 4, 5, 6, 7, 8], (n) => sink.send([entry(n)]), { concurrency: "unbounded" })
    yield* sink.send([entry(9)])
    expect(requests).toHaveLength(1)
    expect(bearers()).toEqual(Array.from({ length: 9 }, () => "Bearer canary-token-1"))
    expect(requests[0]).toMatchObject({ method: "POST", url: "/oauth2/token" })
    expect(requests[0]?.headers["user-agent"]).toMatch(/^relay\//)
    expect(requests[0]?.headers["content-type"]).toMatch(/^application\/x-www-form-urlencoded/)
    expect(requests.map(form)).toEqual([
      { grant_type: "client_credentials", scope: "events:write more", audience: "https://api.example.com" },
    ])
  })

  it.effect("is requested by the client in a header, or in the body", function* () {
    const { tokenUrl, requests } = yield* tokenEndpoint()
    const { sink } = yield* opened({ tokenUrl, clientAuth: "client_secret_post" })
    yield* sink.send([entry(1)])
    expect(requests.map(form)).toEqual([
      { grant_type: "client_credentials", client_id: client.id, client_secret: client.secret },
    ])
    expect(requests[0]?.headers).not.toHaveProperty("authorization")
  })

  const lifetimes: ReadonlyArray<readonly [lifetime: number | null, kept: Duration.Input, renewed: Duration.Input]> = [
    [3_600, "3539 seconds", "2 seconds"],
    [100, "89 seconds", "2 seconds"],
    [null, "299 seconds", "2 seconds"],
  ]
  it.effect(
    "is renewed a tenth of its life before its end, at most a minute; after 5 minutes if unknown",
    function* () {
      for (const [lifetime, kept, renewed] of lifetimes) {
        const { tokenUrl, requests } = yield* tokenEndpoint({ lifetime })
        const { sink, bearers } = yield* opened({ tokenUrl })
        yield* sink.send([entry(1)])
        yield* TestClock.adjust(kept)
        yield* sink.send([entry(2)])
        expect(requests).toHaveLength(1)
        yield* TestClock.adjust(renewed)
        yield* sink.send([entry(3)])
        expect(bearers()).toEqual([1, 1, 2].map((n) => `Bearer canary-token-${n}`))
      }
    },
  )

  it.effect("is used until it expires while the endpoint can't renew it", function* () {
    let status = 200
    const answer = (response: ServerResponse) => status !== 200 && !!response.writeHead(status).end()
    const { tokenUrl, requests } = yield* tokenEndpoint({ lifetime: 1_000, answer })
    const { sink, bearers } = yield* opened({ tokenUrl })
    yield* sink.send([entry(1)])
    status = 503
    yield* TestClock.adjust("941 seconds")
    yield* sink.send([entry(2)])
    yield* sink.send([entry(3)])
    // One failed renewal serves all attempts for some seconds.
    expect(requests).toHaveLength(2)
    yield* TestClock.adjust("6 seconds")
    status = 400
    expect((yield* reasonOf(sink.send([entry(4)])))?._tag).toBe("SinkMisconfigured")
    status = 503
    yield* TestClock.adjust("54 seconds")
    expect((yield* reasonOf(sink.send([entry(5)])))?._tag).toBe("SinkUnavailable")
    status = 200
    yield* sink.send([entry(6)])
    expect(bearers()).toEqual([1, 1, 1, requests.length].map((n) => `Bearer canary-token-${n}`))
  })

  it.effect("is renewed when it expires, whatever the wall clock says", function* () {
    const { wall, withWall } = yield* settable
    yield* Effect.gen(function* () {
      const { tokenUrl, requests } = yield* tokenEndpoint({ lifetime: 100 })
      const { sink } = yield* opened({ tokenUrl })
      yield* sink.send([entry(1)])
      wall.ahead = hour
      yield* sink.send([entry(2)])
      expect(requests).toHaveLength(1)
      wall.ahead = -hour
      yield* TestClock.adjust("91 seconds")
      yield* sink.send([entry(3)])
      expect(requests).toHaveLength(2)
    }).pipe(withWall)
  })

  it.effect(
    "that is refused is renewed once for all attempts that used it, and the events are delivered",
    function* () {
      const { tokenUrl, requests } = yield* tokenEndpoint()
      let good = "canary-token-1"
      const { sink } = yield* opened(
        { tokenUrl },
        only(() => good),
      )
      yield* sink.send([entry(1)])
      good = "canary-token-2"
      const sent = Effect.forEach([2, 3, 4, 5], (n) => sink.send([entry(n)]), { concurrency: "unbounded" })
      expect(yield* reasonOf(sent)).toBeUndefined()
      expect(requests).toHaveLength(2)
    },
  )

  it.effect("that is too long for a receiver is renewed as well", function* () {
    const { tokenUrl, requests } = yield* tokenEndpoint()
    const { sink } = yield* opened({ tokenUrl }, ({ headers }, response) =>
      response.writeHead(headers.authorization === "Bearer canary-token-1" ? 431 : 204).end(),
    )
    expect(yield* reasonOf(sink.send([entry(1)]))).toBeUndefined()
    expect(requests).toHaveLength(2)
  })

  it.effect("that is refused after another attempt has renewed it is not renewed again", function* () {
    const { tokenUrl, requests } = yield* tokenEndpoint()
    let refuse: (() => void) | undefined
    const { sink } = yield* opened({ tokenUrl }, ({ headers, body }, response) => {
      if (headers.authorization !== "Bearer canary-token-1") response.end()
      // The refusal of the first event is late.
      else if (Buffer.from(body).includes("evt_1")) refuse = () => response.writeHead(401).end()
      else response.writeHead(401).end()
    })
    const late = yield* Effect.forkChild(reasonOf(sink.send([entry(1)])), { startImmediately: true })
    yield* Effect.promise(async () => {
      while (refuse === undefined) await new Promise((resolve) => setImmediate(resolve))
    })
    expect(yield* reasonOf(sink.send([entry(2)]))).toBeUndefined()
    refuse?.()
    expect(yield* Fiber.join(late)).toBeUndefined()
    expect(requests).toHaveLength(2)
  })

  it.effect("that is refused although it is new gives advice, and isn't shown", function* () {
    const { tokenUrl, requests } = yield* tokenEndpoint()
    const { sink, bearers } = yield* opened(
      { tokenUrl },
      only(() => "another"),
    )
    const reason = yield* reasonOf(sink.send([entry(1)]))
    expect(reason).toMatchObject({ _tag: "SinkMisconfigured", message: expect.stringContaining('in "oauth"') })
    expect(bearers()).toEqual(["Bearer canary-token-1", "Bearer canary-token-2"])
    expect(requests).toHaveLength(2)
    // The receiver repeats the request's token.
    expect(reason?.answer && Redacted.value(reason.answer)).toBe("Bearer ***")
  })

  it.effect("is still fetched for waiting attempts if the first attempt is interrupted", function* () {
    const release: Array<() => void> = []
    const { tokenUrl, requests } = yield* tokenEndpoint({
      answer: (response) => {
        const body = { access_token: "late", token_type: "bearer" }
        const headers = { "content-type": "application/json" }
        release.push(() => response.writeHead(200, headers).end(JSON.stringify(body)))
        return true
      },
    })
    const { sink, bearers } = yield* opened({ tokenUrl })
    const first = yield* Effect.forkChild(sink.send([entry(1)]), { startImmediately: true })
    const second = yield* Effect.forkChild(sink.send([entry(2)]), { startImmediately: true })
    yield* Effect.promise(async () => {
      while (release.length === 0) await new Promise((resolve) => setImmediate(resolve))
    })
    yield* Fiber.interrupt(first)
    for (const answer of release) answer()
    yield* Fiber.join(second)
    expect(requests).toHaveLength(1)
    expect(bearers()).toEqual(["Bearer late"])
  })
})

describe("a token endpoint", () => {
  it.live("whose answer ends early is unavailable, and not wrong", function* () {
    const { tokenUrl } = yield* tokenEndpoint({
      answer: (response) => {
        response.writeHead(200, { "content-type": "application/json", "content-length": 200 })
        response.write('{"access_token":"canary', () => response.destroy())
        return true
      },
    })
    const { sink } = yield* opened({ tokenUrl })
    const { reason, message } = yield* Effect.flip(sink.send([entry(1)]))
    expect([reason._tag, message]).toEqual(["SinkUnavailable", expect.stringContaining("broke off")])
  })

  const answering = (status: number, body: string, headers: Record<string, string> = {}) =>
    tokenEndpoint({
      answer: (response) => {
        response.writeHead(status, { "content-type": "application/json", ...headers }).end(body)
        return true
      },
    })
  const failing = Effect.fnUntraced(function* (oauth: { readonly tokenUrl: string } & Partial<OAuth>) {
    const { sink, received } = yield* opened(oauth)
    const reason = yield* reasonOf(sink.send([entry(1)]))
    const checked = yield* reasonOf(sink.check)
    expect([received.length, checked?._tag]).toEqual([0, reason?._tag])
    expect(`${reason?.message}`).not.toContain("canary")
    return [reason?._tag, reason?.message.replace(/:\d+/, "")]
  })
  const at = "the token endpoint http://127.0.0.1"

  it.effect("that can't be reached, fails or is busy makes the sink unavailable", function* () {
    const closed = yield* Effect.scoped(listening(createServer()))
    expect(yield* failing({ tokenUrl: `${closed.url}/canary` })).toEqual([
      "SinkUnavailable",
      `${at} can't be reached: nothing listens there (connection refused)`,
    ])
    for (const status of [500, 503]) {
      const { tokenUrl } = yield* answering(status, '{"error":"invalid_client"}')
      expect(yield* failing({ tokenUrl })).toEqual([
        "SinkUnavailable",
        `${at} answered ${status}; it says "invalid_client"`,
      ])
    }
    const { tokenUrl } = yield* answering(400, '{"error":"temporarily_unavailable"}')
    expect(yield* failing({ tokenUrl })).toEqual(["SinkUnavailable", `${at} gives no token: temporarily_unavailable`])
  })

  it.effect("that asks for a wait makes the lane wait", function* () {
    for (const [status, headers, retryAfter] of throttlings) {
      const { tokenUrl } = yield* answering(status, "slow down", headers)
      const { sink } = yield* opened({ tokenUrl })
      expect(yield* reasonOf(sink.send([entry(1)]))).toMatchObject({ _tag: "SinkThrottled", retryAfter })
    }
  })

  it.effect("is shown with its own words, without the client's secret", function* () {
    const error = { error: "invalid_client", error_description: "no secret canary-client-secret is known" }
    const { tokenUrl } = yield* answering(401, JSON.stringify(error))
    const [tag, message] = yield* failing({ tokenUrl })
    expect([
      tag,
      message?.startsWith(`${at} gives no token: invalid_client; it says "no secret *** is known"; `),
    ]).toEqual(["SinkMisconfigured", true])
  })

  it.effect("that hangs makes the sink unavailable before the attempt times out, and is requested again", function* () {
    let asked = () => {}
    const first = new Promise<void>((resolve) => {
      asked = resolve
    })
    let hangs = true
    const { tokenUrl } = yield* tokenEndpoint({
      answer: () => {
        asked()
        return hangs
      },
    })
    const { sink } = yield* opened({ tokenUrl })
    const sending = yield* Effect.forkChild(reasonOf(sink.send([entry(1)])), { startImmediately: true })
    yield* Effect.promise(() => first)
    yield* TestClock.adjust("5 seconds")
    expect(yield* Fiber.join(sending)).toMatchObject({
      _tag: "SinkUnavailable",
      message: expect.stringContaining("no answer within 5 seconds"),
    })
    hangs = false
    expect(yield* reasonOf(sink.send([entry(1)]))).toBeUndefined()
  })

  it.effect("that refuses the client makes the sink misconfigured, with its code and advice", function* () {
    const { tokenUrl } = yield* tokenEndpoint()
    for (const clientAuth of ["client_secret_basic", "client_secret_post"] as const) {
      expect(yield* failing({ tokenUrl, clientAuth, clientSecret: "canary-wrong" })).toEqual([
        "SinkMisconfigured",
        `${at} gives no token: invalid_client; check "oauth.clientId" and "oauth.clientSecret", and whether it wants another "oauth.clientAuth"`,
      ])
    }
    const codes = {
      invalid_scope: /"oauth.scope"/,
      invalid_target: /"oauth.audience"/,
      // The name of a property of every object.
      constructor: /constructor; it says "no"; check "oauth", and the client there$/,
      "canary said": /an error of its own; it says "no"/,
    }
    for (const [error, says] of Object.entries(codes)) {
      const { tokenUrl } = yield* answering(400, JSON.stringify({ error, error_description: "no" }))
      expect(yield* failing({ tokenUrl })).toEqual(["SinkMisconfigured", expect.stringMatching(says)])
    }
  })

  it.effect("whose token no header can carry is at fault, and is requested again", function* () {
    let asked = 0
    const bad = ["one\r\nx-injected: two", "one\u0000", "τόκεν", "t\u00e9"]
    const { tokenUrl } = yield* tokenEndpoint({
      answer: (response) => {
        const token = bad[asked++]
        if (token !== undefined) response.setHeader("content-type", "application/json")
        if (token !== undefined) response.end(JSON.stringify({ access_token: token, token_type: "bearer" }))
        return token !== undefined
      },
    })
    const { sink, bearers } = yield* opened({ tokenUrl })
    for (const _ of bad) {
      expect(yield* reasonOf(sink.send([entry(1)]))).toMatchObject({
        _tag: "SinkMisconfigured",
        message: expect.stringMatching(/^the token endpoint .* gives a token that no header can carry/),
      })
    }
    expect(yield* reasonOf(sink.send([entry(1)]))).toBeUndefined()
    expect(bearers()).toEqual([`Bearer canary-token-${bad.length + 1}`])
  })

  it.effect("with a long token makes no dead letter of a good event, but still one of a bad event", function* () {
    const issuing = (token: string) => ({
      answer: (response: ServerResponse) => {
        response.setHeader("content-type", "application/json")
        response.end(JSON.stringify({ access_token: token, token_type: "bearer" }))
        return true
      },
    })
    const sent = Effect.fnUntraced(function* (length: number, status: number, text: string, more = {}) {
      const { tokenUrl } = yield* tokenEndpoint(issuing("t".repeat(length)))
      const { sink } = yield* opened({ tokenUrl }, (_, response) => response.writeHead(status).end(text), more)
      return (yield* reasonOf(sink.send([entry(1)])))?._tag
    })
    expect(yield* sent(5_000, 400, "400 Request Header Or Cookie Too Large")).toBe("SinkMisconfigured")
    expect(yield* sent(5_000, 400, "no such field")).toBe("DeliveryRejected")
    expect(yield* sent(9_000, 400, "")).toBe("SinkMisconfigured")
    expect(yield* sent(100, 431, "")).toBe("SinkMisconfigured")
    expect(yield* sent(9_000, 422, "")).toBe("DeliveryRejected")
    expect(yield* sent(9_000, 400, "", { classify: { 400: "reject" } })).toBe("DeliveryRejected")
  })

  it.effect(
    "that gives no token makes the sink misconfigured: a page, another kind, a redirect, nothing",
    function* () {
      const others = [
        yield* answering(200, "<html>canary</html>", { "content-type": "text/html" }),
        yield* answering(200, "{}"),
        yield* answering(200, '{"access_token":"canary","token_type":"mac"}'),
        yield* answering(200, '{"access_token":"canary","token_type":"dpop"}'),
        yield* answering(404, "no such page"),
        yield* answering(204, ""),
        yield* answering(307, "", { location: "http://127.0.0.1:1/canary" }),
      ]
      for (const { tokenUrl } of others) {
        expect(yield* failing({ tokenUrl })).toEqual([
          "SinkMisconfigured",
          expect.stringMatching(
            /^the token endpoint http:\/\/127.0.0.1 answered .*without a bearer token(; it says "no such page")?; check "oauth.tokenUrl"$/,
          ),
        ])
      }
    },
  )

  test("with certificates that can't be read is an error of its own keys", async () => {
    const config = {
      url: "https://example.com",
      oauth: { ...credentials, tokenUrl: "https://idp.example.com", tls: { ca: "no-such.pem" } },
    }
    const open = Effect.scoped(Http.open(Schema.decodeUnknownSync(HttpConfig)(config)))
    expect((await Effect.runPromise(Effect.flip(open))).message).toBe(
      'the file of "oauth.tls.ca" can\'t be read: no-such.pem',
    )
  })
})

describe("a config of OAuth", () => {
  const decoded = (more: object) =>
    Schema.decodeUnknownResult(HttpConfig)({
      url: "https://example.com",
      oauth: { ...credentials, tokenUrl: "https://idp.example.com/token" },
      ...more,
    })

  test("has no other authorization beside it, and asks the same endpoint for every event", () => {
    expect(Result.isSuccess(decoded({}))).toBe(true)
    expect(String(decoded({ headers: { Authorization: "x" } }))).toContain('with "oauth" this header carries its token')
    const templated = { oauth: { ...credentials, tokenUrl: "https://idp.example.com/{{account_id}}" } }
    expect(String(decoded(templated))).toContain("it holds no placeholder")
  })

  test("is masked in a preview", () => {
    const oauth = { ...credentials, tokenUrl: "https://idp.example.com/canary" }
    const shown = preview("http", { url: "https://example.com", oauth })
    expect(shown.headers).toMatchObject({ authorization: "Bearer ***" })
    expect(JSON.stringify(shown)).not.toContain("canary")
  })
})
