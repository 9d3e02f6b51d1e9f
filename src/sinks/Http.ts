/**
 * The HTTP sink: a request an event, or a digest. The alert services are presets over it:
 * each brings its {@link Service}, and this is what sends.
 *
 * **Promise.** A 2xx is the only success. Redirects are not followed, at most
 * 64 KiB of an answer are read, and nothing of the URL but its origin is shown:
 * for many services the URL is the secret.
 *
 * **How an event is signed.** `raw` sends the sender's own signature along with
 * the bytes that it signs. `sign` adds one of ours in the same form (webhook
 * interface, section 5.1): `sha256=` and the HMAC-SHA256 of the body that is
 * sent, in 64 uppercase hexadecimal digits. One piece of code verifies both.
 */
import { Clock, Effect, Redacted, Schema, type Scope } from "effect"
import { hmacSha256, sign } from "../event/Signature.ts"
import { traceHeaders } from "../event/TraceContext.ts"
import * as CloudEvents from "../formats/CloudEvents.ts"
import * as Shown from "../formats/Shown.ts"
import * as Template from "../formats/Template.ts"
import { type Entry, idempotencyKey } from "../journal/Journal.ts"
import { drain } from "../runtime/HttpDrain.ts"
import * as HttpTransport from "../runtime/HttpTransport.ts"
import * as Certificates from "./Certificates.ts"
import * as HttpAnswer from "./HttpAnswer.ts"
import {
  allSent,
  type Failures,
  masked,
  type Preview,
  type Reason,
  type Sink,
  SinkError,
  type SinkType,
} from "./Sink.ts"

// --- config ------------------------------------------------------------------

/** What is wrong with a URL, in words; `undefined` when nothing. */
const urlProblem = (url: string): string | undefined => {
  const authority = /^https?:\/\/([^/?#\\\s]+)/i.exec(url)?.[1]
  if (authority === undefined) return "this is no http:// or https:// URL"
  if (Template.hasPlaceholder(authority)) {
    return "the host of a URL can't hold a placeholder: an event would decide who gets it"
  }
  if (authority.includes("@")) return 'a URL holds no user and password: put them into "headers", as authorization'
  return URL.canParse(Template.withoutPlaceholders(url)) ? undefined : "this is no http:// or https:// URL"
}

const header = (description: string, value: string) =>
  Schema.String.annotate({ description, default: value })
    .check(
      Schema.isPattern(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/u, {
        message: "this is no header name: letters, digits and dashes, without spaces or a colon",
      }),
    )
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed(value)))

export const secret = (description: string) =>
  Schema.RedactedFromValue(
    Schema.String.annotate({ description }).check(
      Schema.makeFilter((value: string) => value.trim() !== "" || "a secret can't be empty", {
        expected: "a secret that is not empty",
        toJsonSchema: () => ({ minLength: 1 }),
      }),
    ),
  )

/** A URL to send to. It may be the secret itself, so it is never shown. */
export const url = (doc: {
  readonly description: string
  readonly examples: ReadonlyArray<string>
  readonly default?: string
}) =>
  Schema.RedactedFromValue(
    Schema.String.annotate(doc).check(
      Schema.makeFilter(urlProblem, {
        expected: "an http:// or https:// URL",
        toJsonSchema: () => ({ pattern: "^[Hh][Tt][Tt][Pp][Ss]?://" }),
      }),
    ),
  )

/** Headers that say where a request ends: fetch writes them, and another value would garble the connection. */
const framing = ["connection", "content-length", "transfer-encoding", "upgrade"]

export const HttpConfig = Schema.Struct({
  url: url({
    description: "Where events are sent; path and query may hold placeholders",
    examples: ["https://example.com/hooks", "https://example.com/{{resource}}/{{id}}"],
  }),
  method: Schema.Literals(["POST", "PUT", "PATCH"])
    .annotate({ description: "The request's method", default: "POST" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("POST"))),
  headers: Schema.Record(
    Schema.String,
    Schema.RedactedFromValue(
      // Written as it is, unlike a placeholder's value: a credential that is changed on its way is worse than none.
      Schema.String.check(
        Schema.isPattern(/^[\x20-\x7e]*$/, { message: "a header holds visible ASCII only, and no line break" }),
      ),
    ),
  )
    .annotate({ description: "Headers beside those of the relay; values may hold placeholders and are never shown" })
    .check(
      Schema.makeFilter((headers: Readonly<Record<string, unknown>>) =>
        Object.keys(headers)
          .filter((name) => framing.includes(name.toLowerCase()))
          .map((name) => ({ path: [name], issue: "this header is written by the relay itself" })),
      ),
    )
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  format: Schema.Literals(["raw", "cloudevents", "template"])
    .annotate({
      description: "`raw`: the signed bytes. `cloudevents`: as CloudEvents 1.0. `template`: `body`, filled in",
      default: "raw",
    })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("raw"))),
  mode: Schema.optionalKey(
    Schema.Literals(["binary", "structured"]).annotate({
      description:
        "For `format: cloudevents`: `binary`, the usual one, is the signed bytes with attributes as headers; `structured` is one JSON document",
    }),
  ),
  body: Schema.optionalKey(
    Schema.Json.annotate({ description: "For `format: template`: any JSON whose strings may hold placeholders" }),
  ),
  forward: Schema.Struct({
    signature: header("Carries the sender's signature", "x-service-signature"),
    webhookId: header("Carries the sender's webhook id", "x-service-webhook-id"),
  })
    .annotate({ description: "Headers that carry what came with the event, where the signed bytes are sent" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  sign: Schema.optionalKey(
    Schema.Struct({
      secret: secret("The key of the HMAC-SHA256"),
      header: header("The header: `sha256=` and 64 uppercase hexadecimal digits", "x-relay-signature"),
    }).annotate({ description: "Signs the body that is sent, in the sender's own form" }),
  ),
  classify: Schema.Record(Schema.String, Schema.Literals(HttpAnswer.verdicts))
    .annotate({
      description: 'What an answer means, by status or class, where it is not the usual: `{ "409": "delivered" }`',
    })
    .check(
      Schema.makeFilter((verdicts: Readonly<Record<string, unknown>>) =>
        Object.keys(verdicts)
          .filter((key) => !HttpAnswer.isStatus(key))
          .map((key) => ({
            path: [key],
            issue: 'this is no status: write one such as "409", or a class such as "4xx"',
          })),
      ),
    )
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  tls: Schema.optionalKey(Certificates.CertificatesConfig.annotate({ description: "Certificates of one's own" })),
}).check(
  Schema.makeFilter(({ format, body, mode }: { readonly format: string; readonly body?: unknown; mode?: string }) => {
    if (format === "template" && body === undefined) {
      return { path: ["body"], issue: '"format": "template" needs a "body" to fill in' }
    }
    if (format !== "template" && body !== undefined) {
      return { path: ["body"], issue: `a "body" needs "format": "template": with "${format}" the event itself is sent` }
    }
    if (format !== "cloudevents" && mode !== undefined) {
      return { path: ["mode"], issue: 'a "mode" needs "format": "cloudevents"' }
    }
    return undefined
  }),
)
export type HttpConfig = typeof HttpConfig.Type

// --- encode ------------------------------------------------------------------

interface Encoded {
  readonly url: string
  readonly init: RequestInit
}

const utf8 = new TextEncoder()

/** What a preset exchanges: the body, and what an answer means. The rest of an exchange is the same for all. */
export interface Service {
  readonly body: Template.Template
  readonly meaning: HttpAnswer.Meaning
}

type HeaderFields = Record<string, string>
/** Events that go in one request, the oldest first, and the last of them. */
interface Batch {
  readonly entries: ReadonlyArray<Entry>
  readonly entry: Entry
}

const batchOf = (entries: ReadonlyArray<Entry>): Batch | undefined => {
  const entry = entries.at(-1)
  return entry && { entry, entries }
}

/** The body of a request; what it says in headers is added to those of every request. */
type Payload = (batch: Batch, headers: HeaderFields) => Uint8Array

const identify = ({ event }: Entry, headers: HeaderFields): void => {
  if (event.id !== "") headers["x-relay-event-id"] = Template.escapeHeader(event.id)
  if (event.type !== "") headers["x-relay-event-type"] = Template.escapeHeader(event.type)
}

const payloadOf = ({ format, mode, body, forward }: HttpConfig, preset?: Template.Template): Payload => {
  const template = preset ?? (format === "template" ? Template.compileBody(body) : undefined)
  if (template !== undefined) {
    return ({ entry, entries }, headers) => {
      identify(entry, headers)
      return utf8.encode(template.render(entry, entries))
    }
  }
  if (mode === "structured") {
    return ({ entry }, headers) => {
      headers["content-type"] = CloudEvents.structuredType
      return utf8.encode(CloudEvents.structured(entry))
    }
  }
  const { signature, webhookId } = forward
  return ({ entry }, headers) => {
    const { event } = entry
    if (format === "raw") identify(entry, headers)
    else for (const [name, value] of CloudEvents.binary(entry, CloudEvents.http)) headers[name] = value
    if (event.signature !== "") headers[signature] = event.signature
    if (event.webhookId !== "") headers[webhookId] = Template.escapeHeader(event.webhookId)
    return event.body
  }
}

/** An event's request, and what it is made of. */
interface Rendered extends Encoded {
  readonly headers: HeaderFields
  readonly bytes: Uint8Array
}

/** A digest has a key of its own: it is tried again with the same events. */
const requestKey = ({ entry, entries }: Batch): string =>
  entries.length > 1 && entries[0] !== undefined
    ? `${idempotencyKey(entries[0])}:digest:${entries.length}`
    : idempotencyKey(entry)

const encoder = (config: HttpConfig, payload: Payload): ((batch: Batch, signal?: AbortSignal) => Rendered) => {
  const url = Template.compile(Redacted.value(config.url), "url")
  const own = config.sign && { header: config.sign.header, hmac: hmacSha256(Redacted.value(config.sign.secret)) }
  const given: HeaderFields = {}
  const rendered: Array<readonly [name: string, value: Template.Template]> = []
  for (const [name, value] of Object.entries(config.headers)) {
    const text = Redacted.value(value)
    if (Template.hasPlaceholder(text)) rendered.push([name.toLowerCase(), Template.compile(text, "header")])
    else given[name.toLowerCase()] = text
  }
  return (batch, signal) => {
    const { entry, entries } = batch
    const headers: HeaderFields = {
      "content-type": "application/json",
      "user-agent": HttpTransport.userAgent,
      "accept-encoding": "identity",
      "idempotency-key": Template.escapeHeader(requestKey(batch)),
    }
    const bytes = payload(batch, headers) as Uint8Array<ArrayBuffer>
    if (own !== undefined) headers[own.header] = sign(own.hmac, bytes)
    for (const [name, value] of traceHeaders(entry.event)) headers[name] = value
    Object.assign(headers, given)
    for (const [name, value] of rendered) headers[name] = value.render(entry, entries)
    const init = { method: config.method, headers, body: bytes, signal: signal ?? null }
    return { url: url.render(entry, entries), headers, bytes, init }
  }
}

/** What {@link make} would send, without the URL, which may be a secret, and the values of headers that the config sets. */
export const preview = (
  config: HttpConfig,
  batch: ReadonlyArray<Entry>,
  group?: string,
  preset?: Template.Template,
): ReadonlyArray<Preview> => {
  const encode = encoder(config, payloadOf(config, preset))
  const secret = [...Object.keys(config.headers), ...(config.sign === undefined ? [] : [config.sign.header])]
  const hidden = Object.fromEntries(secret.map((name) => [name.toLowerCase(), masked]))
  const digests = group === undefined ? batch.map((entry) => [entry]) : [batch]
  return digests.flatMap((entries) => {
    const batch = batchOf(entries)
    if (batch === undefined) return []
    const { headers, bytes } = encode(batch)
    // These two say nothing of the event.
    const { "user-agent": _, "accept-encoding": __, ...telling } = headers
    return { method: config.method, headers: { ...telling, ...hidden }, body: Shown.show(bytes) }
  })
}

// --- send --------------------------------------------------------------------

interface Answer {
  readonly response: Response
  readonly body: ReadonlyArray<Uint8Array>
}

/** Opens the sink that a config describes; as a preset where a service is given. */
export const make = Effect.fnUntraced(function* (
  config: HttpConfig,
  service?: Service,
): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const clock = yield* Clock.Clock
  const fetch = yield* HttpTransport.make(config.tls && (yield* Certificates.read(config.tls)))
  const encode = encoder(config, payloadOf(config, service?.body))
  const { method } = config
  const url = Redacted.value(config.url)
  const address = new URL(Template.withoutPlaceholders(url))
  const isTemplated = Template.hasPlaceholder(url)
  const receiver: HttpAnswer.Receiver = {
    name: `${method} ${address.origin}`,
    overrides: config.classify,
    isTemplated,
    ...(service !== undefined && { meaning: service.meaning }),
  }

  const request = async ({ url, init }: Encoded, abort: AbortController): Promise<Answer> => {
    const response = await fetch(url, init)
    return { response, body: await drain(response, abort) }
  }

  /** One request, cut off when it is interrupted. */
  const exchange = <A>(
    make: (signal: AbortSignal) => Encoded,
    answered: (answer: Answer) => Effect.Effect<A, SinkError>,
  ): Effect.Effect<A, SinkError> =>
    Effect.callback((resume) => {
      const abort = new AbortController()
      request(make(abort.signal), abort).then(
        (answer) => resume(answered(answer)),
        (error) => resume(fail(HttpAnswer.reasonOfTrouble(HttpTransport.troubleOf(error), receiver))),
      )
      return Effect.sync(() => abort.abort())
    })

  const classify = ({ response, body }: Answer): Effect.Effect<Failures, SinkError> => {
    const text = () => Buffer.concat(body).toString("utf8")
    const reason = HttpAnswer.reasonOf(response, text, receiver, clock.currentTimeMillisUnsafe())
    return reason === undefined ? passed : fail(reason)
  }

  return {
    batch: { maxEvents: 1, maxBytes: Number.POSITIVE_INFINITY },
    send: (entries) => {
      const batch = batchOf(entries)
      return batch === undefined ? passed : exchange((signal) => encode(batch, signal), classify)
    },
    // Any answer will do: a receiver that is there may well refuse a bare HEAD.
    check: exchange(
      (signal) => ({ url: isTemplated ? address.origin : address.href, init: { method: "HEAD", signal } }),
      () => Effect.void,
    ),
  }
})

const passed = Effect.succeed(allSent)
const fail = (reason: Reason) => Effect.fail(new SinkError({ reason }))

export const Http: SinkType<HttpConfig> = {
  type: "http",
  config: HttpConfig,
  concurrency: 16,
  composes: ({ format }) => format === "template",
  open: (_, config) => make(config),
  preview,
}
