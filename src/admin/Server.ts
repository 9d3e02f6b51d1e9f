/** The admin server: the probes, and the API and `/metrics` behind the guard. */
import { Console, Context, Effect, Layer, Logger, Redacted, References } from "effect"
import { HttpRouter, HttpServer, HttpServerResponse } from "effect/http"
import { ActiveConfig } from "../ActiveConfig.ts"
import { isLoopback, isWildcard } from "../config/Address.ts"
import { type AdminConfig, type Role, tokensOf } from "../config/Config.ts"
import { Lanes } from "../delivery/Lanes.ts"
import { hmacSha256 } from "../event/Signature.ts"
import { Ingest } from "../ingest/Ingest.ts"
import { SenderSilence } from "../ingest/SenderSilence.ts"
import { Archive } from "../journal/Archive.ts"
import { Journal } from "../journal/Journal.ts"
import { Operator } from "../journal/JournalContext.ts"
import { Reload, Restart } from "../reload/Reload.ts"
import { userAgent } from "../runtime/HttpTransport.ts"
import * as Problem from "../runtime/Problem.ts"
import type { Handler } from "../runtime/RequestGuard.ts"
import { Stderr } from "../runtime/Stderr.ts"
import * as Handlers from "./api/Handlers.ts"
import * as Metrics from "./Metrics.ts"
import { contentType } from "./Metrics.ts"
import * as Probes from "./Probes.ts"
import { Caller, operatorOf, RelayInfo } from "./RelayInfo.ts"

const misdirected: Problem.Problem = {
  status: 421,
  title: "This host is not the relay's",
  detail: "use localhost, a loopback address, or the address of admin.listen",
}
const foreign: Problem.Problem = {
  status: 403,
  title: "A page of another site can't make changes",
}
const unauthorized: Problem.Problem = {
  status: 401,
  title: "The admin token is missing or wrong",
  detail: "send admin.token of the config, or one of admin.tokens, as a bearer token",
  headers: { "www-authenticate": "Bearer" },
}

/**
 * The content types that a page can send to another site without a preflight request
 * (Fetch, "CORS-safelisted request-header").
 */
const form = /^(application\/x-www-form-urlencoded|multipart\/form-data|text\/plain)\b/i

const reads: ReadonlySet<string> = new Set(["GET", "HEAD"])

/** Returns the name in a Host header or URL, without its port and brackets. */
const nameOf = (host: string): string =>
  host
    .replace(/:[0-9]+$/, "")
    .replace(/^\[|\]$/g, "")
    .toLowerCase()

const isAddress = (name: string): boolean => /^[0-9.]+$/.test(name) || name.includes(":")

/** Compares with an HMAC under a random key, so that the duration reveals nothing about either text. */
const blind = hmacSha256(crypto.randomUUID())
const encoder = new TextEncoder()
const blinded = (text: string): string => Buffer.from(blind(encoder.encode(text))).toString("hex")

/** The name and role of a request's sender, or why the request is refused. */
interface Admitted {
  readonly name: string
  readonly role: Role
  readonly problem?: Problem.Problem
}

/**
 * The caller if no token is required. The admin API then listens only on loopback,
 * so the caller is a user of this machine, and the address would add nothing.
 */
const local: Admitted = { name: "local", role: "operate" }

/**
 * Decides who may use the admin API.
 *
 * It listens on loopback, but any page in a browser on the same machine can send requests there. So the Host must
 * be the relay's (against DNS rebinding), and a change must not come from a page of another site or from a plain
 * form. If the config has tokens, one is required. `Authorization.ts` checks for each endpoint what the token's
 * role allows. Probes are answered before the guard (`Probes.ts`).
 *
 * Makes the check of requests: who sends them, and whether they may pass.
 */
export const guard = (admin: AdminConfig) => {
  const { listen } = admin
  const tokens = tokensOf(admin).map(({ name, role, value }) => ({
    name,
    role,
    blinded: blinded(Redacted.value(value)),
  }))
  // A name can be rebound, but an address can't. So if the API listens on all addresses, any address is accepted.
  const ours = (name: string): boolean =>
    isLoopback({ host: name }) || name === listen.host.toLowerCase() || (isWildcard(listen) && isAddress(name))

  const holderOf = (authorization: string) => {
    if (!authorization.startsWith("Bearer ")) return undefined
    const given = blinded(authorization.slice("Bearer ".length))
    return tokens.find((token) => token.blinded === given)
  }

  return ({ method, headers }: Request): Admitted => {
    const name = nameOf(headers.get("host") ?? "")
    const holder = holderOf(headers.get("authorization") ?? "")
    const { name: caller, role } = holder ?? local
    const admitted = { name: caller, role }
    const refused = (problem: Problem.Problem): Admitted => ({ ...admitted, problem })
    // A client that knows the token may use any name.
    if (!ours(name) && holder === undefined) return refused(misdirected)
    if (!reads.has(method)) {
      const site = headers.get("sec-fetch-site")
      if (site !== null && site !== "same-origin" && site !== "none") return refused(foreign)
      const origin = headers.get("origin")
      if (form.test(headers.get("content-type") ?? "")) return refused(foreign)
      if (origin !== null && !(URL.canParse(origin) && new URL(origin).host === headers.get("host")))
        return refused(foreign)
    }
    return tokens.length === 0 || holder !== undefined ? admitted : refused(unauthorized)
  }
}

/** Enough for names, patterns and ids: 50,000 ids of dead letters are smaller. */
const most = 1024 * 1024
/** `relay journal import` sends some megabytes at a time, and at least one event with its body. */
const mostOf: Readonly<Record<string, number>> = { "/api/v1/journal/import": 64 * 1024 * 1024 }

/**
 * Limits the bodies of admin requests to what their endpoints need, before a body is read. Returns the refusal, or
 * `undefined` if the body may be read. Only bodies of declared length are read.
 */
const bodyProblem = ({ url, headers }: Request): Problem.Problem | undefined => {
  if (headers.has("transfer-encoding")) {
    return { status: 411, title: "The body must have a Content-Length", headers: Problem.closing }
  }
  const limit = mostOf[new URL(url).pathname] ?? most
  if (Number(headers.get("content-length") ?? 0) <= limit) return undefined
  return {
    status: 413,
    title: "The body is too large",
    detail: `this endpoint takes ${limit / 1024 / 1024} MiB at most; send less at a time`,
    headers: Problem.closing,
  }
}

const metrics = HttpRouter.use(
  Effect.fnUntraced(function* (router) {
    const context = yield* Effect.context<Effect.Services<typeof Metrics.render>>()
    yield* router.add(
      "GET",
      "/metrics",
      Metrics.render.pipe(
        Effect.map((text) => HttpServerResponse.text(text, { contentType })),
        Effect.catchTag("JournalError", ({ message }) =>
          Effect.succeed(HttpServerResponse.text(`${message}\n`, { status: 503 })),
        ),
        Effect.provideContext(context),
      ),
    )
  }),
)

/** Returns the program that sent the request. */
const clientOf = ({ headers }: Request): string => {
  if (headers.has("sec-fetch-site")) return "the page"
  return headers.get("user-agent") === userAgent ? "the command line" : "the admin API"
}

/** The router handles requests without a context, so without this their log lines would bypass the relay's log. */
const logging = Effect.gen(function* () {
  return Context.make(Logger.CurrentLoggers, yield* Logger.CurrentLoggers).pipe(
    Context.add(References.MinimumLogLevel, yield* References.MinimumLogLevel),
    Context.add(Console.Console, yield* Console.Console),
    Context.add(Stderr, yield* Stderr),
  )
})

/** The services that requests need. Others, such as the scope, are the router's own. */
const services = Effect.map(
  Effect.context<ActiveConfig | Archive | Ingest | Journal | Lanes | RelayInfo | Reload | Restart | SenderSilence>(),
  Context.pick(ActiveConfig, Archive, Ingest, Journal, Lanes, RelayInfo, Reload, Restart, SenderSilence),
)

export const handler = Effect.gen(function* () {
  const { admin } = (yield* ActiveConfig).current.config
  const admit = guard(admin)
  const app = Layer.mergeAll(Handlers.layer, metrics).pipe(
    Layer.provide(HttpServer.layerServices),
    Layer.provide(Layer.succeedContext(yield* services)),
  )
  const router = yield* Effect.acquireRelease(
    Effect.sync(() => HttpRouter.toWebHandler(app, { disableLogger: true })),
    ({ dispose }) => Effect.promise(dispose),
  )
  const log = yield* logging
  const handle: Handler = (request) => {
    const { name, role, problem = bodyProblem(request) } = admit(request)
    if (problem !== undefined) return Problem.toResponse(problem)
    const caller = { name, role, by: clientOf(request) }
    const known = Context.add(Context.add(log, Caller, caller), Operator, operatorOf(caller))
    return router.handler(request, known)
  }
  return yield* Probes.before(handle)
})
