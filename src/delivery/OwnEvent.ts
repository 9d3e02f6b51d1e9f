/** Builds the relay's own events. They use the sender's envelope, so that sinks need no second format. */
import { Option, Schema } from "effect"
import type { Event } from "../event/Event.ts"
import type { RelayEventType } from "../event/EventType.ts"

/** The webhook name that the relay's own events carry. */
export const ownWebhook = "relay"

/** The data of an own event. It holds no secrets and no payloads. */
export type Facts = Readonly<Record<string, string | number | boolean>>

/** An identity that is the same each time the event is emitted, so that the journal drops repeats as duplicates. */
export interface Once {
  readonly key: string
  /** When it happened, in epoch milliseconds. */
  readonly at: number
}

const Envelope = Schema.fromJsonString(
  Schema.Struct({
    data: Schema.Struct({
      object: Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Finite, Schema.Boolean])),
    }),
  }),
)

/** Makes an own event from its facts. */
export const eventOf = (type: RelayEventType, facts: Facts, now: number, once?: Once): Event => {
  const id = `evt_relay_${once?.key ?? crypto.randomUUID()}`
  const envelope = {
    id,
    account_id: "",
    version: "1",
    created_at: `${new Date(once?.at ?? now).toISOString().slice(0, 19)}Z`,
    data: { type, object: facts },
  }
  return {
    id,
    type,
    accountId: "",
    webhook: ownWebhook,
    webhookId: "",
    signature: "",
    secret: "",
    receivedAt: now,
    body: new TextEncoder().encode(JSON.stringify(envelope)),
  }
}

/** Reads the facts from the body of an own event. Returns no facts for any other body. */
export const factsOf = (body: Uint8Array): Facts =>
  Option.getOrElse(Schema.decodeOption(Envelope)(new TextDecoder().decode(body)), () => ({ data: { object: {} } })).data
    .object
