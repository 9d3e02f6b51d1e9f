/**
 * Ingest turns a request into an answer. `receive` lists all refusals from top to
 * bottom, cheapest first. Nothing in a body is trusted before its signature is
 * verified.
 *
 * **Guarantee.** A 2xx means that the journal has the event on disk, or already had
 * it. A signed delivery is never refused for its content, unless the config requires
 * this.
 *
 * **Gotcha.** After a 503 for a commit's deadline, the event may still have been
 * stored. The sender's retry is then a duplicate and gets a 2xx.
 */
import { Clock, Context, Duration, Effect, Exit, Layer, Result, type Scope } from "effect"
import { ActiveConfig } from "../ActiveConfig.ts"
import { maxInFlight, type Webhook } from "../config/Config.ts"
import { RateLimit } from "../delivery/lane/Batcher.ts"
import * as Envelope from "../event/Envelope.ts"
import { type Event, type Foreign, quarantine } from "../event/Event.ts"
import { eventLoop } from "../event/EventLoop.ts"
import { isKnown, isRelayEvent } from "../event/EventType.ts"
import * as Monotonic from "../event/Monotonic.ts"
import { type SignatureRefusal, verify } from "../event/Signature.ts"
import { attempt } from "../formats/Rendering.ts"
import { Archive } from "../journal/Archive.ts"
import { type AppendExit, Journal, unavailable } from "../journal/Journal.ts"
import * as Senders from "../routing/Foreign.ts"
import { candidates, type Receiver, type Router, type RoutingTable } from "../routing/Router.ts"
import type { Refusal as GuardRefusal, Handler } from "../runtime/RequestGuard.ts"
import * as Runtime from "../runtime/Runtime.ts"
import { type Delivery, Tracing } from "../telemetry/Tracing.ts"
import * as Answering from "./Answering.ts"
import { type More, type RefusalReason, refusals, signatureRefusals } from "./Answers.ts"
import * as Bodies from "./Bodies.ts"
import * as Counters from "./Counters.ts"
import type * as RecentRefusals from "./RecentRefusals.ts"

/** The facts about a delivery before its body is decoded. */
type Received = Omit<Event, "id" | "type" | "accountId" | "problem" | "altered">

type Decision =
  | {
      /** If it has a `problem`, it is quarantined. */
      readonly event: Event
      readonly sinks: ReadonlyArray<string>
      /** The names of client fields that the sender should have redacted. */
      readonly unredacted: ReadonlyArray<string>
      readonly refusal?: undefined
    }
  | { readonly refusal: "undecodable" | "unknownType"; readonly more: More }

const quarantined: ReadonlyArray<string> = [quarantine]
const none: ReadonlyArray<string> = []

const quarantinedFor = (problem: string, event: Event): Decision => ({
  event: { ...event, problem },
  sinks: quarantined,
  unredacted: none,
})

/**
 * Decides by the config whether an authentic body is routed, quarantined with the reason, or refused. Pure: the
 * caller counts, logs and answers.
 */
export const decide = (
  received: Received,
  webhook: Webhook,
  { router }: Pick<RoutingTable, "router">,
  given?: ReturnType<typeof Envelope.decode>,
): Decision => {
  const { foreign } = received
  if (foreign !== undefined) return decideForeign({ ...received, foreign }, webhook, router)
  const decoded = given ?? Envelope.decode(received.body)
  if (Result.isFailure(decoded)) return undecodable(decoded.failure.problem, received, webhook)
  const envelope = decoded.success
  const { type } = envelope.data
  const event = { ...received, id: envelope.id, type, accountId: envelope.account_id }
  return routed(event, envelope, isKnown(type), webhook, router)
}

const undecodable = (problem: string, received: Received, webhook: Webhook): Decision =>
  webhook.undecodable === "reject"
    ? { refusal: "undecodable", more: { why: problem } }
    : quarantinedFor(problem, { ...received, id: "", type: "", accountId: "" })

/** Decides on the event of another sender. */
const decideForeign = (
  received: Received & { readonly foreign: Foreign },
  webhook: Webhook,
  router: Router,
): Decision => {
  const { sender } = webhook
  if (sender === undefined) return undecodable("its webhook has no `verify` any more", received, webhook)
  const read = attempt(() => Senders.read(sender, webhook.path, received))
  if (Result.isFailure(read)) return undecodable(read.failure.message, received, webhook)
  const event = read.success
  const decoded = Result.filterOrFail(
    Envelope.ofEvent(event),
    () => event.type !== "",
    () => ({ problem: `the delivery has no event type at ${sender.places.type.map(Senders.placeText).join(" and ")}` }),
  )
  if (Result.isFailure(decoded)) return undecodable(decoded.failure.problem, received, webhook)
  const isListed = sender.types.length === 0 || sender.types.includes(event.type)
  return routed(event, decoded.success, isListed && !isRelayEvent(event.type), webhook, router)
}

/** Routes an event, unless its type is not in the sender's catalogue and `unknownTypes` says otherwise. */
const routed = (
  event: Event,
  envelope: Envelope.Envelope,
  isInCatalogue: boolean,
  webhook: Webhook,
  router: Router,
): Decision => {
  const { type } = event
  if (!isInCatalogue) {
    if (webhook.unknownTypes === "reject") return { refusal: "unknownType", more: { sent: type } }
    // Only the relay makes these types. From outside, they would look like the relay's own events.
    if (isRelayEvent(type)) return quarantinedFor("event types that begin with relay. are the relay's own", event)
    if (webhook.unknownTypes === "quarantine") return quarantinedFor("the event type is not in the catalogue", event)
  }
  const sinks = attempt(() =>
    router.route(webhook.name, envelope, event.receivedAt, () => Envelope.exact(event, envelope)),
  )
  if (Result.isFailure(sinks)) return quarantinedFor(sinks.failure.message, event)
  const unredacted = event.foreign === undefined ? Envelope.unredactedFields(envelope) : none
  return { event, sinks: sinks.success, unredacted }
}

/** The decision on a quarantined event: its sinks, or the reason why it `stays`, in words. */
type Rerouted =
  | { readonly event: Event; readonly sinks: ReadonlyArray<string>; readonly stays?: undefined }
  | { readonly stays: string }

/**
 * Decides again on a quarantined event. Its signature is not verified again, because
 * the secret may have expired since.
 */
const decideAgain = (kept: Event, table: RoutingTable<Webhook>): Rerouted => {
  const receivers = [...table.endpoints.values()].flatMap(({ receivers }) => receivers)
  const webhook = receivers.find(({ webhook }) => webhook.name === kept.webhook)?.webhook
  if (webhook === undefined) return { stays: `the webhook ${kept.webhook} is not in the config` }
  const { problem: _, altered: __, ...received } = kept
  const decision = decide(received, webhook, table)
  if (decision.refusal !== undefined) return { stays: decision.more.why ?? refusals[decision.refusal].what }
  const { event, sinks } = decision
  if (event.problem !== undefined) return { stays: event.problem }
  return sinks.length === 0 ? { stays: "no route matches it" } : { event, sinks }
}

// Waits for a commit, with a timeout. Requests of one commit share the journal's promise, so one fiber waits for all of
// them.

/** Waits at most `timeout` milliseconds from the commit's first event. After that the outcome is unknown. */
type CommitWait = (commit: Promise<AppendExit>, timeout: number) => Promise<AppendExit>

const overdue: AppendExit = Exit.fail(unavailable("the commit took longer than commitTimeout"))

/** Makes a wait that notes how long each commit took. A fiber and a timer for each commit would cost more than that. */
const makeCommitWait = Effect.fnUntraced(function* (
  commits: Counters.Counters["commits"],
): Effect.fn.Return<CommitWait, never, Scope.Scope> {
  const clock = yield* Clock.Clock
  const scope = yield* Effect.scope
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const now = () => Monotonic.millis(clock)

  /** Waits for commits with one timeout. */
  const makeWait = (timeout: number) => {
    /** The commits that have not ended, oldest first. */
    const open: Array<{ readonly started: number; readonly end: (exit: AppendExit) => void }> = []
    let isWatched = false
    const watch = Effect.gen(function* () {
      for (let [oldest] = open; oldest !== undefined; [oldest] = open) {
        const left = oldest.started + timeout - now()
        if (left > 0) yield* Effect.sleep(left)
        else oldest.end(overdue)
      }
      isWatched = false
    })

    const bound = (commit: Promise<AppendExit>): Promise<AppendExit> =>
      new Promise((resolve) => {
        const started = now()
        const end = (exit: AppendExit): void => {
          const index = open.indexOf(waiting)
          if (index === -1) return
          open.splice(index, 1)
          Counters.observeCommit(commits, (now() - started) / 1_000)
          resolve(exit)
        }
        const waiting = { started, end }
        open.push(waiting)
        // The journal's promise never rejects.
        commit.then(end)
        if (isWatched) return
        isWatched = true
        run(Effect.forkIn(watch, scope))
      })

    let newest: { readonly commit: Promise<AppendExit>; readonly bounded: Promise<AppendExit> } | undefined
    return (commit: Promise<AppendExit>): Promise<AppendExit> => {
      if (newest?.commit !== commit) newest = { commit, bounded: bound(commit) }
      return newest.bounded
    }
  }

  /** By the timeout, because the webhooks of a config have few different timeouts. */
  const waits = new Map<number, ReturnType<typeof makeWait>>()
  return (commit, timeout) => {
    const wait = waits.get(timeout) ?? makeWait(timeout)
    waits.set(timeout, wait)
    return wait(commit)
  }
})

// The shares of webhooks, so that a sender with a flood leaves space for others.

/** The journal's filling is measured again after this many milliseconds. */
const measureAfter = 100

/** Makes the function that decides whether a webhook takes another delivery. Rate limits begin again with a reload. */
const makeShares = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const { status } = yield* Archive
  const read = Effect.runSyncWith(yield* Effect.context<never>())
  const limits = new WeakMap<Webhook, RateLimit>()
  let measured = { usedBytes: 0, maxBytes: 1, at: Number.NEGATIVE_INFINITY }
  /** Returns how full the journal is, in percent, with the bodies that were taken since it was measured. */
  const filling = (now: number): number => {
    if (now - measured.at >= measureAfter) {
      const { usedBytes, maxBytes } = read(status)
      measured = { usedBytes, maxBytes, at: now }
    }
    return (100 * measured.usedBytes) / measured.maxBytes
  }
  return (webhook: Webhook, bytes: number): { readonly reason: RefusalReason; readonly more?: More } | undefined => {
    const { rateLimit, journalShare } = webhook
    if (rateLimit === undefined && journalShare === undefined) return undefined
    const now = Monotonic.millis(clock)
    if (journalShare !== undefined && filling(now) > journalShare) return { reason: "webhookFull" }
    if (rateLimit !== undefined) {
      const limit = limits.get(webhook) ?? new RateLimit(rateLimit, Duration.toMillis(rateLimit.per))
      limits.set(webhook, limit)
      const wait = limit.wait(now)
      if (wait > 0) return { reason: "rateLimited", more: { retryAfter: Math.ceil(wait / 1_000) } }
      limit.take(1)
    }
    measured.usedBytes += bytes
    return undefined
  }
})

/** Receives deliveries. Every response is made here, except for requests that the guard refuses. */
export class Ingest extends Context.Service<
  Ingest,
  {
    readonly handle: Handler
    readonly counters: Counters.Counters
    readonly refusals: RecentRefusals.RecentRefusals
    /** Notes a request that the guard refused before it arrived here. */
    readonly noteRefused: (refusal: GuardRefusal, requestId: string, request: Request) => void
    /** Notes this many connections that ended because no request could be read. */
    readonly noteUnreadable: (count: number) => void
    /** From now on `draining` is true. Deliveries are still accepted, and each response closes its connection. */
    readonly leave: Effect.Effect<void>
    /** From now on every new request gets a 503. Requests in progress end normally. */
    readonly drain: Effect.Effect<void>
    readonly draining: Effect.Effect<boolean>
    /** Decides again on a quarantined event, by the active config. */
    readonly reroute: (event: Event) => Rerouted
  }
>()("relay/ingest/Ingest") {
  static readonly layer: Layer.Layer<Ingest, never, Journal | Archive | ActiveConfig> = Layer.effect(
    Ingest,
    Effect.suspend(() => make),
  )
}

const bodyDeadline = Duration.seconds(30)
const firstByteDeadline = Duration.seconds(10)

/** Returns the path of an absolute URL by slicing, because `new URL` takes a fifth of a request's time. */
const pathOf = (url: string): string => {
  const start = url.indexOf("/", "https://".length)
  const query = url.indexOf("?", start)
  return query === -1 ? url.slice(start) : url.slice(start, query)
}

const json = /^application\/(?:json|[a-z0-9.!#$&^_-]+\+json)\s*(?:;|$)/i
const isJson = (contentType: string | null): boolean =>
  contentType === "application/json" || (contentType !== null && json.test(contentType))

const isIdentity = (encoding: string | null): boolean => encoding === null || encoding.toLowerCase() === "identity"

/** Reports whether a webhook of the path unpacks bodies of this encoding. */
const unpacks = (receivers: ReadonlyArray<Receiver<Webhook>>, headers: Headers): boolean =>
  /^(?:x-)?gzip$/i.test(headers.get("content-encoding") ?? "") && receivers.some(({ webhook }) => webhook.gzip)

const declaredLength = (headers: Headers): number | undefined => {
  const length = headers.get("content-length")
  return length === null ? undefined : Number(length)
}

/** Returns the size of a body that is too large, if the request declared it. */
const sizeOf = (unread: Bodies.Unread, declared: number | undefined): More =>
  unread === "tooLarge" && declared !== undefined ? { sent: `${declared} bytes` } : {}

/**
 * Returns the webhook id header. It is sent to every sink but is not signed, so an
 * id that is longer than any of the sender's is dropped.
 */
const webhookIdOf = (headers: Headers, webhook: Webhook): string => {
  const id = headers.get(webhook.headers.webhookId) ?? ""
  return id.length > Envelope.longest ? "" : id
}

/**
 * Returns the first webhook with a secret that verifies the body, or the reason why
 * none does. An expired secret takes precedence over other reasons.
 */
const authenticate = (receivers: ReadonlyArray<Receiver<Webhook>>, headers: Headers, body: Uint8Array, now: number) => {
  let reason: SignatureRefusal = "missing"
  for (const receiver of receivers) {
    const { signatureHeader } = receiver
    const signature = signatureHeader === undefined ? "" : headers.get(signatureHeader)
    const verified = receiver.verify?.(headers, body, now) ?? verify(receiver.secrets, signature, body, now)
    if (verified.ok) return { ok: true, receiver, signature: signature ?? "", secret: verified.secret } as const
    if (reason !== "expired") reason = verified.reason
  }
  return { ok: false, reason } as const
}

const answered = (traced: Delivery | undefined, response: Response, event?: Event): Response => {
  traced?.answered(response.status, event)
  return response
}

/** Closes the connection after the response, so that a load balancer chooses a relay again for the next one. */
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
  const senders = Bodies.makeVerifiedSenders()
  const excessOf = yield* makeShares
  const committed = yield* makeCommitWait(counters.commits)
  const senderOf = (request: Request) => Bodies.senderAddress(request, active.current.config.addressHeader)
  const answering = yield* Answering.make(counters, clock, senderOf)
  const { recent, noteRefused, noteUnreadable, refuse, answer, noteUnredacted, noteWebhookId } = answering
  let stage: "open" | "leaving" | "refusing" = "open"

  const receive = async (request: Request): Promise<Response> => {
    const { headers } = request
    eventLoop.delivery()
    if (stage === "refusing") return refuse(request, "", "draining")
    const path = pathOf(request.url)
    const endpoint = active.current.table.endpoints.get(path)
    if (endpoint === undefined) return refuse(request, "", "unknownPath", { sent: path })
    const receivers = candidates(endpoint, headers)
    const [first] = receivers
    if (first === undefined) return refuse(request, "", "unknownWebhookId", { sent: path })
    const { name } = first.webhook
    if (request.method !== "POST") return answering.answerOther(request, receivers, name)
    if (!isJson(headers.get("content-type"))) return refuse(request, name, "contentType")
    const isPacked = !isIdentity(headers.get("content-encoding"))
    if (isPacked && !unpacks(receivers, headers)) return refuse(request, name, "contentEncoding")
    const maxBody = receivers.length === 1 ? first.webhook.maxBody : endpoint.maxBody
    const declared = declaredLength(headers)
    // Not determined for small bodies, because that costs more than it gains.
    const sender = Bodies.isSmall(declared) ? "" : senderOf(request)
    const reading = bodies.read(request, declared, maxBody, senders.has(sender))
    const read = typeof reading === "string" ? reading : await reading
    if (typeof read === "string") return refuse(request, name, read, sizeOf(read, declared))
    let bytes = read.byteLength
    try {
      const body = isPacked ? await bodies.unpack(read, maxBody) : read
      if (typeof body === "string") return refuse(request, name, body)
      if (isPacked) bytes = body.byteLength
      const receivedAt = clock.currentTimeMillisUnsafe()
      const authentic = authenticate(receivers, headers, body, receivedAt)
      senders.note(sender, authentic.ok)
      if (!authentic.ok) {
        Counters.add(Counters.ofWebhook(counters, name).signatureFailures, authentic.reason)
        bodies.free(body)
        return refuse(request, name, signatureRefusals[authentic.reason])
      }
      const { webhook } = authentic.receiver
      // Another webhook of the same path may accept a larger body.
      if (body.byteLength > webhook.maxBody)
        return refuse(request, webhook.name, "tooLarge", sizeOf("tooLarge", body.byteLength))
      if (isPacked && !webhook.gzip) return refuse(request, webhook.name, "contentEncoding")
      const { sender: foreign } = webhook
      const challenge = foreign && Senders.challengeIn(foreign, body)
      if (challenge !== undefined) return answering.answerChallenge(webhook.name, { challenge })
      const excess = excessOf(webhook, body.byteLength)
      if (excess !== undefined) return refuse(request, webhook.name, excess.reason, excess.more)
      const webhookId = webhookIdOf(headers, webhook)
      noteWebhookId(webhook, webhookId)
      const traced = tracing?.delivery(headers, webhook, receivedAt)
      const received = {
        webhook: webhook.name,
        webhookId,
        signature: authentic.signature,
        secret: authentic.secret,
        receivedAt,
        body,
      }
      // Uses the current table, because a reload may have happened while the body arrived. Nothing is awaited from here
      // to the append.
      const whole = traced === undefined ? received : { ...received, trace: traced.context }
      const given = foreign === undefined ? whole : { ...whole, foreign: Senders.received(foreign, headers) }
      const decision = decide(given, webhook, active.current.table)
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
    reroute: (event) => decideAgain(event, active.current.table),
  })
})
