/**
 * `relay trigger TYPE`: sends samples of an event type to a running relay as the sender does, signed over the raw bytes
 * and with the webhook's header names.
 */
import { Clock, Duration, Effect, FileSystem, Option, Redacted, Result, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { FetchHttpClient, HttpBody, HttpClient, HttpClientRequest } from "effect/http"
import * as Address from "../../config/Address.ts"
import * as Certificate from "../../config/Certificate.ts"
import type { RelayConfig, Webhook } from "../../config/Config.ts"
import { isKnown, isRelayEvent } from "../../event/EventType.ts"
import * as Monotonic from "../../event/Monotonic.ts"
import { sample } from "../../event/SampleEvent.ts"
import { hmacSha256, sign } from "../../event/Signature.ts"
import * as Senders from "../../routing/Foreign.ts"
import * as HttpTransport from "../../runtime/HttpTransport.ts"
import { failed, io, unreachable, usage } from "../support/CommandError.ts"
import { argument, Json, text, toggle, withExamples } from "../support/flags.ts"
import { loadAsService } from "../support/loadConfig.ts"
import { count as counted, plain, print, printJson, say } from "../support/output.ts"
import { suggestType } from "../support/values.ts"

/** The parts of a delivery that are made for each request. */
interface Sample {
  readonly eventId: string
  /** The headers that sign `body`, and others that the sender sends. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** Another body, which the headers don't sign. */
  readonly tampered: Uint8Array
}

interface Delivery {
  readonly url: string
  /** Makes a sample, signed at `now`. */
  readonly sample: (now: number) => Sample
  /** The `fetch` that sends it, which may trust other certificates. */
  readonly fetch: HttpTransport.Fetch
  /** Changes the body after signing, so that the relay must refuse it. */
  readonly tamper: boolean
}

interface Answer {
  readonly eventId: string
  readonly status: number
  /** The reason for a refusal; empty if the delivery was accepted. */
  readonly detail: string
  readonly millis: number
}

/** The time limit of an answer. A webhook's `commitTimeout` may be several seconds. */
const patience = Duration.seconds(30)

const encoder = new TextEncoder()

/** Returns the reason in a refusal, which is problem+json. */
const detailOf = (text: string): string => {
  try {
    const { title, detail } = JSON.parse(text)
    return [title, detail].filter((part) => typeof part === "string").join(": ")
  } catch {
    return text.slice(0, 200)
  }
}

/** Sends a delivery. Fails if there is no answer. */
const deliver = Effect.fnUntraced(
  function* (delivery: Delivery) {
    const { url, fetch, tamper } = delivery
    const started = yield* Monotonic.now
    const { eventId, headers, body, tampered } = delivery.sample(yield* Clock.currentTimeMillis)
    const request = HttpClientRequest.post(url, {
      headers: { "user-agent": "relay-trigger Webhooks", ...headers },
      body: HttpBody.uint8Array(tamper ? tampered : body, "application/json"),
    })
    const response = yield* Effect.provideService(
      HttpClient.execute(request),
      FetchHttpClient.Fetch,
      fetch as typeof globalThis.fetch,
    )
    const text = yield* response.text
    const answer: Answer = {
      eventId,
      status: response.status,
      detail: response.status < 300 ? "" : detailOf(text),
      millis: Math.round((yield* Monotonic.now) - started),
    }
    return answer
  },
  Effect.provide(FetchHttpClient.layer),
  Effect.timeout(patience),
)

// The certificates that `trigger` trusts, and its messages about others.

/** Makes a `fetch`. If a PEM file is given, it trusts the file's authorities instead of the system's. */
const fetchTrusting = Effect.fnUntraced(function* (file: Option.Option<string>) {
  if (Option.isNone(file)) return globalThis.fetch
  const fs = yield* FileSystem.FileSystem
  const ca = yield* Effect.mapError(fs.readFileString(file.value), () => io(`${file.value} of --ca can't be read`))
  const parsed = Certificate.parse(ca, "--ca", true)
  if (Result.isFailure(parsed)) {
    return yield* io(`${file.value} of --ca: ${parsed.failure.message}\n  ${parsed.failure.hint}`)
  }
  return yield* HttpTransport.make({ ca })
})

/**
 * Says why a certificate was not trusted, and what to do. Returns `undefined` for any other failure. `subject` names
 * the certificate's host, if known.
 */
const distrust = (failure: HttpTransport.Failure, url: string, subject?: string): string | undefined => {
  const { origin, pathname, port } = new URL(url)
  switch (failure) {
    case "untrusted certificate":
      return `no authority that this machine trusts signed the certificate of ${origin}\n  --ca FILE trusts its authority, or the certificate itself where it is self-signed.`
    case "certificate of another host": {
      const named = `https://${subject ?? "NAME"}${port === "" ? "" : `:${port}`}${pathname}`
      return `the certificate of ${origin} is for another host${subject === undefined ? "" : `, ${subject}`}\n  Send to the name that it is for: --url ${named}`
    }
    case "expired certificate":
      return `the certificate of ${origin} has expired, or is not valid yet\n  Renew it, then \`relay reload\`; \`relay status\` shows which the relay uses.`
    case "unfit certificate":
      return `the certificate of ${origin} was not made for a server\n  Get one that is: with it no sender can deliver.`
    case "failed handshake":
      return `there is no TLS with ${origin}\n  Does it speak https? --url chooses another address.`
    default:
      return undefined
  }
}

/** With more events than this, a summary is printed instead of each answer. */
const listed = 10
/** Maximum deliveries in flight. */
const inFlight = 64

const urlOf = ({ listen, tls }: RelayConfig, webhook: Webhook): string => {
  // The name does not matter for a socket, but Deno sends requests for localhost to a port.
  const host = listen.unix === undefined ? Address.format(Address.reachable(listen)) : "unix"
  return `${tls === undefined ? "http" : "https"}://${host}${webhook.path}`
}

/** Returns the name on the listener's certificate. */
const subjectOf = ({ certificates }: RelayConfig): string | undefined =>
  certificates.find(({ key }) => key === "tls.certificate")?.subject

const noneSuch = (name: Option.Option<string>): string =>
  Option.isNone(name) ? "the config has no webhook" : `there is no webhook ${plain(name.value)} in the config`

const pick = (config: RelayConfig, name: Option.Option<string>) => {
  const names = config.webhooks.map((webhook) => webhook.name)
  const [first] = config.webhooks
  const webhook = Option.isNone(name) ? first : config.webhooks.find((webhook) => webhook.name === name.value)
  return webhook === undefined
    ? Effect.fail(usage(`${noneSuch(name)}; it has ${names.join(", ") || "none"}`))
    : Effect.succeed(webhook)
}

/** Returns a secret that has not expired and that signs; empty if the sender has none. */
const secretOf = ({ name, secrets, sender }: Webhook, now: number) => {
  if (sender !== undefined && Senders.isUnsigned(sender.scheme) && sender.scheme.credential === "none") {
    return Effect.succeed("")
  }
  const valid = secrets.filter(({ expires }) => expires === undefined || now < expires)
  const values = valid.map(({ value }) => Redacted.value(value))
  if (values.length === 0) return Effect.fail(failed(`every secret of the webhook ${name} has expired`))
  const value = values.find((value) => sender === undefined || !Senders.isPublicKey(value))
  return value === undefined
    ? Effect.fail(failed(`the webhook ${name} has only public keys, and only its sender has the private ones`))
    : Effect.succeed(value)
}

interface Wanted {
  readonly type: string
  readonly account: Option.Option<string>
  readonly object: Option.Option<string>
}

/** Returns a function that makes samples as the webhook's sender does. */
const sampler = (webhook: Webhook, secret: string, { type, account, object }: Wanted): Delivery["sample"] => {
  const { sender, headers, ids } = webhook
  const accountId = Option.getOrUndefined(account)
  if (sender !== undefined) {
    return (now) => {
      const { id } = sample(type, now)
      const { headers, body } = Senders.sampleDelivery(sender, secret, { id, type, account: accountId, now })
      return { eventId: id, headers, body, tampered: encoder.encode(`${new TextDecoder().decode(body)} `) }
    }
  }
  const hmac = hmacSha256(secret)
  return (now) => {
    const envelope = sample(type, now, { accountId, objectId: Option.getOrUndefined(object) })
    const body = encoder.encode(JSON.stringify(envelope))
    return {
      eventId: envelope.id,
      headers: {
        [headers.signature]: sign(hmac, body),
        ...(ids[0] === undefined ? {} : { [headers.webhookId]: ids[0] }),
      },
      body,
      tampered: encoder.encode(JSON.stringify({ ...envelope, version: `${envelope.version} ` })),
    }
  }
}

/** Fails if the webhook's sender does not send this type, and nobody forces it. */
const checkType = Effect.fnUntraced(function* (type: string, { sender }: Webhook, isForced: boolean) {
  if (sender !== undefined) {
    if (sender.places.type.some((place) => typeof place !== "string")) {
      return yield* usage("the webhook has its event type at a JMESPath, for which no sample can be made")
    }
    if (sender.types.length === 0 || sender.types.includes(type) || isForced) return
    return yield* usage(`${plain(type)} is none of the webhook's "event.types"\n  --force sends it anyway.`)
  }
  if (!type.includes(".")) return yield* usage(`${plain(type)} is not an event type${suggestType(type)}`)
  if (isKnown(type)) return
  const what = isRelayEvent(type)
    ? `${plain(type)} is an event of the relay itself, which no sender sends`
    : `${plain(type)} is not in the sender's catalogue${suggestType(type)}`
  if (!isForced) return yield* usage(`${what}\n  --force sends it anyway.`)
  yield* say(what)
})

const percentile = (sorted: ReadonlyArray<number>, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0

const summarize = (answers: ReadonlyArray<Answer>, millis: number) => {
  const statuses = new Map<number, number>()
  for (const { status } of answers) statuses.set(status, (statuses.get(status) ?? 0) + 1)
  const latencies = answers.map((answer) => answer.millis).toSorted((a, b) => a - b)
  return {
    sent: answers.length,
    seconds: millis / 1000,
    statuses: Object.fromEntries(statuses),
    p50: percentile(latencies, 0.5),
    p99: percentile(latencies, 0.99),
  }
}

const unanswered = (url: string): string =>
  `the server at ${url} does not answer within ${Duration.format(patience)}\n  A relay there hangs, or a firewall drops what is sent to it: \`relay status\` says whether the relay of this machine answers.`

const positive = Schema.Finite.check(Schema.isGreaterThan(0, { expected: "a number above 0" }))

export const trigger = Command.make(
  "trigger",
  {
    type: argument("type", "Any event type, such as appointment.created"),
    count: Flag.Int("count").pipe(
      Flag.withAlias("n"),
      Flag.withDescription("Number of events, each with its own id"),
      Flag.withSchema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 10_000_000 }))),
      Flag.withDefault(1),
    ),
    rate: Flag.Finite("rate").pipe(
      Flag.withDescription("Events per second (default: as fast as the relay responds)"),
      Flag.withSchema(positive),
      Flag.optional,
    ),
    tamper: toggle("tamper", "Change the body after signing; succeeds when the relay refuses it"),
    force: toggle("force", "Send a type that is not in the sender's catalogue"),
    webhook: text("webhook", "NAME", "The webhook to deliver to (default: the first of the config)"),
    account: text("account", "ID", "The account_id of the samples"),
    object: text("object", "ID", "The id of the samples' object, to match a recovery with its failure"),
    url: Flag.String("url").pipe(
      Flag.withMetavar("URL"),
      Flag.withDescription("The URL to send to (default: the config's listener)"),
      Flag.withSchema(
        Schema.String.check(Schema.isPattern(/^https?:\/\/[^\s]+$/, { expected: "an http or https URL" })),
      ),
      Flag.optional,
    ),
    ca: text("ca", "FILE", "PEM file of the authorities to trust, instead of the system's"),
  },
  Effect.fn(function* (flags) {
    const { type, count, tamper } = flags
    const json = yield* Json
    const { file, config } = yield* loadAsService
    const webhook = yield* pick(config, flags.webhook)
    yield* checkType(type, webhook, flags.force)
    if (tamper && webhook.sender !== undefined && Senders.isUnsigned(webhook.sender.scheme)) {
      return yield* usage(`the sender of ${webhook.name} signs nothing, so the relay can't notice a changed body`)
    }
    const secret = yield* secretOf(webhook, yield* Clock.currentTimeMillis)
    const url = Option.getOrElse(flags.url, () => urlOf(config, webhook))
    const unix = Option.isNone(flags.url) ? config.listen.unix : undefined
    const target = unix === undefined ? url : Address.format(config.listen)
    const delivery = {
      url,
      sample: sampler(webhook, secret, flags),
      fetch: unix === undefined ? yield* fetchTrusting(flags.ca) : yield* HttpTransport.makeAt(unix),
      tamper,
    }
    const started = yield* Monotonic.now
    const send = Effect.fnUntraced(function* (index: number) {
      if (Option.isSome(flags.rate)) {
        const due = started + (index * 1000) / flags.rate.value
        yield* Effect.sleep(Math.max(0, due - (yield* Monotonic.now)))
      }
      const answer = yield* Effect.mapError(deliver(delivery), (error) => {
        if (error._tag === "TimeoutError") return unreachable(unanswered(target))
        return unreachable(
          distrust(HttpTransport.failureOf(error), url, Option.isNone(flags.url) ? subjectOf(config) : undefined) ??
            `no relay answers at ${target}\n  Is it running? \`relay run\` starts it. The address is from ${file}; \`--config\` or \`--url\` choose another.`,
        )
      })
      if (!json && count <= listed) {
        yield* print(`${answer.status}  ${answer.eventId}${answer.detail === "" ? "" : `  ${plain(answer.detail)}`}`)
      }
      return answer
    })
    const answers = yield* Effect.forEach(Array(count).keys(), send, { concurrency: inFlight })
    const summary = summarize(answers, (yield* Monotonic.now) - started)
    if (json) yield* printJson(count <= listed ? { ...summary, answers } : summary)
    else if (count > listed) {
      const statuses = Object.entries(summary.statuses).map(([status, times]) => `${times} × ${status}`)
      yield* print(
        `${counted(count, "event")} in ${summary.seconds.toFixed(1)} s: ${statuses.join(", ")}; answered in ${summary.p50} ms (median), ${summary.p99} ms (99 %)`,
      )
    }
    const accepted = answers.filter(({ status }) => status >= 200 && status < 300).length
    if (tamper && accepted > 0) {
      return yield* failed(`${counted(accepted, "tampered delivery")} accepted, which must never happen`)
    }
    if (!tamper && accepted < count) {
      const refused = answers.find(({ status }) => status < 200 || status >= 300)
      return yield* failed(
        `${count - accepted} of ${count} refused; the first by ${refused?.status}: ${plain(refused?.detail ?? "")}${refused?.status === 404 ? `\n  Nothing receives at ${target}: another program listens there, or a relay with another config.` : ""}`,
      )
    }
  }, Effect.scoped),
).pipe(
  withExamples({
    "relay trigger appointment.created": "One event",
    "relay trigger client.updated --count 1000 --rate 100": "A thousand, a hundred a second",
    "relay trigger connected_account.reconnected --object cna_1":
      "The recovery of the refresh_failed that was sent with this id",
    "relay trigger client.updated --ca ca.pem": "To a relay with a custom certificate",
    "relay trigger push --webhook github": "As another sender, to a webhook with `verify`",
    "relay trigger service.deleted --tamper": "A forged delivery, which must be refused",
  }),
)
