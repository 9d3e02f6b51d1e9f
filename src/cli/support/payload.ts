/** What a sink would be sent, made without sending: for `explain --payload` and the golden files of `test`. */
import { Result } from "effect"
import { render } from "../../admin/PayloadPreviews.ts"
import type { LaneConfig } from "../../config/Config.ts"
import type { Entry } from "../../event/Entry.ts"
import * as Envelope from "../../event/Envelope.ts"
import type { AnySinkType } from "../../sinks/Sinks.ts"
import { sample } from "./sample.ts"

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

/** The payload as JSON text; `undefined` where the sink's type can't tell. */
export const payloadOf = (
  lane: LaneConfig,
  type: AnySinkType | undefined,
  webhook: string,
  body: Uint8Array,
): string | undefined => {
  const payload = render(lane, type, entryOf(webhook, lane.name, body))
  return payload && JSON.stringify(payload, null, 2)
}
