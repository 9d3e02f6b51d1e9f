/**
 * Encodes events as a request: the body in the sink's format, and the headers.
 *
 * `raw` and `cloudevents` send the sender's own
 * signature along with the bytes that it signs. `sign` adds one of ours in the
 * same form (webhook interface, section 5.1): `sha256=` and the HMAC-SHA256 of
 * the body that is sent, in 64 uppercase hexadecimal digits. One piece of code
 * verifies both.
 */
import { Redacted } from "effect"
import type { Entry } from "../../event/Entry.ts"
import { idempotencyKey } from "../../event/IdempotencyKey.ts"
import { hmacSha256, sign } from "../../event/Signature.ts"
import { traceHeaders } from "../../event/TraceContext.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import * as DisplayBytes from "../../formats/DisplayBytes.ts"
import * as Template from "../../formats/Template.ts"
import * as HttpTransport from "../../runtime/HttpTransport.ts"
import { masked, type Preview } from "../Sink.ts"
import type * as HttpAnswer from "./HttpAnswer.ts"
import type { HttpConfig } from "./HttpConfig.ts"

export interface Encoded {
  readonly url: string
  readonly init: RequestInit
}

const utf8 = new TextEncoder()

/** What an alert service has of its own: the body, and what an answer means. */
export interface Service {
  readonly body: Template.Template
  readonly meaning: HttpAnswer.Meaning
  /** What it sends in the body and is never shown. */
  readonly secrets?: unknown
}

type HeaderFields = Record<string, string>
/** The events of one request, oldest first, and the last of them. */
export interface Batch {
  readonly entries: ReadonlyArray<Entry>
  readonly entry: Entry
}

export const batchOf = (entries: ReadonlyArray<Entry>): Batch | undefined => {
  const entry = entries.at(-1)
  return entry && { entry, entries }
}

/** Makes the body of a request, and adds the headers that go with it. */
type Payload = (batch: Batch, headers: HeaderFields) => Uint8Array

const identify = ({ event }: Entry, headers: HeaderFields): void => {
  if (event.id !== "") headers["x-relay-event-id"] = Template.escapeHeader(event.id)
  if (event.type !== "") headers["x-relay-event-type"] = Template.escapeHeader(event.type)
}

export const payloadOf = ({ format, mode, body, forward }: HttpConfig, preset?: Template.Template): Payload => {
  const template = preset ?? (format === "template" ? Template.compileBody(body) : undefined)
  if (template !== undefined) {
    return ({ entry, entries }, headers) => {
      identify(entry, headers)
      return utf8.encode(template.render(entry, entries))
    }
  }
  if (mode === "structured") {
    return ({ entry }, headers) => {
      headers["content-type"] = CloudEvents.structuredType
      return utf8.encode(CloudEvents.structured(entry))
    }
  }
  const { signature, webhookId } = forward
  return ({ entry }, headers) => {
    const { event } = entry
    if (format === "raw") identify(entry, headers)
    else for (const [name, value] of CloudEvents.binary(entry, CloudEvents.http)) headers[name] = value
    if (event.signature !== "") headers[signature] = event.signature
    if (event.webhookId !== "") headers[webhookId] = Template.escapeHeader(event.webhookId)
    return event.body
  }
}

/** A request and its parts. */
interface Rendered extends Encoded {
  readonly headers: HeaderFields
  readonly bytes: Uint8Array
}

/** The idempotency key. A digest is retried with the same events, so it has a key of its own. */
const requestKey = ({ entry, entries }: Batch): string =>
  entries.length > 1 && entries[0] !== undefined
    ? `${idempotencyKey(entries[0])}:digest:${entries.length}`
    : idempotencyKey(entry)

export const encoder = (config: HttpConfig, payload: Payload): ((batch: Batch) => Rendered) => {
  const url = Template.compile(Redacted.value(config.url), "url")
  const own = config.sign && { header: config.sign.header, hmac: hmacSha256(Redacted.value(config.sign.secret)) }
  const given: HeaderFields = {}
  const rendered: Array<readonly [name: string, value: Template.Template]> = []
  for (const [name, value] of Object.entries(config.headers)) {
    const text = Redacted.value(value)
    if (Template.hasPlaceholder(text)) rendered.push([name.toLowerCase(), Template.compile(text, "header")])
    else given[name.toLowerCase()] = text
  }
  return (batch) => {
    const { entry, entries } = batch
    const headers: HeaderFields = {
      "content-type": "application/json",
      "user-agent": HttpTransport.userAgent,
      "accept-encoding": "identity",
      "idempotency-key": requestKey(batch),
    }
    const bytes = payload(batch, headers) as Uint8Array<ArrayBuffer>
    if (own !== undefined) headers[own.header] = sign(own.hmac, bytes)
    for (const [name, value] of traceHeaders(entry.event)) headers[name] = value
    Object.assign(headers, given)
    for (const [name, value] of rendered) headers[name] = value.render(entry, entries)
    const init = { method: config.method, headers, body: bytes }
    return { url: url.render(entry, entries), headers, bytes, init }
  }
}

/** What would be sent, without the URL: it may be a secret. */
export const preview = (
  config: HttpConfig,
  entries: ReadonlyArray<Entry>,
  preset?: Template.Template,
): ReadonlyArray<Preview> => {
  const batch = batchOf(entries)
  if (batch === undefined) return []
  const { headers, bytes } = encoder(config, payloadOf(config, preset))(batch)
  // These two don't depend on the event.
  const { "user-agent": _, "accept-encoding": __, ...telling } = headers
  // The secret is masked, so a signature made with it would be wrong.
  const signature = config.sign === undefined ? {} : { [config.sign.header]: masked }
  return [{ method: config.method, headers: { ...telling, ...signature }, body: DisplayBytes.show(bytes) }]
}
