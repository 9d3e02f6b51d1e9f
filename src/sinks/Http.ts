/**
 * The HTTP sink: a request an event.
 *
 * **Promise.** A 2xx is the only success. Redirects are not followed, at most
 * 64 KiB of an answer are read, and nothing of the URL but its origin is shown:
 * for many services the URL is the secret.
 */
import { createHmac } from "node:crypto"
import { readFileSync } from "node:fs"
import { Effect, Redacted, Schema, type Scope } from "effect"
import * as Template from "../formats/Template.ts"
import { type Entry, idempotencyKey } from "../journal/Journal.ts"
import * as HttpTransport from "../runtime/HttpTransport.ts"
import {
  allSent,
  DeliveryFailed,
  DeliveryRejected,
  type Reason,
  type Sink,
  SinkError,
  SinkMisconfigured,
  SinkThrottled,
  type SinkType,
  SinkUnavailable,
} from "./Sink.ts"

// --- config ------------------------------------------------------------------

const verdicts = ["delivered", "retry", "reject", "throttle", "misconfigured"] as const
type Verdict = (typeof verdicts)[number]

const isHttpUrl = Schema.makeFilter(
  (url: string) =>
    (/^https?:\/\/[^/\s]/.test(url) && URL.canParse(url.replaceAll(/\{\{[^{}]*\}\}/g, "x"))) ||
    "this is no http:// or https:// URL",
  { expected: "an http:// or https:// URL", toJsonSchema: () => ({ pattern: "^https?://" }) },
)

export const HttpConfig = Schema.Struct({
  url: Schema.RedactedFromValue(
    Schema.String.annotate({
      description: "Where events are sent; may hold placeholders, e.g. `https://example.com/{{resource}}`",
    }).check(isHttpUrl),
  ),
  method: Schema.Literals(["POST", "PUT", "PATCH"])
    .annotate({ description: "The request's method", default: "POST" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("POST"))),
  headers: Schema.Record(Schema.String, Schema.RedactedFromValue(Schema.String))
    .annotate({ description: "Headers beside those of the relay; values may hold placeholders and are never shown" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  format: Schema.Literals(["raw", "template"])
    .annotate({ description: "`raw`: the signed bytes. `template`: `body`, filled in", default: "raw" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("raw"))),
  body: Schema.optionalKey(
    Schema.Unknown.annotate({ description: "For `format: template`: any JSON whose strings may hold placeholders" }),
  ),
  sign: Schema.optionalKey(
    Schema.Struct({
      secret: Schema.RedactedFromValue(Schema.NonEmptyString).annotate({ description: "The key of the HMAC-SHA256" }),
      header: Schema.String.annotate({
        description: "The header: `sha256=` and 64 uppercase hexadecimal digits",
        default: "x-relay-signature",
      }).pipe(Schema.withDecodingDefaultKey(Effect.succeed("x-relay-signature"))),
    }).annotate({ description: "Signs the body that is sent, in the sender's own form" }),
  ),
  classify: Schema.Record(Schema.String, Schema.Literals(verdicts))
    .annotate({ description: 'What an answer means, by status, where it is not the usual: `{ "409": "delivered" }`' })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  tls: Schema.optionalKey(
    Schema.Struct({
      ca: Schema.optionalKey(Schema.String.annotate({ description: "PEM file of the authority to trust" })),
      certificate: Schema.optionalKey(Schema.String.annotate({ description: "PEM file of the client certificate" })),
      key: Schema.optionalKey(Schema.String.annotate({ description: "PEM file of its key" })),
    }).annotate({ description: "Certificates of one's own" }),
  ),
})
export type HttpConfig = typeof HttpConfig.Type

/** Bytes of an answer that are read: enough for the connection to be used again, never an endless one. */
const maxAnswer = 64 * 1024
const maxRetryAfter = 3_600_000
const defaultRetryAfter = 30_000

// --- encode ------------------------------------------------------------------

interface Encoded {
  readonly url: string
  readonly init: RequestInit
}

const encoder = (config: HttpConfig): ((entry: Entry) => Encoded) => {
  const url = Template.compile(Redacted.value(config.url), "url")
  const headers = Object.entries(config.headers).map(
    ([name, value]) => [name, Template.compile(Redacted.value(value), "header")] as const,
  )
  const body = config.format === "template" ? Template.compileBody(config.body ?? {}) : undefined
  const { sign } = config
  const key = sign === undefined ? undefined : Redacted.value(sign.secret)
  return (entry) => {
    const { event } = entry
    const bytes = body === undefined ? event.body : new TextEncoder().encode(body.render(entry))
    const all: Record<string, string> = {
      "content-type": "application/json",
      "user-agent": "relay",
      "idempotency-key": idempotencyKey(entry),
      "x-relay-event-id": event.id,
      "x-relay-event-type": event.type,
    }
    if (body === undefined && event.signature !== "") {
      all["x-service-signature"] = event.signature
      if (event.webhookId !== "") all["x-service-webhook-id"] = event.webhookId
    }
    for (const [name, value] of headers) all[name.toLowerCase()] = value.render(entry)
    if (sign !== undefined && key !== undefined) {
      all[sign.header] = `sha256=${createHmac("sha256", key).update(bytes).digest("hex").toUpperCase()}`
    }
    return {
      url: url.render(entry),
      init: { method: config.method, headers: all, body: bytes as Uint8Array<ArrayBuffer>, redirect: "manual" },
    }
  }
}

// --- send --------------------------------------------------------------------

/** Reads an answer to its end, or to the limit; what is in it does not matter. */
const drain = async (response: Response): Promise<void> => {
  if (response.body === null) return
  const reader = response.body.getReader()
  for (let bytes = 0; bytes < maxAnswer; ) {
    const { done, value } = await reader.read()
    if (done) return
    bytes += value.byteLength
  }
  await reader.cancel()
}

const make = Effect.fnUntraced(function* (config: HttpConfig): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const fetch = yield* HttpTransport.make(yield* certificates(config))
  const encode = encoder(config)
  const where = `${config.method} ${originOf(config)}`

  const request = async (entry: Entry, signal: AbortSignal): Promise<Reason | undefined> => {
    const { url, init } = encode(entry)
    const response = await fetch(url, { ...init, signal })
    const reason = classify(where, response, config.classify)
    await drain(response)
    return reason
  }

  return {
    batch: { maxEvents: 1, maxBytes: Number.POSITIVE_INFINITY },
    send: ([entry]) =>
      Effect.callback((resume, signal) => {
        if (entry === undefined) return resume(Effect.succeed(allSent))
        request(entry, signal).then(
          (reason) => resume(reason === undefined ? sent : Effect.fail(new SinkError({ reason }))),
          (error) => resume(Effect.fail(new SinkError({ reason: classifyError(where, error) }))),
        )
      }),
    check: Effect.callback((resume, signal) => {
      // Any answer will do: a service that is there may well refuse a bare HEAD.
      fetch(new URL(Redacted.value(config.url).replaceAll(/\{\{[^{}]*\}\}/g, "x")).href, {
        method: "HEAD",
        redirect: "manual",
        signal,
      }).then(
        (response) => resume(Effect.promise(() => drain(response))),
        (error) => resume(Effect.fail(new SinkError({ reason: classifyError(where, error) }))),
      )
    }),
  }
})

const sent = Effect.succeed(allSent)

const originOf = (config: HttpConfig): string => {
  const text = Redacted.value(config.url)
  return URL.canParse(text) ? new URL(text).origin : (/^https?:\/\/[^/]+/.exec(text)?.[0] ?? "the URL")
}

const certificates = (config: HttpConfig): Effect.Effect<HttpTransport.Certificates | undefined, SinkError> => {
  const { tls } = config
  if (tls === undefined) return Effect.succeed(undefined)
  const read = (path: string | undefined): Effect.Effect<string | undefined, SinkError> =>
    path === undefined
      ? Effect.succeed(undefined)
      : Effect.try({
          try: () => readFileSync(path, "utf8"),
          catch: () =>
            new SinkError({ reason: new SinkMisconfigured({ message: `the TLS file ${path} can't be read` }) }),
        })
  return Effect.map(Effect.all([read(tls.ca), read(tls.certificate), read(tls.key)]), ([ca, certificate, key]) => ({
    ...(ca !== undefined && { ca }),
    ...(certificate !== undefined && { certificate }),
    ...(key !== undefined && { key }),
  }))
}

// --- classify ----------------------------------------------------------------

const usual = (status: number, hasRetryAfter: boolean): Verdict => {
  if (status >= 200 && status < 300) return "delivered"
  if (status === 429 || (status === 503 && hasRetryAfter)) return "throttle"
  if (status === 400 || status === 413 || status === 415 || status === 422) return "reject"
  if ((status >= 300 && status < 400) || [401, 403, 404, 405, 410].includes(status)) return "misconfigured"
  return "retry"
}

/** `Retry-After` in milliseconds, from seconds or a date, an hour at most. */
const retryAfter = (header: string | null): number => {
  if (header === null) return defaultRetryAfter
  const wait = /^\d+$/.test(header.trim()) ? Number(header) * 1_000 : Date.parse(header) - Date.now()
  return Number.isNaN(wait) ? defaultRetryAfter : Math.min(Math.max(wait, 0), maxRetryAfter)
}

const todo: Readonly<Record<number, string>> = {
  401: "check the credentials in its headers",
  403: "check the credentials in its headers and what they may do",
  404: "check the path of its url",
  405: "check its method",
  410: "the receiver says that this address is gone for good",
}

const classify = (
  where: string,
  { status, headers }: Response,
  overrides: Readonly<Record<string, Verdict>>,
): Reason | undefined => {
  const wait = headers.get("retry-after")
  const message = `${where} answered ${status}`
  switch (overrides[status] ?? usual(status, wait !== null)) {
    case "delivered":
      return undefined
    case "throttle":
      return new SinkThrottled({ message, retryAfter: retryAfter(wait) })
    case "reject":
      return new DeliveryRejected({ message })
    case "retry":
      return new DeliveryFailed({ message })
    case "misconfigured": {
      const what = status < 400 ? "redirects are not followed: name the address it leads to" : todo[status]
      return new SinkMisconfigured({ message: what === undefined ? message : `${message}: ${what}` })
    }
  }
}

const tlsTrouble = /cert|self.signed|issuer|UNABLE_TO_(VERIFY|GET)|TLS|SSL/i

/** A request without an answer. The error's text is the runtime's own and may hold the URL: only its code is shown. */
const classifyError = (where: string, error: unknown): Reason => {
  const code = codeOf(error)
  if (tlsTrouble.test(code)) {
    return new SinkMisconfigured({
      message: `${where}: its certificate is not trusted (${code}): name its authority with "tls": { "ca": … }, or renew it`,
    })
  }
  return new SinkUnavailable({ message: `${where} can't be reached (${code})` })
}

const known =
  /ECONN\w+|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EPIPE|EHOSTUNREACH|ENETUNREACH|Connection\w+|FailedToOpenSocket|UnknownIssuer|CertExpired|invalid peer certificate|Connection refused|Connection reset/i

const codeOf = (error: unknown): string => {
  for (let one = error, depth = 0; one instanceof Error && depth < 4; one = one.cause, depth++) {
    if ("code" in one && typeof one.code === "string" && one.code !== "") return one.code
    const said = known.exec(one.message)
    if (said !== null) return said[0]
  }
  return error instanceof Error ? error.name : "unknown error"
}

export const Http: SinkType<HttpConfig> = {
  type: "http",
  config: HttpConfig,
  concurrency: 16,
  open: (_, config) => make(config),
}
