/**
 * Decides how an answer, or its absence, affects the event and the sink. A message
 * shows the receiver's own words if the config keeps answers. Parts of the request
 * are removed, because many receivers echo them.
 *
 * `http.md` has the usual verdicts as a table, which a test holds against this file.
 */
import { Redacted } from "effect"
import { quoting } from "../../event/Quoted.ts"
import {
  type Failure,
  failureOf,
  type HttpProxy,
  isItsOwn,
  proxyFor,
  refusedTunnel,
  passing as transient,
} from "../../runtime/HttpTransport.ts"
import { type Keep, ownWords, sentIn, spokenIn } from "../ServiceWords.ts"
import {
  DeliveryFailed,
  DeliveryRejected,
  type Reason,
  SinkMisconfigured,
  SinkThrottled,
  SinkUnavailable,
} from "../Sink.ts"

/** The verdicts on an answer, and an answer that a service documents. */

export const verdicts = ["delivered", "retry", "reject", "throttle", "misconfigured"] as const
export type Verdict = (typeof verdicts)[number]

/** The documented meaning of an answer. */
export interface Documented {
  readonly verdict: Verdict
  /** The event and the advice, in words. */
  readonly because?: string
  /** The wait in milliseconds, if it isn't in `Retry-After`. */
  readonly retryAfter?: number | undefined
  /** A rejection for the event's own size or content. */
  readonly ofEvent?: boolean
}

// Recognizes answers that are not the receiver's own: a CDN in front of it that
// blocks this machine or can't reach the receiver, a server that refuses the
// connection as it is, and a web page such as a sign-in page, which comes with
// status 200.
//
// Sources: Cloudflare, "Troubleshooting: Cloudflare 1xxx errors" and "5xx
// errors"; the error pages of CloudFront, Akamai, nginx (`ngx_http_special_response.c`),
// Apache and Go's `net/http`; Amazon API Gateway, "Gateway response types".

interface AnswerInFront {
  readonly status: number
  readonly headers: Pick<Headers, "get">
  readonly text: () => string
}

const cdns: ReadonlyArray<readonly [server: RegExp, name: string]> = [
  [/^cloudflare/i, "Cloudflare"],
  [/^cloudfront/i, "CloudFront"],
  [/^akamai/i, "Akamai"],
]

const isPage = (text: string): boolean => /^\s*(<!doctype html|<html)/i.test(text)

const ofCdn = (name: string, status: number, text: string): Documented | undefined => {
  const [, code] = /\berror code: (1\d{3})\b/i.exec(text) ?? []
  const suffix = code === undefined ? "" : ` (error ${code})`
  if (code === "1015") {
    return { verdict: "throttle", because: `${name}, in front of the service, limits this machine's requests${suffix}` }
  }
  if (code !== undefined || (status === 403 && isPage(text))) {
    return {
      verdict: "misconfigured",
      because: `${name}, in front of the service, blocks this machine${suffix}; the service's operator can allow its address, or send from another address`,
    }
  }
  const isBehind = name === "Cloudflare" ? status >= 520 && status <= 530 : status === 502 || status === 504
  return isBehind
    ? { verdict: "retry", because: `${name}, in front of the service, can't reach the service` }
    : undefined
}

/** Words of nginx, Apache and Go for a connection that they refuse, with 400 and before they read the request. */
const ofConnection: ReadonlyArray<readonly [words: RegExp, because: string]> = [
  [
    /plain HTTP request was sent to HTTPS port|HTTP request to an HTTPS server|plain HTTP to an SSL-enabled server port/i,
    'it wants TLS at this port; write "https" in "url"',
  ],
  [/No required SSL certificate was sent/i, 'it wants a client certificate; set "certificate" and "key" in "tls"'],
  [/The SSL certificate error/i, 'it does not accept the client certificate; correct "certificate" and "key" in "tls"'],
]

/** Amazon's API Gateway answers so if it does not know the path and method, even if none of its paths needs a token. */
const isUnknownPath = (status: number, headers: AnswerInFront["headers"]): boolean =>
  status === 403 && /^MissingAuthenticationTokenException/.test(headers.get("x-amzn-errortype") ?? "")

/** A sign-in page, or any page if the receiver is a service that never answers with pages. */
const isSignIn = (text: string, isService: boolean): boolean =>
  isPage(text) && (isService || /<input[^>]+type\s*=\s*["']?password|<title>[^<]*\b(sign|log) ?in\b/i.test(text))

/**
 * Returns the meaning of an answer from a server in front of the receiver, or
 * `undefined` if it may be the receiver's own.
 */
export const meaningInFront = (
  { status, headers, text }: AnswerInFront,
  isService: boolean,
): Documented | undefined => {
  const refused = status === 400 ? ofConnection.find(([words]) => words.test(text())) : undefined
  if (refused !== undefined) return { verdict: "misconfigured", because: refused[1] }
  if (isUnknownPath(status, headers)) {
    return {
      verdict: "misconfigured",
      because: 'API Gateway probably has no such path or method; check "url" and "method"',
    }
  }
  const server = headers.get("server") ?? ""
  const name = status >= 400 ? cdns.find(([pattern]) => pattern.test(server))?.[1] : undefined
  if (name !== undefined) return ofCdn(name, status, text())
  const mayBePage = isService || /html/i.test(headers.get("content-type") ?? "")
  return status >= 200 && status < 300 && mayBePage && isSignIn(text(), isService)
    ? {
        verdict: "misconfigured",
        because:
          'with a web page, probably for a person to sign in, so the event was not taken; check "url", and what stands in front of the service',
      }
    : undefined
}

/** Whether a key is a status, `409`, or a class, `4xx`. */
export const isStatus = (key: string): boolean => /^[2-5](\d\d|xx)$/.test(key)

/**
 * A service's documented answers. Returns `undefined` if the usual meaning applies. `text` is the body as far as it
 * arrived; `origin` is the origin of the requested URL.
 */
export type Meaning = (status: number, text: () => string, origin: string) => Documented | undefined

/** The server that gets the request. */
interface Asked {
  /** Its name in messages: the method and the URL's origin. */
  readonly name: string
  readonly origin: string
  /** The config key of the certificates (default: `tls`). */
  readonly tls?: string
}

/** The parts of a sink that decide the meaning of its answers. */
export interface Receiver extends Asked {
  /** The config key of its credentials (default: `headers`). */
  readonly credentials?: string
  /** The config's verdicts, by status or class. */
  readonly overrides: Readonly<Record<string, Verdict>>
  /** Whether the path is a template. */
  readonly isTemplated: boolean
  readonly meaning?: Meaning
  /** Keeps the texts of answers to failed attempts. Absent if the config keeps none. */
  readonly keep?: Keep
}

const misconfigured = new Set([401, 402, 403, 404, 405, 406, 407, 410, 421, 426, 451])
const passing = new Set([408, 409, 423, 424, 425])
const ofThePath = new Set([404, 405, 410])

const usual = (status: number, mayWait: boolean, isTemplated: boolean): Verdict => {
  // Below 200 it isn't a final answer.
  if (status < 200) return "retry"
  if (status < 300) return "delivered"
  if (status < 400) return "misconfigured"
  if (status === 429 || (status === 503 && mayWait)) return "throttle"
  if (status >= 500 || passing.has(status)) return "retry"
  if (isTemplated && ofThePath.has(status)) return "retry"
  return misconfigured.has(status) ? "misconfigured" : "reject"
}

/** Milliseconds. */
const wait = { usual: 5_000, ofLimit: 60_000, least: 1_000, most: 3_600_000 } as const

type Headed = Pick<Headers, "get">

/**
 * Returns the milliseconds until the date of a header. It uses the receiver's clock
 * if the answer shows it, because this machine's clock may be wrong.
 */
const until = (date: number, headers: Headed, now: number): number => {
  const own = Date.parse(headers.get("date") ?? "")
  return date - (Number.isNaN(own) ? now : own)
}

/** Reports whether the answer says that a quota of requests is used up. */
const isUsedUp = (headers: Headed): boolean => headers.get("x-ratelimit-remaining")?.trim() === "0"

/** Reports whether a 403 is a rate limit, as GitHub's is: by its headers, or by its words alone. */
const isLimit = (status: number, headers: Headed, text: () => string): boolean =>
  status === 403 && (headers.get("retry-after") !== null || isUsedUp(headers) || /\brate limit/i.test(text()))

/**
 * Returns the milliseconds to wait, from `Retry-After` (seconds or an HTTP date) or
 * from the time at which a quota is renewed. Returns NaN without either.
 */
const waitAsked = (headers: Headed, now: number): number => {
  const text = headers.get("retry-after")?.trim() ?? ""
  if (/^\d+$/.test(text)) return Number(text) * 1_000
  if (/^[A-Z][a-z]{2,8}, .+ GMT$/.test(text)) return until(Date.parse(text), headers, now)
  const renewed = headers.get("x-ratelimit-reset")?.trim() ?? ""
  // Epoch seconds.
  return isUsedUp(headers) && /^\d{10}$/.test(renewed) ? until(Number(renewed) * 1_000, headers, now) : Number.NaN
}

/** Milliseconds to wait after a 429. */
export const waitOf = (headers: Headed, now: number): number => bounded(waitAsked(headers, now), wait.usual)

/** Between a second and an hour; `otherwise` if no wait is given. */
const bounded = (asked: number, otherwise: number): number =>
  Number.isNaN(asked) ? otherwise : Math.min(Math.max(asked, wait.least), wait.most)

/** Names the origin of a redirect's target, without the path, which may be a secret. */
const whereTo = (location: string, origin: string): string => {
  const target = URL.canParse(location, origin) ? new URL(location, origin).origin : "null"
  if (location === "" || target === "null") return ""
  return target === origin ? ", another path of the same server," : `, on ${target},`
}

const whatToDo = (
  status: number,
  { origin, credentials = "headers" }: Receiver,
  location: string,
  proxy: HttpProxy | undefined,
): string => {
  if (status < 400) {
    return `redirects are not followed; put the address that it leads to${whereTo(location, origin)} into "url"`
  }
  // Through a tunnel the proxy can't answer. Without a tunnel it can, and few proxies identify themselves.
  const orProxy = proxy === undefined ? "" : `, or whether the proxy ${proxy.name} lets the relay there`
  switch (status) {
    case 401:
    case 403:
      return `check the credentials in "${credentials}", and what they allow${orProxy}`
    case 404:
      return 'nothing is there; check the path of "url"'
    case 405:
      return 'check "method"'
    case 407:
      return "a proxy on the way wants credentials"
    case 410:
      return 'the receiver says that this address is gone for good; check "url"'
    default:
      return 'correct it, or say in "classify" what this status means'
  }
}

/** The reason for a proxy's refusal, by its status. */
const byProxy = (name: string, status: number, proxy: HttpProxy): Reason => {
  const suffix = status === 0 ? "" : ` (${status})`
  if (status === 407) {
    return new SinkMisconfigured({
      message: `${name}: the proxy ${proxy.name} wants credentials${suffix}: put them into ${proxy.variable}`,
    })
  }
  return status >= 500 || status === 408 || status === 429
    ? new SinkUnavailable({ message: `${name} can't be reached: the proxy ${proxy.name} can't get there${suffix}` })
    : new SinkMisconfigured({
        message: `${name}: the proxy ${proxy.name} does not let the relay there${suffix}: allow it, or name the host in NO_PROXY`,
      })
}

/** Returns the reason if a proxy answered in the receiver's place, or `undefined` if the receiver answered. */
export const ofProxy = (
  answer: { readonly status: number; readonly headers: Headed },
  { name, origin }: Asked,
): Reason | undefined => {
  const proxy = isItsOwn(answer) ? proxyFor(origin) : undefined
  return proxy && byProxy(name, answer.status, proxy)
}

/** In bytes. Receivers accept a header line of about 8 KiB. */
const longToken = 8_000

/** Whether a request was refused for the length of its headers. Some servers answer 400, and say it in words. */
const isHeadersTooLong = (status: number, text: () => string, tokenLength: number): boolean => {
  if (status === 431) return true
  if (status !== 400 && status !== 413) return false
  return tokenLength > longToken || /\bheaders?\b.{0,60}\b(too (large|long|big)|exceeds)/i.test(text())
}

/** The request that is answered. */
interface Sent {
  /** Epoch milliseconds of the answer. */
  readonly now: number
  readonly token?: Redacted.Redacted<string> | undefined
  /** The body. */
  readonly body?: Uint8Array | undefined
}

/** Returns the reason for the lane, or `undefined` if the event was delivered. */
export const reasonOf = (
  response: { readonly status: number; readonly headers: Headed },
  text: () => string,
  receiver: Receiver,
  { now, token, body }: Sent,
): Reason | undefined => {
  const { status, headers } = response
  const { name, overrides, isTemplated, meaning, keep } = receiver
  const refusal = ofProxy(response, receiver)
  if (refusal !== undefined) return refusal
  const documented =
    meaningInFront({ status, headers, text }, meaning !== undefined) ?? meaning?.(status, text, receiver.origin)
  const length = token === undefined ? 0 : Redacted.value(token).length
  // Every event goes with this token, so the answer isn't about this event.
  const tooLong = length > 0 && isHeadersTooLong(status, text, length)
  const chosen = overrides[status] ?? overrides[`${Math.floor(status / 100)}xx`]
  const verdict =
    chosen ??
    (isLimit(status, headers, text) ? "throttle" : undefined) ??
    documented?.verdict ??
    (tooLong ? "misconfigured" : undefined) ??
    usual(status, headers.get("retry-after") !== null, isTemplated)
  const because = documented?.verdict === verdict ? documented.because : undefined
  if (verdict === "delivered") return undefined
  // Compressed, although the request doesn't allow it. Some runtimes decompress it, and others don't.
  const isPlain = (headers.get("content-encoding") ?? "identity") === "identity"
  const answer = isPlain ? keep?.(text(), token) : undefined
  const words =
    keep === undefined || !isPlain ? "" : ownWords((quoted) => keep(quoted, token), spokenIn(text()), sentIn(body))
  const message = `${name} answered ${status}${quoting(words)}${because === undefined ? "" : `: ${because}`}`
  const todo = (): string =>
    tooLong
      ? `the access token of ${length} bytes is longer than it takes; ask for a shorter one, with fewer scopes or claims, or have it take longer headers`
      : whatToDo(
          status,
          receiver,
          headers.get("location") ?? "",
          receiver.origin.startsWith("http:") ? proxyFor(receiver.origin) : undefined,
        )
  const fields = { message, code: status, ...(answer !== undefined && { answer }) }
  switch (verdict) {
    case "retry":
      return new DeliveryFailed(fields)
    case "reject":
      return new DeliveryRejected({
        ...fields,
        ...((status === 413 || chosen !== undefined || documented?.ofEvent === true) && { ofEvent: true }),
      })
    case "throttle": {
      const asked = documented?.retryAfter ?? waitAsked(headers, now)
      const otherwise = status === 403 ? wait.ofLimit : wait.usual
      return new SinkThrottled({ ...fields, retryAfter: bounded(asked, otherwise) })
    }
    case "misconfigured":
      if (because !== undefined) return new SinkMisconfigured(fields)
      return new SinkMisconfigured({ ...fields, message: `${message}: ${todo()}` })
  }
}

/** `tls` is the key of the config that has the certificates. */
const needsAction = (tls: string): Readonly<Partial<Record<Failure, string>>> => ({
  "untrusted certificate": `no authority that is trusted signed its certificate; name its authority in "${tls}": { "ca": … }`,
  "expired certificate":
    "its certificate has expired, or is not valid yet; it must be renewed there, or a clock is wrong",
  "certificate of another host": "its certificate is for another host name; check the host of the URL",
  "unfit certificate": "its certificate was revoked, or was not made for a server; it must be replaced there",
  "failed handshake": `no TLS with it; check the port and "https"; or probably it wants another version of TLS, another client certificate in "${tls}", or speaks HTTP/2 only, which the relay does not`,
  "no HTTP/1.1":
    "it speaks HTTP/2 only, which the relay does not speak; let it take HTTP/1.1 as well, or put a proxy in front of it",
  "no HTTP":
    "what answers there does not speak HTTP/1.1; check scheme and port of the URL; if it speaks HTTP/2 only, let it take HTTP/1.1 as well; a response with over 256 headers, or with a header whose name is malformed, can't be read either",
})

/** Failures to connect. With a proxy on the way, the proxy is the only server that is connected to. */
const ofConnecting = new Set<Failure>(["refused", "unknown host", "unreachable"])

/** Returns the reason for a missing answer. It doesn't repeat the runtime's message, which may hold the URL. */
export const reasonOfFailure = (error: unknown, { name, origin, tls = "tls" }: Asked): Reason => {
  const failure = failureOf(error)
  const proxy = proxyFor(origin)
  const status = refusedTunnel(error)
  if (proxy !== undefined && status !== undefined) return byProxy(name, status, proxy)
  const fault = needsAction(tls)[failure]
  if (fault !== undefined) return new SinkMisconfigured({ message: `${name}: ${fault}` })
  const why = transient[failure]
  if (proxy === undefined) return new SinkUnavailable({ message: `${name} can't be reached: ${why}` })
  return new SinkUnavailable({
    message: ofConnecting.has(failure)
      ? `${name} can't be reached, because the proxy ${proxy.name} (${proxy.variable}) can't: ${why}`
      : `${name} can't be reached through the proxy ${proxy.name}: ${why}`,
  })
}
