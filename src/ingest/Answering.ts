/** Answers requests: each answer is counted, and logged where an operator should know of it. */
import { Cause, type Clock, Effect, Exit, Result } from "effect"
import type { Webhook } from "../config/Config.ts"
import type { Event } from "../event/Event.ts"
import type { AppendExit, JournalError } from "../journal/Journal.ts"
import * as Problem from "../runtime/Problem.ts"
import { type More, type RefusalReason, refusals } from "./Answers.ts"
import * as Counters from "./Counters.ts"
import * as RecentRefusals from "./RecentRefusals.ts"

/** The reason to refuse an event that the journal did not take. */
const refusalOf = ({ problem }: Event, { reason }: JournalError): RefusalReason => {
  if (reason._tag !== "JournalFull") return "journalUnavailable"
  return problem !== undefined && reason.cause === "backlog" ? "quarantineFull" : "journalFull"
}

/** Makes what answers requests. Everything in it is synchronous. */
export const make = Effect.fnUntraced(function* (
  counters: Counters.Counters,
  clock: Clock.Clock,
  addressOf: (request: Request) => string,
) {
  const log = Effect.runForkWith(yield* Effect.context<never>())
  const recent = RecentRefusals.make(clock)

  /** Logs a warning. A field that is empty is left out. */
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
    // The guard has logged its cause.
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

  /** The response to a request that is refused, which is noted. */
  const refuse = (request: Request, webhook: string, reason: RefusalReason, more?: More): Response => {
    const requestId = Problem.requestId()
    noteRefused(request, webhook, reason, requestId, more)
    return Problem.toResponse(refusals[reason].answer, requestId)
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

  /** The response to an event by how its commit ended. Nothing else answers 2xx. */
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

  /** Notes the fields of client objects that the sender should have redacted. */
  const noteUnredacted = ({ webhook, id, type }: Event, fields: ReadonlyArray<string>): void => {
    for (const field of fields) {
      Counters.add(Counters.ofWebhook(counters, webhook).unredacted, field)
      warn(
        `a client object came to the webhook ${webhook} with ${field} not null: the sender should have redacted it`,
        { webhook, event: id, type, field },
      )
    }
  }

  return { recent, warn, noteRefused, noteUnreadable, refuse, answer, noteUnredacted }
})
