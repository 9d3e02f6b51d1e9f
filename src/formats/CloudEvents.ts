/**
 * CloudEvents 1.0: an event's attributes, and the two modes to send them in.
 *
 * Binary: attributes as headers, and the signed bytes as the body, so a receiver
 * can verify them. Structured: one JSON document with the body in `data` as it
 * was written, or as base64 in `data_base64` if it isn't an envelope.
 *
 * `source` and `id` together identify an event (CloudEvents 1.0, "source"): the
 * webhook and the idempotency key, so a replayed event is another event.
 */
import type { Entry, Event } from "../event/Event.ts"
import { idempotencyKey } from "../event/IdempotencyKey.ts"
import { traceHeaders } from "../event/TraceContext.ts"
import * as Template from "./Template.ts"

// The headers of a message in addition to the signed bytes, if the receiver isn't an HTTP server.

export type Header = readonly [name: string, value: string]

/** Makes a text fit for a header, where not every text is. */
type Fit = (text: string) => string
const asItIs: Fit = (text) => text

/** The relay's facts about an event: its idempotency key, its id and its type. */
export const identity = (entry: Entry, fit = asItIs): Array<Header> => {
  const { id, type } = entry.event
  const headers: Array<Header> = [["idempotency-key", idempotencyKey(entry)]]
  if (id !== "") headers.push(["x-relay-event-id", fit(id)])
  if (type !== "") headers.push(["x-relay-event-type", fit(type)])
  return headers
}

const names = { signature: "x-service-signature", webhookId: "x-service-webhook-id" }

/** Headers that belong to each request or message, so another sender's are not passed on. */
const ours: ReadonlySet<string> = new Set(["authorization", "content-type", "host", "idempotency-key", "user-agent"])

type Signed = Pick<Event, "signature" | "webhookId"> & { readonly foreign?: Event["foreign"] | undefined }

/** Returns the headers that sign the bytes. The headers of another sender keep their names. */
export const signed = (event: Signed, { signature, webhookId } = names, fit = asItIs): Array<Header> => {
  if (event.foreign !== undefined) {
    const theirs = Object.entries(event.foreign.headers).filter(([name]) => !ours.has(name))
    return theirs.map(([name, value]) => [name, fit(value)])
  }
  const headers: Array<Header> = []
  if (event.signature !== "") headers.push([signature, event.signature])
  if (event.webhookId !== "") headers.push([webhookId, fit(event.webhookId)])
  return headers
}

/** These came with the bytes: the signature, if the bytes are sent and it can be verified again, the webhook's id, and the trace. */
export const provenance = ({ event }: Entry, fit = asItIs, isSigned = true): Array<Header> => {
  const headers = signed(isSigned ? event : { ...event, signature: "", foreign: undefined }, names, fit)
  headers.push(...traceHeaders(event))
  return headers
}

/** Attributes by name, without empty ones. */
type Attributes = Readonly<Record<string, string>>

/** The type of a signed body that isn't an envelope. */
export const untyped = "relay.undecodable"

const createdAt = Template.compile("{{created_at}}", "text")
const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/

/** Attributes hold no control characters and no lone surrogates (CloudEvents 1.0, "String"). */
export const clean = (text: string): string => text.toWellFormed().replace(/[\p{Cc}\p{Noncharacter_Code_Point}]/gu, " ")

/** The sender's `created_at`, or else when the event was received. */
export const time = (entry: Entry): string => {
  const text = createdAt.render(entry)
  return timestamp.test(text) && !Number.isNaN(Date.parse(text)) ? text : new Date(entry.event.receivedAt).toISOString()
}

export const contentType = ({ type }: Event): string => (type === "" ? "application/octet-stream" : "application/json")

export const attributes = (entry: Entry): Attributes => {
  const { event } = entry
  return {
    specversion: "1.0",
    id: idempotencyKey(entry),
    source: `/webhooks/${encodeURIComponent(event.webhook)}`,
    type: clean(event.type) || untyped,
    time: time(entry),
    ...(event.accountId !== "" && { accountid: clean(event.accountId) }),
    ...(event.webhookId !== "" && { webhookid: clean(event.webhookId) }),
  }
}

/** How a protocol writes attributes as headers. */
interface Binding {
  readonly prefix: string
  readonly escape: (value: string) => string
  /** The header of the body's type, if it is not `content-type`. */
  readonly contentType?: string
}

/** The HTTP binding: percent-encodes space, `"`, `%` and all characters that a header can't hold. */
export const http: Binding = {
  prefix: "ce-",
  escape: (value) => value.replace(/[^\x21\x23\x24\x26-\x7e]+/g, encodeURIComponent),
}

/** The NATS binding: `content-type` would mean the structured mode. */
export const nats: Binding = { ...http, contentType: "ce-datacontenttype" }

/** The Kafka binding: UTF-8. */
export const kafka: Binding = { prefix: "ce_", escape: (value) => value }

/** The headers of the binary mode; the body is the event's own. */
export const binary = (
  entry: Entry,
  { prefix, escape: escaped, contentType: name = "content-type" }: Binding,
): ReadonlyArray<readonly [string, string]> => [
  [name, contentType(entry.event)],
  ...Object.entries(attributes(entry)).map(([name, value]) => [`${prefix}${name}`, escaped(value)] as const),
]

/** An array of documents of the structured mode. */
export const batchedType = "application/cloudevents-batch+json; charset=utf-8"
export const structuredType = "application/cloudevents+json; charset=utf-8"

/** The document of the structured mode; `extensions` are attributes beside its own. */
export const structured = (entry: Entry, extensions: Attributes = {}): string => {
  const { event } = entry
  const head = JSON.stringify({ ...attributes(entry), ...extensions, datacontenttype: contentType(event) })
  // A typed event was decoded: its body is JSON, and stands here as the sender wrote it.
  const data =
    event.type === ""
      ? `"data_base64":"${Buffer.from(event.body).toString("base64")}"`
      : `"data":${Buffer.from(event.body).toString("utf8")}`
  return `${head.slice(0, -1)},${data}}`
}
