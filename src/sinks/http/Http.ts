/**
 * The HTTP sink: one request per event, digest or batch. The alert services use it
 * too: each has its own {@link Service}, and this sink sends.
 *
 * **Guarantee.** A 2xx is the only success. Redirects are not followed, and at most
 * 64 KiB of an answer are read. Only the URL's origin is shown, because for many
 * services the URL is the secret.
 */
import { Clock, Duration, Effect, Redacted, type Scope } from "effect"
import * as Template from "../../formats/Template.ts"
import * as HttpTransport from "../../runtime/HttpTransport.ts"
import { drain } from "../../runtime/HttpTransport.ts"
import * as Alert from "../alerts/Alert.ts"
import * as Certificates from "../Certificates.ts"
import { asOneMessage, type Entries } from "../Rendered.ts"
import { keeper } from "../ServiceWords.ts"
import { allSent, type Failures, type Reason, type Sink, SinkError, type SinkType, sentAs, sentWith } from "../Sink.ts"
import * as AccessTokens from "./AccessTokens.ts"
import * as HttpAnswer from "./HttpAnswer.ts"
import { HttpConfig, headerText, isBatched, usualBatch } from "./HttpConfig.ts"
import { type Ask, bearing, type Encoded, inHalves, preview, requestsOf, type Service } from "./HttpRequest.ts"

/** A request, and the server that it is for. */
interface Addressed extends Encoded {
  readonly receiver: HttpAnswer.Receiver
  readonly entries: Entries
}

interface Answer {
  readonly response: Response
  readonly body: ReadonlyArray<Uint8Array>
}

/** Opens a sink. An alert service adds its payload and its verdicts on answers. */
export const make = Effect.fnUntraced(function* (
  config: HttpConfig,
  service?: Service,
): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const clock = yield* Clock.Clock
  const fetch = yield* HttpTransport.make(config.tls && (yield* Certificates.read(config.tls)))
  const keep = config.keepAnswers ? keeper([config, service?.secrets]) : undefined
  const tokens = config.oauth && (yield* AccessTokens.make(config.oauth, { keep }))
  const requests = requestsOf(config, service, ({ config: { method, url, classify }, encode }) => {
    const address = new URL(Template.withoutPlaceholders(Redacted.value(url)))
    const isTemplated = Template.hasPlaceholder(Redacted.value(url))
    const receiver: HttpAnswer.Receiver = {
      name: `${method} ${address.origin}`,
      origin: address.origin,
      overrides: classify,
      isTemplated,
      ...(tokens !== undefined && { credentials: "oauth" }),
      // The URL of an alert service is its credential.
      ...(service !== undefined && { credentials: service.conversation === undefined ? "url" : "token" }),
      ...(keep !== undefined && { keep }),
      ...(service !== undefined && { meaning: service.meaning }),
    }
    return {
      receiver,
      probed: isTemplated ? address.origin : address.href,
      encode: (entries: Entries): Addressed => ({
        ...encode(entries, clock.currentTimeMillisUnsafe()),
        receiver,
        entries,
      }),
    }
  })
  const encode = (entries: Entries) => requests.of(entries).encode(entries)

  const request = async ({ url, init }: Pick<Encoded, "url" | "init">, abort: AbortController): Promise<Answer> => {
    const response = await fetch(url, init)
    return { response, body: await drain(response, abort) }
  }

  /** One request; an interruption aborts it. */
  const exchange = <A>(
    { url, init, receiver }: Omit<Addressed, "bytes" | "entries">,
    answered: (answer: Answer) => Effect.Effect<A, SinkError>,
  ): Effect.Effect<A, SinkError> =>
    Effect.callback((resume) => {
      const abort = new AbortController()
      request({ url, init: { ...init, signal: abort.signal } }, abort).then(
        (answer) => resume(answered(answer)),
        (error) => resume(fail(HttpAnswer.reasonOfFailure(error, receiver))),
      )
      return Effect.sync(() => abort.abort())
    })

  const classify =
    ({ bytes, receiver }: Pick<Addressed, "bytes" | "receiver">, token?: AccessTokens.Token) =>
    ({ response, body }: Answer): Effect.Effect<Failures, SinkError> => {
      const text = () => Buffer.concat(body).toString("utf8")
      const now = clock.currentTimeMillisUnsafe()
      const reason = HttpAnswer.reasonOf(response, text, receiver, { now, token, body: bytes })
      return reason === undefined ? Effect.succeed(sentWith(response.status)) : fail(reason)
    }

  const asking =
    ({ url, init, receiver }: Omit<Addressed, "bytes" | "entries">): Ask =>
    (path, body, meaning) => {
      const bytes = utf8.encode(JSON.stringify(body))
      const to = { ...receiver, name: `${path} at ${receiver.origin}`, meaning }
      return exchange({ url: `${url}/${path}`, init: { ...init, body: bytes }, receiver: to }, (answer) =>
        Effect.as(classify({ bytes, receiver: to })(answer), Buffer.concat(answer.body).toString("utf8")),
      )
    }

  const deliver = (request: Addressed): Effect.Effect<Failures, SinkError> => {
    if (service?.conversation !== undefined) {
      const sent = service.conversation.send(service.alertOf(request.entries), asking(request))
      return Effect.map(sent, (reference) => (reference === undefined ? allSent : sentAs(200, reference)))
    }
    if (tokens === undefined) return exchange(request, classify(request))
    const { current, after } = tokens
    const by = (token: AccessTokens.Token, answered = classify(request, token)) =>
      exchange({ ...request, ...bearing(request, token) }, answered)
    return Effect.flatMap(current, (token) =>
      by(token, (answer) =>
        // The token may have been revoked, or be too long. If the next token is refused too, a person must correct something.
        renews.has(answer.response.status) ? Effect.flatMap(after(token), by) : classify(request, token)(answer),
      ),
    )
  }

  return {
    batch: limitsOf(config),
    send: isBatched(config) ? inHalves((entries) => deliver(encode(entries))) : asOneMessage(encode, deliver),
    // Any answer shows that the receiver can be reached. Many refuse HEAD.
    check: Effect.andThen(
      service?.conversation?.check(
        asking({ url: requests.trigger.probed, init: probeOf(config), receiver: requests.trigger.receiver }),
      ) ??
        tokens?.current ??
        Effect.void,
      Effect.forEach(
        new Map([requests.trigger, requests.update, requests.resolve].map((one) => [one.probed, one.receiver])),
        ([url, receiver]) =>
          exchange({ url, init: probe, receiver }, ({ response }) => {
            const reason = HttpAnswer.ofProxy(response, receiver)
            return reason === undefined ? Effect.void : fail(reason)
          }),
        { discard: true },
      ),
    ),
  }
})

const limitsOf = (config: HttpConfig): Sink["batch"] => {
  if (!isBatched(config)) return { maxEvents: 1, maxBytes: Number.POSITIVE_INFINITY }
  const { maxEvents, maxBytes, linger } = config.batch ?? usualBatch
  return { maxEvents, maxBytes, linger: Duration.toMillis(linger) }
}

const probe = { method: "HEAD", headers: { "user-agent": HttpTransport.userAgent } }

/** A request without an event, with the headers that are the same for each. */
const probeOf = ({ headers }: HttpConfig): RequestInit => {
  const fixed = Object.entries(headers).flatMap(([name, value]) => {
    const text = headerText(value)
    return Template.isConstant(text) ? [[name, text] as const] : []
  })
  return { method: "POST", headers: { "user-agent": HttpTransport.userAgent, ...Object.fromEntries(fixed) } }
}

const utf8 = new TextEncoder()

/** Statuses of an answer that another token may change. */
const renews = new Set([401, 431])

const fail = (reason: Reason) => Effect.fail(new SinkError({ reason }))

export const Http: SinkType<HttpConfig> = {
  config: HttpConfig,
  libraries: ["oauth4webapi"],
  concurrency: 64,
  messages: {
    composes: ({ format }) => format === "template",
    with: '"format": "template"',
    recoveries: {
      askedBy: "resolve",
      ownKey: "dedupKey",
      isOn: ({ resolve }) => resolve !== undefined,
      key: (config) => Alert.keyOf({ ...config, objectId: Alert.usualObjectId }),
    },
    updates: ({ update }) => update !== undefined,
    incidents: ({ dedupKey }) => dedupKey !== undefined,
    // The events of a digest are one alert.
    ofDigests: (config, key) => ({ ...config, dedupKey: config.dedupKey ?? key }),
  },
  open: (config) => make(config),
  preview: (config, batch) => preview(config, batch),
  isBatched,
}
