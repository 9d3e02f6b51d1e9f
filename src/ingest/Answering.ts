/** Answers requests. Each answer is counted, and logged if operators should know about it. */
import { Cause, type Clock, Effect, Exit, Result } from "effect"
import type { Webhook } from "../config/Config.ts"
import type { Event } from "../event/Event.ts"
import type { AppendExit, JournalError } from "../journal/Journal.ts"
import { hubChallenge } from "../routing/Foreign.ts"
import type { Receiver } from "../routing/Router.ts"
import * as Problem from "../runtime/Problem.ts"
import { type More, type RefusalReason, refusals } from "./Answers.ts"
import * as Counters from "./Counters.ts"
import * as RecentRefusals from "./RecentRefusals.ts"

/** Returns the reason to refuse an event that the journal did not accept. */
const refusalOf = ({ problem }: Event, { reason }: JournalError): RefusalReason => {
  if (reason._tag !== "JournalFull") return "journalUnavailable"
  return problem !== undefined && reason.cause === "backlog" ? "quarantineFull" : "journalFull"
}

/** Makes the functions that answer the challenges of senders. A sender uses one to find out whether a URL is its user's. */
const makeChallenges = (
  counters: Counters.Counters,
  refuse: (request: Request, webhook: string, reason: RefusalReason, more?: More) => Response,
  log: (message: string) => void,
) => {
  /** Returns the response to a challenge. The headers keep a browser from reading it as a page. */
  const answerChallenge = (webhook: string, challenge: string | { readonly challenge: string }): Response => {
    Counters.add(Counters.ofWebhook(counters, webhook).answers, 200)
    log(`the webhook ${webhook} answered its sender's challenge`)
    const headers = { "x-content-type-options": "nosniff", "cache-control": "no-store" }
    if (typeof challenge !== "string") return Response.json(challenge, { headers })
    return new Response(challenge, { headers: { ...headers, "content-type": "text/plain; charset=utf-8" } })
  }

  /** Returns the response to a request that is not a POST: a GET may be a challenge. */
  const answerOther = (request: Request, receivers: ReadonlyArray<Receiver<Webhook>>, name: string): Response => {
    const { method, url } = request
    const tokens = receivers.filter(({ isVerifyToken }) => isVerifyToken !== undefined)
    const asked = method === "GET" && tokens.length > 0 ? hubChallenge(url) : undefined
    if (asked === undefined) return refuse(request, name, "method", { sent: method })
    const receiver = tokens.find(({ isVerifyToken }) => isVerifyToken?.(asked.token))
    if (receiver === undefined) return refuse(request, name, "verifyToken")
    return answerChallenge(receiver.webhook.name, asked.challenge)
  }

  return { answerChallenge, answerOther }
}

/** Makes the functions that answer requests. All of them are synchronous. */
export const make = Effect.fnUntraced(function* (
  counters: Counters.Counters,
  clock: Clock.Clock,
  addressOf: (request: Request) => string,
) {
  const log = Effect.runForkWith(yield* Effect.context<never>())
  const recent = RecentRefusals.make(clock)

  /** Logs a warning without its empty fields. */
  const warn = (message: string, fields: Readonly<Record<string, string | number>>): void => {
    const some = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ""))
    log(Effect.annotateLogs(Effect.logWarning(message), some))
  }

  /** Counts and logs a refusal; `webhook` is empty for a request to no webhook. */
  const noteRefused = (
    request: Request,
    webhook: string,
    reason: RefusalReason,
    requestId: string,
    more: More = {},
  ): void => {
    const { answer, what } = refusals[reason]
    const { status } = answer
    Counters.add(Counters.ofWebhook(counters, webhook).answers, status)
    const from = addressOf(request)
    recent.add({ webhook, reason, requestId, from, detail: more.why ?? more.sent ?? "" })
    // The guard has already logged the cause.
    if (reason === "bug") return
    const to = webhook === "" ? "a request to no webhook" : `a request to the webhook ${webhook}`
    const why = more.why === undefined ? what : `${what} (${more.why})`
    warn(`${to} was refused with ${status}: ${why}`, { webhook, status, reason, requestId, from })
  }

  /** Counts and logs connections that ended because no request could be read. */
  const noteUnreadable = (count: number): void => {
    const { answer } = refusals.unreadable
    for (let noted = 0; noted < count; noted++) {
      Counters.add(Counters.ofWebhook(counters, "").answers, answer.status)
      recent.add({ webhook: "", reason: "unreadable", requestId: "", from: "", detail: "" })
    }
    warn("connections ended without a request that is HTTP/1", { count, reason: "unreadable" })
  }

  /** Returns the response to a refused request, and counts and logs it. */
  const refuse = (request: Request, webhook: string, reason: RefusalReason, more?: More): Response => {
    const requestId = Problem.requestId()
    noteRefused(request, webhook, reason, requestId, more)
    const response = Problem.toResponse(refusals[reason].answer, requestId)
    if (more?.retryAfter !== undefined) response.headers.set("retry-after", String(more.retryAfter))
    return response
  }

  const accept = ({ name, respond }: Webhook, event: Event, sinks: ReadonlyArray<string>): Response => {
    const counts = Counters.ofWebhook(counters, name)
    Counters.add(counts.answers, respond)
    Counters.addType(counts.events, event.type)
    counts.secretsLastUsed.set(event.secret, event.receivedAt)
    if (event.problem !== undefined) {
      counts.quarantined += 1
      warn(`a delivery to the webhook ${name} went to quarantine (\`relay dlq list\` shows it): ${event.problem}`, {
        webhook: name,
        event: event.id,
        type: event.type,
      })
    } else if (sinks.length === 0) {
      counters.unrouted += 1
      counters.unroutedAt = event.receivedAt
    }
    return new Response(null, { status: respond })
  }

  /** Returns the response to an event, depending on its commit. Only this returns a 2xx. */
  const answer = (
    request: Request,
    webhook: Webhook,
    event: Event,
    sinks: ReadonlyArray<string>,
    exit: AppendExit,
  ): Response => {
    if (Exit.isSuccess(exit)) return accept(webhook, event, sinks)
    const error = Cause.findError(exit.cause)
    if (Result.isFailure(error)) throw Cause.squash(exit.cause)
    return refuse(request, webhook.name, refusalOf(event, error.success), { why: error.success.reason.message })
  }

  /** Warns if a signed delivery has another webhook id than its webhook's. */
  const noteWebhookId = ({ name, ids }: Webhook, id: string): void => {
    if (ids.length === 0 || ids.includes(id)) return
    warn(`the webhook ${name} got a signed delivery under another webhook id than its own`, { webhook: name })
  }

  /** Notes the fields of client objects that the sender should have redacted. */
  const noteUnredacted = ({ webhook, id, type }: Event, fields: ReadonlyArray<string>): void => {
    for (const field of fields) {
      Counters.add(Counters.ofWebhook(counters, webhook).unredacted, field)
      warn(
        `a client object arrived at the webhook ${webhook} with ${field} not null: the sender should have redacted it`,
        { webhook, event: id, type, field },
      )
    }
  }

  return {
    ...{ recent, noteRefused, noteUnreadable, noteUnredacted, noteWebhookId, refuse, answer },
    ...makeChallenges(counters, refuse, (message) => log(Effect.logInfo(message))),
  }
})
