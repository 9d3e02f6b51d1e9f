/**
 * Decides by the config whether an authentic body is routed, quarantined with the
 * reason, or refused. Pure: the caller counts, logs and answers.
 */
import { Result } from "effect"
import type { Webhook } from "../config/Config.ts"
import * as Envelope from "../event/Envelope.ts"
import { type Event, quarantine } from "../event/Event.ts"
import { isKnown, isRelayEvent } from "../event/EventType.ts"
import { attempt } from "../formats/Rendering.ts"
import type { RoutingTable } from "../routing/Router.ts"
import { type More, refusals } from "./Answers.ts"

/** The facts about a delivery before its body is decoded. */
export type Received = Omit<Event, "id" | "type" | "accountId" | "problem" | "altered">

export type Decision =
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

export const decide = (received: Received, webhook: Webhook, { router }: RoutingTable): Decision => {
  const decoded = Envelope.decode(received.body)
  if (Result.isFailure(decoded)) {
    const { problem } = decoded.failure
    if (webhook.undecodable === "reject") return { refusal: "undecodable", more: { why: problem } }
    return quarantinedFor(problem, { ...received, id: "", type: "", accountId: "" })
  }
  const envelope = decoded.success
  const { type } = envelope.data
  const event = { ...received, id: envelope.id, type, accountId: envelope.account_id }
  if (!isKnown(type)) {
    if (webhook.unknownTypes === "reject") return { refusal: "unknownType", more: { sent: type } }
    // Only the relay makes these types. From outside, they would look like the relay's own events.
    if (isRelayEvent(type)) return quarantinedFor("event types that begin with relay. are the relay's own", event)
    if (webhook.unknownTypes === "quarantine") return quarantinedFor("the event type is not in the catalogue", event)
  }
  const routed = attempt(() => router.route(webhook.name, envelope, () => Envelope.exact(received.body, envelope)))
  if (Result.isFailure(routed)) return quarantinedFor(routed.failure.message, event)
  return { event, sinks: routed.success, unredacted: Envelope.unredactedFields(envelope) }
}

/** The decision on a quarantined event: its sinks, or the reason why it `stays`, in words. */
export type Rerouted =
  | { readonly event: Event; readonly sinks: ReadonlyArray<string>; readonly stays?: undefined }
  | { readonly stays: string }

/**
 * Decides again on a quarantined event. Its signature is not verified again, because
 * the secret may have expired since.
 */
export const reroute = (kept: Event, table: RoutingTable<Webhook>): Rerouted => {
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
