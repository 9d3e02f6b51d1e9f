/**
 * Access tokens by OAuth 2.0 client credentials (RFC 6749, section 4.4): fetched
 * when the first attempt needs one, held in memory, and renewed before they expire.
 *
 * **Guarantee.** One request serves all attempts that wait for a token, and an
 * interrupted attempt doesn't cancel it for the others. While the endpoint is
 * unavailable, the last token is used until it expires. A missing token doesn't use
 * up an event's attempt: the endpoint is unavailable, or the client is
 * misconfigured.
 */
import { Clock, Effect, Fiber, FiberHandle, Option, Redacted, Schema, type Scope } from "effect"
import type { TokenEndpointResponse } from "oauth4webapi"
import { oneOf, secret, text } from "../../config/schema/Keys.ts"
import * as Monotonic from "../../event/Monotonic.ts"
import { quoting } from "../../event/Quoted.ts"
import * as HttpTransport from "../../runtime/HttpTransport.ts"
import { drain, maxResponse } from "../../runtime/HttpTransport.ts"
import * as Certificates from "../Certificates.ts"
import { type Keep, ownWords, spokenIn } from "../ServiceWords.ts"
import { misconfigured, SinkError, throttled, unavailable } from "../Sink.ts"
import * as HttpAnswer from "./HttpAnswer.ts"
import { fixedUrl } from "./HttpUrl.ts"

export const OAuthConfig = Schema.Struct({
  tokenUrl: fixedUrl({ description: "The token endpoint", examples: ["https://idp.example.com/oauth2/token"] }),
  clientId: text("The client's id"),
  clientSecret: secret("The client's secret"),
  clientAuth: oneOf(
    "How the client says who it is: in a header, by HTTP's basic authentication, or in the body",
    ["client_secret_basic", "client_secret_post"],
    "client_secret_basic",
  ),
  scope: Schema.optionalKey(text("Scopes of the token, separated by blanks")),
  audience: Schema.optionalKey(text("Token audience, if the endpoint requires one")),
  tls: Schema.optionalKey(
    Certificates.CertificatesConfig.annotate({ description: "Certificates of one's own, for the token endpoint" }),
  ),
}).annotate({ description: "Sends an access token by OAuth 2.0 client credentials, as `authorization: Bearer`" })
export type OAuthConfig = typeof OAuthConfig.Type

export type Token = Redacted.Redacted<string>

export interface AccessTokens {
  /** The current token. */
  readonly current: Effect.Effect<Token, SinkError>
  /** Returns a new token in place of this one, which the receiver refused. */
  readonly after: (refused: Token) => Effect.Effect<Token, SinkError>
}

/** Below `delivery.timeout`, so that an endpoint that hangs counts as down, not as a failure of the event. */
const timeout = "5 seconds"

/**
 * Returns how long a token is held, in milliseconds: its lifetime less a tenth, or
 * less a minute if that is smaller.
 */
const heldForRequests = (seconds: number | undefined): number =>
  // If the endpoint doesn't state the lifetime, the receiver's refusal shows its end.
  seconds === undefined ? 300_000 : seconds * 1_000 - Math.min(60_000, seconds * 100)

interface Held {
  readonly token: Token
  /** When the token is renewed, in monotonic milliseconds. */
  readonly until: number
  /** Monotonic milliseconds at which it expires. It is `until` if the endpoint does not state its lifetime. */
  readonly end: number
}

/** Milliseconds from a renewal that failed to the next. */
const renewedAgainAfter = 5_000

/** Advises by the endpoint's error code (RFC 6749, section 5.2; RFC 8707, section 2). */
const whatToDo = new Map(
  Object.entries({
    invalid_client: 'check "oauth.clientId" and "oauth.clientSecret", and whether it wants another "oauth.clientAuth"',
    unauthorized_client: "the client may not use client credentials; allow it there",
    unsupported_grant_type: "the endpoint knows no client credentials; allow them there",
    invalid_scope: 'check "oauth.scope", and what the client may ask for',
    invalid_target: 'check "oauth.audience"',
  }),
)

/** The characters of a token (RFC 6749, appendix A.12): no runtime sends any other in a header. */
const inHeader = /^[\x20-\x7e]+$/

/** Reports a failure that passes by itself. */
const isPassing = ({ reason }: SinkError): boolean =>
  reason._tag === "SinkUnavailable" || reason._tag === "SinkThrottled"

const passing = new Set(["temporarily_unavailable", "server_error", "slow_down"])

/** An endpoint's error code. Any other text could repeat the request. */
const codeOf = (error: string): string => (/^[a-z_]{1,40}$/.test(error) ? error : "an error of its own")

/** Reports whether a connection ended before its answer did. That is not a wrong answer. */
const brokeOff = ({ headers }: Response, body: Buffer): boolean =>
  body.length < Math.min(Number(headers.get("content-length")), maxResponse)

const parametersOf = ({ scope, audience }: OAuthConfig): Record<string, string> => ({
  ...(scope !== undefined && { scope }),
  ...(audience !== undefined && { audience }),
})

/** Returns the failure for an answer's status, unless it is about the client. `words` has the endpoint's words. */
const failureOf = (response: Response, text: () => string, words: string, now: number): SinkError | undefined => {
  const { status, headers } = response
  const inFront = status < 400 ? undefined : HttpAnswer.meaningInFront({ status, headers, text }, false)
  const message = inFront?.because === undefined ? words : `${words}: ${inFront.because}`
  const mayWait = status === 503 && headers.get("retry-after") !== null
  if (status === 429 || mayWait || inFront?.verdict === "throttle") {
    return throttled(message, HttpAnswer.waitOf(headers, now))
  }
  if (inFront?.verdict === "misconfigured") return misconfigured(message)
  return status === 408 || status >= 500 ? unavailable(message) : undefined
}

interface Options {
  /** Hides the sink's secrets in the endpoint's words. If absent, no words are shown. */
  readonly keep?: Keep | undefined
  /** Milliseconds that a token is held. If the endpoint doesn't state its lifetime, `seconds` is absent. */
  readonly heldFor?: (seconds: number | undefined) => number
}

/** Asks the token endpoint for a token. */
const requester = Effect.fnUntraced(function* (config: OAuthConfig, keep: Keep | undefined) {
  const clock = yield* Clock.Clock
  const fetch = yield* HttpTransport.make(config.tls && (yield* Certificates.read(config.tls, "oauth.tls")))
  const oauth = yield* Effect.promise(() => import("oauth4webapi"))
  const { origin, href } = new URL(Redacted.value(config.tokenUrl))
  const name = `the token endpoint ${origin}`
  const asked = { name, origin, tls: "oauth.tls" }
  const server = { issuer: origin, token_endpoint: href }
  const client = { client_id: config.clientId }
  const authentication = (
    config.clientAuth === "client_secret_post" ? oauth.ClientSecretPost : oauth.ClientSecretBasic
  )(Redacted.value(config.clientSecret))

  /** A response of limited size, without a challenge: the library would report that in place of the error code. */
  const limited = async (
    url: string,
    init: RequestInit,
  ): Promise<{ readonly response: Response; readonly words: string }> => {
    const abort = new AbortController()
    init.signal?.addEventListener("abort", () => abort.abort(), { once: true })
    const headers = { ...Object.fromEntries(new Headers(init.headers)), "user-agent": HttpTransport.userAgent }
    const response = await fetch(url, { ...init, headers, signal: abort.signal })
    const body = Buffer.concat(await drain(response, abort))
    const { status } = response
    const refusal = HttpAnswer.ofProxy(response, asked)
    if (refusal !== undefined) throw new SinkError({ reason: refusal })
    const text = () => body.toString("utf8")
    // A 2xx may hold the token.
    const words = keep === undefined || status < 400 ? "" : quoting(ownWords(keep, spokenIn(text()), []))
    const failure = failureOf(response, text, `${name} answered ${status}${words}`, clock.currentTimeMillisUnsafe())
    if (failure !== undefined) throw failure
    if (brokeOff(response, body)) throw unavailable(`${name} can't be reached: its answer broke off`)
    const type = response.headers.get("content-type") ?? ""
    const shown = { status, headers: { "content-type": type } }
    return { response: new Response(body.length === 0 ? null : body, shown), words }
  }

  const noEndpoint = (status?: number, words = ""): SinkError =>
    misconfigured(
      `${name} answered ${status === undefined ? "" : `${status}, `}without a bearer token${words}; check "oauth.tokenUrl"`,
    )

  const request = async (signal: AbortSignal): Promise<TokenEndpointResponse> => {
    let words = ""
    const response = await oauth.clientCredentialsGrantRequest(server, client, authentication, parametersOf(config), {
      [oauth.customFetch]: async (url, init) => {
        const answer = await limited(url, init)
        words = answer.words
        return answer.response
      },
      // The config decides whether plain HTTP is allowed, as for the sink itself.
      [oauth.allowInsecureRequests]: true,
      signal,
    })
    const { status } = response
    try {
      return await oauth.processClientCredentialsResponse(server, client, response)
    } catch (error) {
      if (!(error instanceof oauth.ResponseBodyError)) throw noEndpoint(status, words)
      const code = codeOf(error.error)
      const message = `${name} gives no token: ${code}${words === quoting(code) ? "" : words}`
      throw passing.has(code)
        ? unavailable(message)
        : misconfigured(`${message}; ${whatToDo.get(code) ?? 'check "oauth", and the client there'}`)
    }
  }

  const unfit = `${name} gives a token that no header can carry: it holds other characters than visible ASCII; correct the tokens that it issues, or "oauth.tokenUrl"`

  return Effect.tryPromise({
    try: request,
    catch: (error) =>
      error instanceof SinkError ? error : new SinkError({ reason: HttpAnswer.reasonOfFailure(error, asked) }),
  }).pipe(
    Effect.timeoutOrElse({
      duration: timeout,
      orElse: () => Effect.fail(unavailable(`${name} can't be reached: no answer within ${timeout}`)),
    }),
    Effect.filterOrFail(
      ({ token_type }) => token_type === "bearer",
      () => noEndpoint(),
    ),
    Effect.filterOrFail(
      ({ access_token }) => inHeader.test(access_token),
      () => misconfigured(unfit),
    ),
  )
})

/** The tokens of a sink, for a scope. */
export const make = Effect.fnUntraced(function* (
  config: OAuthConfig,
  { keep, heldFor = heldForRequests }: Options = {},
): Effect.fn.Return<AccessTokens, SinkError, Scope.Scope> {
  const clock = yield* Clock.Clock
  const requested = yield* requester(config, keep)
  let held: Held | undefined

  const fetched = requested.pipe(
    Effect.map(({ access_token, expires_in }) => {
      const now = Monotonic.millis(clock)
      const until = now + heldFor(expires_in)
      const end = expires_in === undefined ? until : now + expires_in * 1_000
      held = { token: Redacted.make(access_token), until, end }
      return held.token
    }),
  )

  // In a fiber of the sink's own: the attempt that asked first may be interrupted.
  const handle = yield* FiberHandle.make<Token, SinkError>()
  const run = yield* FiberHandle.runtime(handle)<never>()
  const renewed = Effect.suspend(() => Fiber.join(Option.getOrElse(FiberHandle.getUnsafe(handle), () => run(fetched))))

  /** Returns the last token if the endpoint is only unavailable, and the token is still valid. */
  const lastValid = (failure: SinkError): Effect.Effect<Token, SinkError> => {
    const now = Monotonic.millis(clock)
    if (held === undefined || now >= held.end || !isPassing(failure)) return Effect.fail(failure)
    held = { ...held, until: Math.min(now + renewedAgainAfter, held.end) }
    return Effect.succeed(held.token)
  }

  const current = Effect.suspend(() =>
    held !== undefined && Monotonic.millis(clock) < held.until
      ? Effect.succeed(held.token)
      : Effect.catch(renewed, lastValid),
  )
  return {
    current,
    after: (refused) =>
      Effect.suspend(() => {
        // Another attempt may have renewed it meanwhile.
        if (held !== undefined && Redacted.value(held.token) === Redacted.value(refused)) held = undefined
        return current
      }),
  }
})
