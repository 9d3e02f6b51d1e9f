/** What a sink would be sent, made without sending: for `explain --payload` and the golden files of `test`. */
import { Result } from "effect"
import type { LaneConfig } from "../config/Config.ts"
import { fields as clientFields } from "../enrichment/Clients.ts"
import * as Envelope from "../event/Envelope.ts"
import type { Entry } from "../journal/Journal.ts"
import { masked } from "../sinks/Sink.ts"
import type { AnySinkType } from "../sinks/Sinks.ts"
import { sample } from "./Sample.ts"

/** When a sample happens: a golden file must be the same tomorrow. */
const then = Date.UTC(2026, 0, 15, 12)

/** The body of an event that is the same every time. */
export const fixedBody = (type: string, object?: Readonly<Record<string, unknown>>): Uint8Array =>
  new TextEncoder().encode(JSON.stringify(sample(type, then, { isFixed: true, ...(object && { object }) })))

/** An event with this body, as a lane would have it. It came by no request: it has no signature. */
const entryOf = (webhook: string, sink: string, body: Uint8Array): Entry => {
  const envelope = Result.getOrUndefined(Envelope.decode(body))
  return {
    sequence: 1,
    sinks: [sink],
    replayed: false,
    event: {
      id: envelope?.id ?? "",
      type: envelope?.data.type ?? "",
      accountId: envelope?.account_id ?? "",
      webhook,
      webhookId: "",
      signature: "",
      secret: "",
      receivedAt: then,
      body,
    },
  }
}

/** Where the client's details would stand: they are shown to nobody. */
const withMaskedClient = (body: Uint8Array): Uint8Array => {
  const envelope = Result.getOrUndefined(Envelope.decode(body))
  const client = Object.fromEntries(clientFields.map((field) => [field, masked]))
  return envelope === undefined ? body : new TextEncoder().encode(JSON.stringify({ ...envelope, client }))
}

/** The payload as JSON text; `undefined` where the sink's type can't tell. */
export const payloadOf = (
  { name, config, digest, key, enrich }: LaneConfig,
  type: AnySinkType | undefined,
  webhook: string,
  body: Uint8Array,
): string | undefined => {
  const entry = entryOf(webhook, name, enrich === undefined ? body : withMaskedClient(body))
  const previews = type?.preview?.(config, [entry], digest && key)
  return previews && JSON.stringify(previews.length === 1 ? previews[0] : previews, null, 2)
}
