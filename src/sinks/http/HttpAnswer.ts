/**
 * What an answer, or none, says about an event and about the sink. Pure; what
 * is in an answer's body counts only where a service documents it, and is never
 * repeated: many receivers answer with what they were sent.
 *
 * | status | verdict |
 * |---|---|
 * | 2xx | delivered |
 * | 429, 503 with Retry-After | throttle |
 * | 401, 402, 403, 404, 405, 406, 407, 410, 421, 426, 451, 3xx | misconfigured |
 * | below 200, 408, 409, 423, 424, 425, 5xx | retry |
 * | other 4xx | reject |
 *
 * Where the event decides the path, 404, 405 and 410 are about the event: retry.
 */
import type { Trouble } from "../../runtime/HttpTransport.ts"
import {
  DeliveryFailed,
  DeliveryRejected,
  type Reason,
  SinkMisconfigured,
  SinkThrottled,
  SinkUnavailable,
} from "../Sink.ts"

export const verdicts = ["delivered", "retry", "reject", "throttle", "misconfigured"] as const
export type Verdict = (typeof verdicts)[number]

/** A status, `409`, or a class of them, `4xx`. */
export const isStatus = (key: string): boolean => /^[2-5](\d\d|xx)$/.test(key)

/** What a service documents of an answer. */
export interface Documented {
  readonly verdict: Verdict
  /** What happened and what to do, in our words. */
  readonly because?: string
  /** Milliseconds to wait, where it is not in `Retry-After`. */
  readonly retryAfter?: number | undefined
}

/** How a service documents its answers; `undefined` where it is the usual. `text` is the body, or what came of it. */
export type Meaning = (status: number, text: () => string) => Documented | undefined

/** What of a sink decides about its answers. */
export interface Receiver {
  /** What messages call it: the method and the URL's origin. */
  readonly name: string
  /** Verdicts of its own, by status or class. */
  readonly overrides: Readonly<Record<string, Verdict>>
  /** Whether events choose the path. */
  readonly isTemplated: boolean
  readonly meaning?: Meaning
}

const misconfigured = new Set([401, 402, 403, 404, 405, 406, 407, 410, 421, 426, 451])
const passing = new Set([408, 409, 423, 424, 425])
const ofThePath = new Set([404, 405, 410])

const usual = (status: number, mayWait: boolean, isTemplated: boolean): Verdict => {
  // Below 200 no answer has come: an odd status line, or a switch to another protocol.
  if (status < 200) return "retry"
  if (status < 300) return "delivered"
  if (status < 400) return "misconfigured"
  if (status === 429 || (status === 503 && mayWait)) return "throttle"
  if (status >= 500 || passing.has(status)) return "retry"
  if (isTemplated && ofThePath.has(status)) return "retry"
  return misconfigured.has(status) ? "misconfigured" : "reject"
}

/** Milliseconds. */
const wait = { usual: 5_000, least: 1_000, most: 3_600_000 } as const

/** `Retry-After` in milliseconds, seconds or an HTTP date; not a number where it is neither. */
const retryAfter = (header: string | null, now: number): number => {
  const text = header?.trim() ?? ""
  const isDate = /^[A-Z][a-z]{2,8}, .+ GMT$/.test(text)
  return /^\d+$/.test(text) ? Number(text) * 1_000 : isDate ? Date.parse(text) - now : Number.NaN
}

/** Between a second and an hour; five seconds where nothing was said that can be read. */
const bounded = (asked: number): number =>
  Number.isNaN(asked) ? wait.usual : Math.min(Math.max(asked, wait.least), wait.most)

const whatToDo = (status: number): string => {
  if (status < 400) return 'redirects are not followed; put the address that it leads to into "url"'
  switch (status) {
    case 401:
    case 403:
      return 'check the credentials in "headers", and what they allow'
    case 404:
      return 'nothing is there; check the path of "url"'
    case 405:
      return 'check "method"'
    case 407:
      return "a proxy on the way wants credentials"
    case 410:
      return 'the receiver says that this address is gone for good; check "url"'
    default:
      return 'mend it, or say in "classify" what this status means'
  }
}

/** The reason that the lane decides by; `undefined` when the event was delivered. `now` is in epoch milliseconds. */
export const reasonOf = (
  { status, headers }: { readonly status: number; readonly headers: Pick<Headers, "get"> },
  text: () => string,
  { name, overrides, isTemplated, meaning }: Receiver,
  now: number,
): Reason | undefined => {
  const documented = meaning?.(status, text)
  const verdict =
    overrides[status] ??
    overrides[`${Math.floor(status / 100)}xx`] ??
    documented?.verdict ??
    usual(status, status === 503 && headers.get("retry-after") !== null, isTemplated)
  const because = documented?.verdict === verdict ? documented.because : undefined
  const message = `${name} answered ${status}${because === undefined ? "" : `: ${because}`}`
  switch (verdict) {
    case "delivered":
      return undefined
    case "retry":
      return new DeliveryFailed({ message })
    case "reject":
      return new DeliveryRejected({ message })
    case "throttle": {
      const asked = documented?.retryAfter ?? retryAfter(headers.get("retry-after"), now)
      return new SinkThrottled({ message, retryAfter: bounded(asked) })
    }
    case "misconfigured":
      return new SinkMisconfigured({ message: because === undefined ? `${message}: ${whatToDo(status)}` : message })
  }
}

const needsAction: Readonly<Partial<Record<Trouble, string>>> = {
  "untrusted certificate":
    'no authority that is trusted signed its certificate; name its authority in "tls": { "ca": … }',
  "expired certificate":
    "its certificate has expired, or is not valid yet; it must be renewed there, or a clock is wrong",
  "certificate of another host": "its certificate is for another host name; check the host of the URL",
  "unfit certificate": "its certificate was revoked, or was not made for a server; it must be replaced there",
  "failed handshake": 'no TLS with it; check the port and "https", or it wants another client certificate in "tls"',
  "no HTTP": "what answers there does not speak HTTP; check scheme and port of the URL",
}

const transient: Readonly<Partial<Record<Trouble, string>>> = {
  refused: "nothing listens there (connection refused)",
  reset: "the connection was closed before an answer came",
  "unknown host": "its host name has no address",
  unreachable: "there is no way to it (unreachable, or timed out)",
}

/** The reason when there was no answer. What the runtime says is not repeated: it may hold the URL. */
export const reasonOfFailure = (failure: Trouble, { name }: Receiver): Reason => {
  const fault = needsAction[failure]
  return fault === undefined
    ? new SinkUnavailable({ message: `${name} can't be reached: ${transient[failure] ?? "the request failed"}` })
    : new SinkMisconfigured({ message: `${name}: ${fault}` })
}
