/**
 * Ingest: a request in, an answer out. `receive` is the list of refusals from
 * top to bottom, the cheapest first, and nothing of a body is believed before
 * its signature is verified.
 *
 * **Guarantee.** A 2xx means that the journal has the event on disk, or had it
 * already. What is signed is never refused for what it says, unless the config
 * asks for that.
 *
 * **Gotcha.** A 503 after a commit's deadline does not mean that the event was
 * not kept: the sender's retry is then a duplicate, and answered 2xx.
 */
import { Clock, Context, Duration, Effect, Layer } from "effect"
import { ActiveConfig } from "../ActiveConfig.ts"
import { maxInFlight, type Webhook } from "../config/Config.ts"
import * as Envelope from "../event/Envelope.ts"
import type { Event } from "../event/Event.ts"
import { type SignatureRefusal, verify } from "../event/Signature.ts"
import { Journal } from "../journal/Journal.ts"
import { candidates, type Receiver } from "../routing/RoutingTable.ts"
import type { Refusal as GuardRefusal, Handler } from "../runtime/RequestGuard.ts"
import * as Runtime from "../runtime/Runtime.ts"
import { type Delivery, Tracing } from "../telemetry/Tracing.ts"
import * as Answering from "./Answering.ts"
import { type More, signatureRefusals } from "./Answers.ts"
import * as Bodies from "./Bodies.ts"
import * as CommitWait from "./CommitWait.ts"
import * as Counters from "./Counters.ts"
import * as Decide from "./Decide.ts"
import type * as RecentRefusals from "./RecentRefusals.ts"
import * as SenderAddress from "./SenderAddress.ts"
import * as VerifiedSenders from "./VerifiedSenders.ts"

/** Receives deliveries. A request gets its response here and nowhere else, but for what the guard refuses. */
export class Ingest extends Context.Service<
  Ingest,
  {
    readonly handle: Handler
    readonly counters: Counters.Counters
    readonly refusals: RecentRefusals.RecentRefusals
    /** Notes what was refused before it came here. */
    readonly noteRefused: (refusal: GuardRefusal, requestId: string, request: Request) => void
    /** Notes this many connections that ended because no request could be read. */
    readonly noteUnreadable: (count: number) => void
    /** From now on `draining` is true. Deliveries are still accepted, and each response closes its connection. */
    readonly leave: Effect.Effect<void>
    /** From now on every request is refused with 503; those under way end as they would have. */
    readonly drain: Effect.Effect<void>
    readonly draining: Effect.Effect<boolean>
    /** Decides again on a quarantined event, by the config in force. */
    readonly reroute: (event: Event) => Decide.Rerouted
  }
>()("relay/ingest/Ingest") {
  static readonly layer: Layer.Layer<Ingest, never, Journal | ActiveConfig> = Layer.effect(
    Ingest,
    Effect.suspend(() => make),
  )
}

const bodyDeadline = Duration.seconds(30)
const firstByteDeadline = Duration.seconds(10)

/** The path of an absolute URL, by slicing: `new URL` costs a fifth of a request. */
const pathOf = (url: string): string => {
  const start = url.indexOf("/", "https://".length)
  const query = url.indexOf("?", start)
  return query === -1 ? url.slice(start) : url.slice(start, query)
}

const json = /^application\/(?:json|[a-z0-9.!#$&^_-]+\+json)\s*(?:;|$)/i
const isJson = (contentType: string | null): boolean =>
  contentType === "application/json" || (contentType !== null && json.test(contentType))

const isIdentity = (encoding: string | null): boolean => encoding === null || encoding.toLowerCase() === "identity"

const declaredLength = (headers: Headers): number | undefined => {
  const length = headers.get("content-length")
  return length === null ? undefined : Number(length)
}

/** The size of a body that is too large, where it was announced. */
const sizeOf = (unread: Bodies.Unread, declared: number | undefined): More =>
  unread === "tooLarge" && declared !== undefined ? { sent: `${declared} bytes` } : {}

/** It goes along to every sink and is not signed: one that is longer than any of the sender's is dropped. */
const webhookIdOf = (headers: Headers, webhook: Webhook): string => {
  const id = headers.get(webhook.headers.webhookId) ?? ""
  return id.length > Envelope.longest ? "" : id
}

/** The first webhook with a secret that verifies the body; else why none does, an expired secret before all. */
const authenticate = (receivers: ReadonlyArray<Receiver<Webhook>>, headers: Headers, body: Uint8Array, now: number) => {
  let reason: SignatureRefusal = "missing"
  for (const receiver of receivers) {
    const signature = headers.get(receiver.webhook.headers.signature)
    const verified = verify(receiver.secrets, signature, body, now)
    if (verified.ok) return { ok: true, receiver, signature: signature ?? "", secret: verified.secret } as const
    if (reason !== "expired") reason = verified.reason
  }
  return { ok: false, reason } as const
}

const answered = (traced: Delivery | undefined, response: Response, event?: Event): Response => {
  traced?.answered(response.status, event)
  return response
}

/** Closes the connection after the response. For the next one a load balancer chooses a relay again. */
const closing = async (answer: Promise<Response>): Promise<Response> => {
  const response = await answer
  response.headers.set("connection", "close")
  return response
}

const make = Effect.gen(function* () {
  const active = yield* ActiveConfig
  const journal = yield* Journal
  const clock = yield* Clock.Clock
  const tracing = yield* Tracing
  const counters = Counters.make()
  const bodies = yield* Bodies.make({
    gauge: counters,
    maxInFlight,
    deadline: bodyDeadline,
    firstByte: firstByteDeadline,
    collect: Runtime.collect,
  })
  const senders = VerifiedSenders.make()
  const committed = yield* CommitWait.make(counters.commits)
  const senderOf = (request: Request) => SenderAddress.of(request, active.current.config.addressHeader)
  const { recent, warn, noteRefused, noteUnreadable, refuse, answer, noteUnredacted } = yield* Answering.make(
    counters,
    clock,
    senderOf,
  )
  let stage: "open" | "leaving" | "refusing" = "open"

  const receive = async (request: Request): Promise<Response> => {
    const { headers } = request
    if (stage === "refusing") return refuse(request, "", "draining")
    const path = pathOf(request.url)
    const endpoint = active.current.table.endpoints.get(path)
    if (endpoint === undefined) return refuse(request, "", "unknownPath", { sent: path })
    const receivers = candidates(endpoint, headers)
    const [first] = receivers
    if (first === undefined) return refuse(request, "", "unknownWebhookId", { sent: path })
    const { name } = first.webhook
    if (request.method !== "POST") return refuse(request, name, "method", { sent: request.method })
    if (!isJson(headers.get("content-type"))) return refuse(request, name, "contentType")
    if (!isIdentity(headers.get("content-encoding"))) return refuse(request, name, "contentEncoding")
    const maxBody = receivers.length === 1 ? first.webhook.maxBody : endpoint.maxBody
    const declared = declaredLength(headers)
    // Not of a small one: that costs more than it is worth.
    const sender = Bodies.isSmall(declared) ? "" : senderOf(request)
    const reading = bodies.read(request, declared, maxBody, senders.has(sender))
    const body = typeof reading === "string" ? reading : await reading
    if (typeof body === "string") return refuse(request, name, body, sizeOf(body, declared))
    const bytes = body.byteLength
    try {
      const receivedAt = clock.currentTimeMillisUnsafe()
      const authentic = authenticate(receivers, headers, body, receivedAt)
      senders.note(sender, authentic.ok)
      if (!authentic.ok) {
        Counters.add(Counters.ofWebhook(counters, name).signatureFailures, authentic.reason)
        bodies.free(body)
        return refuse(request, name, signatureRefusals[authentic.reason])
      }
      const { webhook } = authentic.receiver
      // Another webhook of its path may take more.
      if (body.byteLength > webhook.maxBody)
        return refuse(request, webhook.name, "tooLarge", sizeOf("tooLarge", body.byteLength))
      const webhookId = webhookIdOf(headers, webhook)
      if (webhook.ids.length > 0 && !webhook.ids.includes(webhookId)) {
        warn(`the webhook ${webhook.name} got a signed delivery under another webhook id than its own`, {
          webhook: webhook.name,
        })
      }
      const traced = tracing?.delivery(headers, webhook, receivedAt)
      const received = {
        webhook: webhook.name,
        webhookId,
        signature: authentic.signature,
        secret: authentic.secret,
        receivedAt,
        body,
      }
      // The table of now: a reload may have come while the body did. From here to the append nothing is awaited.
      const decision = Decide.decide(
        traced === undefined ? received : { ...received, trace: traced.context },
        webhook,
        active.current.table,
      )
      if (decision.refusal !== undefined)
        return answered(traced, refuse(request, webhook.name, decision.refusal, decision.more))
      const { event, sinks, unredacted } = decision
      noteUnredacted(event, unredacted)
      const appended = journal.appendUnsafe(event, sinks)
      const ended = appended instanceof Promise ? await committed(appended, authentic.receiver.commitTimeout) : appended
      const exit = journal.refusalOf?.(event) ?? ended
      return answered(traced, answer(request, webhook, event, sinks, exit), event)
    } finally {
      bodies.release(bytes)
    }
  }

  return Ingest.of({
    handle: (request) => (stage === "leaving" ? closing(receive(request)) : receive(request)),
    counters,
    refusals: recent,
    noteUnreadable,
    noteRefused: (refusal, requestId, request) => noteRefused(request, "", refusal, requestId),
    leave: Effect.sync(() => {
      stage = "leaving"
    }),
    drain: Effect.sync(() => {
      stage = "refusing"
    }),
    draining: Effect.sync(() => stage !== "open"),
    reroute: (event) => Decide.reroute(event, active.current.table),
  })
})
