/** The headers that a message has beside the signed bytes, where the receiver is no HTTP server. */
import type { Entry } from "../event/Entry.ts"
import { idempotencyKey } from "../event/IdempotencyKey.ts"
import { traceHeaders } from "../event/TraceContext.ts"

export type Header = readonly [name: string, value: string]

/** Makes a text fit for a header, where not every text is. */
type Fit = (text: string) => string
const asItIs: Fit = (text) => text

/** The relay says this of an event: by which key a repeat is known, its id and its type. */
export const identity = (entry: Entry, fit = asItIs): Array<Header> => {
  const { id, type } = entry.event
  const headers: Array<Header> = [["idempotency-key", idempotencyKey(entry)]]
  if (id !== "") headers.push(["x-relay-event-id", fit(id)])
  if (type !== "") headers.push(["x-relay-event-type", fit(type)])
  return headers
}

/** These came with the bytes: the signature, so that it can be verified again, the webhook's id, and the trace. */
export const provenance = ({ event }: Entry, fit = asItIs): Array<Header> => {
  const headers: Array<Header> = []
  if (event.signature !== "") headers.push(["x-service-signature", event.signature])
  if (event.webhookId !== "") headers.push(["x-service-webhook-id", fit(event.webhookId)])
  headers.push(...traceHeaders(event))
  return headers
}
