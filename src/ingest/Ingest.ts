/**
 * Ingest: a request in, an answer out. It reads top to bottom as the table of
 * answers, cheapest refusal first, and nothing of a body is believed before
 * its signature is.
 *
 * **Guarantee.** A 2xx means that the journal has the event on disk, or had it
 * already. What is signed is never refused for what it says, unless the config
 * asks for that.
 *
 * **Gotcha.** A 503 after a commit's deadline does not mean that the event was
 * not kept: the sender's retry is then a duplicate, and answered 2xx.
 */
import { Cause, Clock, Context, Duration, Effect, Exit, Layer, Result } from "effect"
import { maxInFlight, type Webhook } from "../config/Config.ts"
import * as Envelope from "../event/Envelope.ts"
import { type Event, quarantine } from "../event/Event.ts"
import { isKnown, isRelayEvent } from "../event/EventType.ts"
import { type SignatureRefusal, verify } from "../event/Signature.ts"
import { type AppendExit, Journal } from "../journal/Journal.ts"
import * as Problem from "../runtime/Problem.ts"
import type { Handler } from "../runtime/RequestGuard.ts"
import { type Delivery, Tracing } from "../telemetry/Tracing.ts"
import * as Bodies from "./Bodies.ts"
import * as Commit from "./CommitWait.ts"
import * as Counters from "./Counters.ts"
import * as Snapshot from "./RoutingTable.ts"

export type Rerouted =
  | { readonly event: Event; readonly sinks: ReadonlyArray<string>; readonly stays?: undefined }
  | { readonly stays: string }

export class Ingest extends Context.Service<
  Ingest,
  {
    readonly handle: Handler
    readonly counters: Counters.Counters
    /** From now on every request is refused with 503; those under way end as they would have. */
    readonly drain: Effect.Effect<void>
    readonly draining: Effect.Effect<boolean>
    /**
     * Decides on a quarantined event by the config of now: the event with its
     * sinks, or why it stays. It was verified when it came, by a secret that may
     * have expired since.
     */
    readonly reroute: (event: Event) => Rerouted
  }
>()("relay/ingest/Ingest") {
  /** `snapshot` gives the newest one at every request: a reload swaps it. */
  static readonly layer = (snapshot: () => Snapshot.RoutingTable): Layer.Layer<Ingest, never, Journal> =>
    Layer.effect(Ingest, make(snapshot))
}

const bodyDeadline = Duration.seconds(30)
const firstByteDeadline = Duration.seconds(10)

const retrySoon = (seconds: number) => ({ "retry-after": String(seconds) })

const answers = {
  draining: {
    status: 503,
    title: "Shutting down",
    detail: "try again",
    headers: { ...retrySoon(5), ...Problem.closing },
  },
  unknown: { status: 404, title: "No such webhook" },
  method: { status: 405, title: "Deliveries are sent by POST", headers: { allow: "POST" } },
  contentType: { status: 415, title: "Deliveries are application/json" },
  encoding: { status: 415, title: "Deliveries are sent without a content encoding" },
  tooLarge: { status: 413, title: "The body is larger than this webhook takes", headers: Problem.closing },
  tooMany: {
    status: 503,
    title: "Too much at once",
    detail: "try again",
    headers: { ...retrySoon(1), ...Problem.closing },
  },
  tooSlow: { status: 408, title: "The body took too long", headers: Problem.closing },
  brokenOff: Problem.badRequest("the body broke off"),
  signature: { status: 401, title: "The signature is missing or does not match" },
  rejectedType: { status: 422, title: "This webhook does not take this event type" },
  undecodable: { status: 422, title: "The body is no delivery envelope" },
  full: { status: 503, title: "The journal is full", detail: "try again", headers: retrySoon(30) },
  unavailable: { status: 503, title: "The journal is not available", detail: "try again", headers: retrySoon(5) },
} satisfies Record<string, Problem.Problem>

const unreadAnswers: Readonly<Record<Bodies.Unread, Problem.Problem>> = {
  "too large": answers.tooLarge,
  "too many": answers.tooMany,
  "too slow": answers.tooSlow,
  "broken off": answers.brokenOff,
}

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

/** It goes along to every sink and is not signed: one that is longer than any of the sender's is none. */
const webhookIdOf = (headers: Headers, webhook: Webhook): string => {
  const id = headers.get(webhook.headers.webhookId) ?? ""
  return id.length > Envelope.longest ? "" : id
}

/** What is to be kept of an authentic body, or the refusal that the config asks for. */
type Decision =
  | { readonly event: Event; readonly sinks: ReadonlyArray<string>; readonly refusal?: undefined }
  | { readonly refusal: Problem.Problem; readonly why: string }

const quarantined: ReadonlyArray<string> = [quarantine]

const answered = (traced: Delivery | undefined, response: Response, event?: Event): Response => {
  traced?.answered(response.status, event)
  return response
}

const make = Effect.fnUntraced(function* (snapshot: () => Snapshot.RoutingTable) {
  const journal = yield* Journal
  const clock = yield* Clock.Clock
  const tracing = yield* Tracing
  const counters = Counters.make()
  const bodies = yield* Bodies.make({
    gauge: counters,
    maxInFlight,
    deadline: bodyDeadline,
    firstByte: firstByteDeadline,
  })
  const committed = yield* Commit.make(counters.commits)
  const report = Effect.runForkWith(yield* Effect.context<never>())
  const warn = (message: string) => {
    report(Effect.logWarning(message))
  }
  let draining = false

  /** `why` is for the log, and holds nothing of the request. */
  const refuse = (name: string, problem: Problem.Problem, why: string = problem.title): Response => {
    Counters.add(Counters.ofWebhook(counters, name).answers, problem.status)
    const to = name === "" ? "a request to no webhook" : `a request to the webhook ${name}`
    warn(`${to} was refused with ${problem.status}: ${why}`)
    return Problem.toResponse(problem)
  }

  /** The first webhook with a secret that verifies the body; else why none has, an expired secret before all. */
  const authenticate = (
    candidates: ReadonlyArray<Snapshot.Receiver>,
    headers: Headers,
    body: Uint8Array,
    now: number,
  ) => {
    let reason: SignatureRefusal = "missing"
    for (const receiver of candidates) {
      const { webhook } = receiver
      const signature = headers.get(webhook.headers.signature)
      const verified = verify(receiver.secrets, signature, body, now)
      if (verified.ok) return { ok: true, receiver, signature: signature ?? "", secret: verified.secret } as const
      if (reason !== "expired") reason = verified.reason
    }
    return { ok: false, reason } as const
  }

  const decide = (
    router: Snapshot.RoutingTable["router"],
    webhook: Webhook,
    facts: Pick<Event, "webhook" | "webhookId" | "signature" | "secret" | "receivedAt" | "trace" | "body">,
  ): Decision => {
    const decoded = Envelope.decode(facts.body)
    if (Result.isFailure(decoded)) {
      const { problem } = decoded.failure
      if (webhook.undecodable === "reject") return { refusal: answers.undecodable, why: problem }
      return { event: { ...facts, id: "", type: "", accountId: "", problem }, sinks: quarantined }
    }
    const envelope = decoded.success
    const { type } = envelope.data
    const event = { ...facts, id: envelope.id, type, accountId: envelope.account_id }
    if (!isKnown(type)) {
      if (webhook.unknownTypes === "reject") return { refusal: answers.rejectedType, why: "unknown event type" }
      // Only the relay itself makes these: from outside they would pass for its own.
      if (isRelayEvent(type)) {
        return {
          event: { ...event, problem: "event types that begin with relay. are the relay's own" },
          sinks: quarantined,
        }
      }
      if (webhook.unknownTypes === "quarantine") {
        return { event: { ...event, problem: "the event type is not in the catalogue" }, sinks: quarantined }
      }
    }
    for (const field of Envelope.unredactedFields(envelope)) {
      Counters.add(Counters.ofWebhook(counters, webhook.name).unredacted, field)
      warn(
        `a client object came to the webhook ${webhook.name} with ${field} not null: the sender should have redacted it`,
      )
    }
    return { event, sinks: router.route(webhook.name, envelope) }
  }

  const reroute = (kept: Event): Rerouted => {
    const { router, endpoints } = snapshot()
    const receivers = [...endpoints.values()].flatMap(({ receivers }) => receivers)
    const webhook = receivers.find(({ webhook }) => webhook.name === kept.webhook)?.webhook
    if (webhook === undefined) return { stays: `the webhook ${kept.webhook} is not in the config` }
    const { problem: _, altered: __, ...facts } = kept
    const decision = decide(router, webhook, facts)
    if (decision.refusal !== undefined) return { stays: decision.why }
    const { event, sinks } = decision
    if (event.problem !== undefined) return { stays: event.problem }
    return sinks.length === 0 ? { stays: "no route takes it" } : { event, sinks }
  }

  const accept = (webhook: Webhook, event: Event, sinks: ReadonlyArray<string>): Response => {
    const counts = Counters.ofWebhook(counters, webhook.name)
    Counters.add(counts.answers, webhook.respond)
    Counters.addType(counts.events, event.type)
    counts.secretsLastUsed.set(event.secret, event.receivedAt)
    if (sinks === quarantined) {
      counts.quarantined += 1
      warn(
        `a delivery to the webhook ${webhook.name} went to quarantine (\`relay dlq list\` shows it): ${event.problem}`,
      )
    } else if (sinks.length === 0) counters.unrouted += 1
    return new Response(null, { status: webhook.respond })
  }

  const answer = (webhook: Webhook, event: Event, sinks: ReadonlyArray<string>, exit: AppendExit): Response => {
    if (Exit.isSuccess(exit)) return accept(webhook, event, sinks)
    const error = Cause.findError(exit.cause)
    if (Result.isFailure(error)) throw Cause.squash(exit.cause)
    const { reason } = error.success
    const problem = reason._tag === "JournalFull" ? answers.full : answers.unavailable
    return refuse(webhook.name, problem, reason.message)
  }

  const receive = async (request: Request): Promise<Response> => {
    const { headers } = request
    const { endpoints } = snapshot()
    if (draining) return refuse("", answers.draining)
    const endpoint = endpoints.get(pathOf(request.url))
    if (endpoint === undefined) return refuse("", answers.unknown)
    const candidates = Snapshot.candidates(endpoint, headers)
    const [first] = candidates
    if (first === undefined) return refuse("", answers.unknown, "unknown webhook id")
    const { name } = first.webhook
    if (request.method !== "POST") return refuse(name, answers.method)
    if (!isJson(headers.get("content-type"))) return refuse(name, answers.contentType)
    if (!isIdentity(headers.get("content-encoding"))) return refuse(name, answers.encoding)
    const maxBody = candidates.length === 1 ? first.webhook.maxBody : endpoint.maxBody
    const reading = bodies.read(request, declaredLength(headers), maxBody)
    const body = typeof reading === "string" ? reading : await reading
    if (typeof body === "string") return refuse(name, unreadAnswers[body])
    try {
      const receivedAt = clock.currentTimeMillisUnsafe()
      const authentic = authenticate(candidates, headers, body, receivedAt)
      if (!authentic.ok) {
        Counters.add(Counters.ofWebhook(counters, name).signatureFailures, authentic.reason)
        return refuse(name, answers.signature, `signature ${authentic.reason}`)
      }
      const { webhook } = authentic.receiver
      const webhookId = webhookIdOf(headers, webhook)
      if (webhook.ids.length > 0 && !webhook.ids.includes(webhookId)) {
        warn(`the webhook ${webhook.name} got a signed delivery under another webhook id than its own`)
      }
      const traced = tracing?.delivery(headers, webhook, receivedAt)
      const facts = {
        webhook: webhook.name,
        webhookId,
        signature: authentic.signature,
        secret: authentic.secret,
        receivedAt,
        body,
      }
      // The newest router: a reload may have come while the body did, and what follows is one turn.
      const decision = decide(
        snapshot().router,
        webhook,
        traced === undefined ? facts : { ...facts, trace: traced.context },
      )
      if (decision.refusal !== undefined) {
        return answered(traced, refuse(webhook.name, decision.refusal, decision.why))
      }
      const { event, sinks } = decision
      const appended = journal.appendUnsafe(event, sinks)
      const exit = appended instanceof Promise ? await committed(appended, authentic.receiver.commitTimeout) : appended
      return answered(traced, answer(webhook, event, sinks, exit), event)
    } finally {
      bodies.release(body.byteLength)
    }
  }

  return Ingest.of({
    handle: receive,
    counters,
    drain: Effect.sync(() => {
      draining = true
    }),
    draining: Effect.sync(() => draining),
    reroute,
  })
})
