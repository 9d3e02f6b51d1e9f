/**
 * HTTP: proxies, tested with Squid, and access tokens, tested with an endpoint and receivers that answer like real
 * ones.
 */
import type { ServerResponse } from "node:http"
import process from "node:process"
import { Effect, Schema, type Scope } from "effect"
import { Http } from "../../../src/sinks/http/Http.ts"
import { HttpConfig } from "../../../src/sinks/http/HttpConfig.ts"
import type { Reason } from "../../../src/sinks/Sink.ts"
import { reasonToSkip, startSquid } from "../../parts/Squid.ts"
import { client, tokenEndpoint } from "../http/tokenEndpoint.ts"
import { type Handler, serve } from "../receiver.ts"
import { entry, reasonOf } from "../samples.ts"
import type { Part } from "./Cause.ts"

type Config = typeof HttpConfig.Encoded
type Said = Effect.Effect<Reason | undefined, unknown, Scope.Scope>

/** Sends an event. Returns the sink's failure, if any. */
const send = (config: Config): Said =>
  Effect.gen(function* () {
    const sink = yield* Http.open(Schema.decodeUnknownSync(HttpConfig)(config))
    return yield* reasonOf(sink.send([entry(1)]))
  })

/** Runs the sink's check, which sends no event. */
const check = (config: Config): Said =>
  Effect.flatMap(Http.open(Schema.decodeUnknownSync(HttpConfig)(config)), (sink) => reasonOf(sink.check))

// --- proxies -------------------------------------------------------------------

const variables = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "NO_PROXY", "no_proxy"]

/** Runs with a proxy for all requests. */
const through = (proxy: string, said: Said): Said =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const before = variables.map((name) => [name, process.env[name]] as const)
      for (const name of variables) delete process.env[name]
      Object.assign(process.env, { HTTP_PROXY: `http://${proxy}`, HTTPS_PROXY: `http://relay:canary@${proxy}` })
      return before
    }),
    () => said,
    (before) =>
      Effect.sync(() => {
        for (const [name, value] of before) {
          if (value === undefined) delete process.env[name]
          else process.env[name] = value
        }
      }),
  )

const nobody = "127.0.0.1:1"
const oauth = (tokenUrl: string) => ({ tokenUrl, clientId: client.id, clientSecret: client.secret })

const answering = (status: number): Said =>
  Effect.flatMap(
    serve((_, response) => response.writeHead(status).end("no")),
    ({ url }) => send({ url }),
  )

type Refused = readonly [name: string, todo: string, proxy: string, said: Said]

const refused: ReadonlyArray<Refused> = ["https", "http"].flatMap((scheme) => {
  const url = `${scheme}://receiver.example.com/hooks`
  const variable = `${scheme.toUpperCase()}_PROXY`
  return [
    [`${scheme}: it lets nobody through`, "NO_PROXY", "closed", send({ url })],
    [`${scheme}: it lets nobody through, when checked`, "NO_PROXY", "closed", check({ url })],
    [`${scheme}: it wants credentials`, `put them into ${variable}`, "guarded", send({ url })],
    [`${scheme}: it can't reach the receiver`, "", "open", send({ url: `${scheme}://${nobody}/hooks` })],
    [
      `${scheme}: it lets nobody through to the token endpoint`,
      "NO_PROXY",
      "closed",
      send({ url: "https://receiver.example.com", oauth: oauth(url) }),
    ],
    [`${scheme}: nothing listens at the proxy`, "", nobody, send({ url })],
    [`${scheme}: the proxy's name has no address`, "", "proxy.invalid:3128", send({ url })],
  ] as const
})

export const proxies: Part = {
  title: "Proxies",
  lacking: reasonToSkip,
  causes: async () => {
    const squid = await startSquid()
    const at = { open: squid.open, closed: squid.closed, guarded: squid.guarded }
    const all: ReadonlyArray<Refused> = [
      ...refused,
      ["http: the receiver itself refuses", 'credentials in "headers"', "open", answering(403)],
    ]
    return all.map(([name, todo, proxy, said]) => ({
      name,
      todo,
      reason: through(Object.hasOwn(at, proxy) ? at[proxy as keyof typeof at] : proxy, said),
    }))
  },
}

// --- access tokens -------------------------------------------------------------

const json = (response: ServerResponse, status: number, body: object): true => {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
  return true
}
const issuing = (token: string) => (response: ServerResponse) =>
  json(response, 200, { access_token: token, token_type: "Bearer", expires_in: 3_600 })
const failing = (error: string) => (response: ServerResponse) => json(response, 400, { error })
const ok: Handler = (_, response) => response.end()

/** nginx answers 400 to a header longer than its buffer. */
const nginx: Handler = (_, response) =>
  response
    .writeHead(400, { "content-type": "text/html", server: "nginx" })
    .end("<html><head><title>400 Request Header Or Cookie Too Large</title></head></html>")
/** Apache answers 400 to the same. */
const apache: Handler = (_, response) =>
  response.writeHead(400).end("Your browser sent a request: Size of a request header field exceeds server limit.")
const status =
  (code: number): Handler =>
  (_, response) =>
    response.writeHead(code).end()

const ours = 'correct the tokens that it issues, or "oauth.tokenUrl"'
const shorter = "ask for a shorter one"
const tokens: ReadonlyArray<
  readonly [name: string, todo: string, answer: (response: ServerResponse) => boolean, receiver: Handler]
> = [
  ["a token with a line break", ours, issuing("one\r\nx-injected: two"), ok],
  ["a token with a control character", ours, issuing("one\u0000two"), ok],
  ["a token with letters that are not Latin", ours, issuing("τόκεν"), ok],
  ["a token that is too long for nginx", shorter, issuing("t".repeat(9_000)), nginx],
  ["a token that is too long for Apache", shorter, issuing("t".repeat(9_000)), apache],
  ["a token that is too long for a server that answers 431", shorter, issuing("t".repeat(9_000)), status(431)],
  ["a token that is too long for a server that answers 400 alone", shorter, issuing("t".repeat(9_000)), status(400)],
  ["an error code that is a property of every object", 'check "oauth"', failing("constructor"), ok],
  ["a wrong client", '"oauth.clientSecret"', failing("invalid_client"), ok],
  ["an endpoint that is busy", "", failing("temporarily_unavailable"), ok],
]

export const accessTokens: Part = {
  title: "OAuth",
  lacking: () => undefined,
  causes: async () =>
    tokens.map(([name, todo, answer, receiver]) => ({
      name,
      todo,
      reason: Effect.gen(function* () {
        const { tokenUrl } = yield* tokenEndpoint({ answer })
        const { url } = yield* serve(receiver)
        return yield* send({ url, oauth: oauth(tokenUrl) })
      }),
    })),
}
