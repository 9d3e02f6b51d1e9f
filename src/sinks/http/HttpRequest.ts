/**
 * Encodes events as a request: the body in the sink's format, and the headers.
 *
 * `raw` and `cloudevents` send the sender's own signature with the bytes that it
 * signs. `sign` adds a signature of the relay (`Signing.ts`).
 */
import { Array as Arr, Effect, Redacted } from "effect"
import type { Entry } from "../../event/Entry.ts"
import { batchKey, groupKey } from "../../event/IdempotencyKey.ts"
import { traceHeaders } from "../../event/TraceContext.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import { displayBytes, rawLine, rawObject } from "../../formats/Rendering.ts"
import * as Template from "../../formats/Template.ts"
import * as HttpTransport from "../../runtime/HttpTransport.ts"
import type { Entries } from "../Rendered.ts"
import { previewed, signer } from "../Signing.ts"
import { type Failures, isFinal, masked, type Preview, passed, type Sink, type SinkError } from "../Sink.ts"
import type * as HttpAnswer from "./HttpAnswer.ts"
import { type HttpConfig, isBatched } from "./HttpConfig.ts"

// Several events in one request: an array of CloudEvents or of the signed bodies, or one body per line. **Guarantee.**
// If the receiver refuses a batch, its halves are sent, in their order, and so on. So only events that it refuses alone
// fail. Each half is a new request with its own key.

interface BatchBody {
  readonly type: string
  readonly body: (entries: Entries) => Buffer
}

const lineFeed = Buffer.from("\n")

const cloudEvent = (entry: Entry): string =>
  CloudEvents.structured(entry, Object.fromEntries(traceHeaders(entry.event)))

const array = (values: ReadonlyArray<string>): Buffer => Buffer.from(`[${values.join(",")}]`)

/** The body of a batch in the config's format. */
const bodyOf = ({ format }: Pick<HttpConfig, "format">): BatchBody => {
  switch (format) {
    case "json":
      return { type: "application/json", body: (entries) => array(entries.map(({ event }) => rawObject(event))) }
    case "ndjson":
      return {
        type: "application/x-ndjson",
        body: (entries) => Buffer.concat(entries.flatMap(({ event }) => [rawLine(event), lineFeed])),
      }
    default:
      return { type: CloudEvents.batchedType, body: (entries) => array(entries.map(cloudEvent)) }
  }
}

/** Sends a batch. If the receiver refuses it as a whole, sends its halves. */
export const inHalves = (send: (entries: Entries) => Effect.Effect<Failures, SinkError>): Sink["send"] => {
  const part = (entries: Entries): Effect.Effect<Failures, SinkError> =>
    Effect.catchIf(
      send(entries),
      (error) => isFinal(error) && entries.length > 1,
      () => halves(entries),
    )
  const halves = Effect.fnUntraced(function* (entries: Entries) {
    const middle = Math.ceil(entries.length / 2)
    const failures = new Map<number, SinkError>()
    let from = 0
    for (const half of [entries.slice(0, middle), entries.slice(middle)]) {
      if (!Arr.isReadonlyArrayNonEmpty(half)) continue
      const start = from
      from += half.length
      const failed = yield* Effect.match(part(half), {
        onSuccess: (failed) => failed,
        onFailure: (error): Failures => new Map(half.map((_, index) => [index, error])),
      })
      for (const [index, error] of failed) failures.set(start + index, error)
      // The receiver can't be reached or asks to wait, so the rest would fail the same way.
      const away = [...failed.values()].find((error) => !isFinal(error))
      if (away === undefined) continue
      for (let index = from; index < entries.length; index++) failures.set(index, away)
      break
    }
    return failures
  })
  return (entries) => (Arr.isReadonlyArrayNonEmpty(entries) ? part(entries) : passed)
}

export interface Encoded {
  readonly url: string
  readonly init: RequestInit
  /** The body. */
  readonly bytes: Uint8Array
}

/** Returns the request with an access token. */
export const bearing = ({ url, init, bytes }: Encoded, token: Redacted.Redacted<string>): Encoded => {
  const authorization = `Bearer ${Redacted.value(token)}`
  return { url, bytes, init: { ...init, headers: { ...Object.fromEntries(new Headers(init.headers)), authorization } } }
}

const utf8 = new TextEncoder()

/** The parts that an alert service adds: the body, and the meaning of an answer. */
export interface Service {
  readonly body: Template.Template
  readonly meaning: HttpAnswer.Meaning
  /** Parts of the body that are never shown. */
  readonly secrets?: unknown
}

type HeaderFields = Record<string, string>
/** The events of one request, and the last of them. */
interface Batch {
  readonly entries: Entries
  readonly entry: Entry
}

export const batchOf = (entries: Entries): Batch => ({ entry: entries.at(-1) ?? entries[0], entries })

/** Makes the body of a request, and adds the headers that go with it. */
type Payload = (batch: Batch, headers: HeaderFields) => Uint8Array

const identify = ({ event }: Entry, headers: HeaderFields): void => {
  if (event.id !== "") headers["x-relay-event-id"] = Template.escapeHeader(event.id)
  if (event.type !== "") headers["x-relay-event-type"] = Template.escapeHeader(event.type)
}

export const payloadOf = (config: HttpConfig, preset?: Template.Template): Payload => {
  const { format, mode, body, forward } = config
  if (isBatched(config)) {
    const batched = bodyOf(config)
    return ({ entries }, headers) => {
      headers["content-type"] = batched.type
      return batched.body(entries)
    }
  }
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
  /** These headers sign the body. */
  readonly signature: Readonly<HeaderFields>
}

/** `now` is the time of the attempt, in epoch milliseconds. */
type Encoder = (batch: Batch, now: number) => Rendered

export const encoder = (config: HttpConfig, payload: Payload): Encoder => {
  const url = Template.compile(Redacted.value(config.url), "url")
  const sign = config.sign && signer(config.sign)
  const isBatch = isBatched(config)
  const keyOf = isBatch ? batchKey : groupKey
  const given: HeaderFields = {}
  const rendered: Array<readonly [name: string, value: Template.Template]> = []
  for (const [name, value] of Object.entries(config.headers)) {
    const text = Redacted.value(value)
    if (Template.hasPlaceholder(text)) rendered.push([name.toLowerCase(), Template.compile(text, "header")])
    else given[name.toLowerCase()] = text
  }
  return (batch, now) => {
    const { entry, entries } = batch
    const id = keyOf(entries)
    const headers: HeaderFields = {
      "content-type": "application/json",
      "user-agent": HttpTransport.userAgent,
      "accept-encoding": "identity",
      "idempotency-key": id,
    }
    const bytes = payload(batch, headers) as Uint8Array<ArrayBuffer>
    const signature = sign?.(bytes, { id, at: now }) ?? {}
    Object.assign(headers, signature)
    // The events of a batch may be of several traces.
    if (!isBatch || entries.length === 1) {
      for (const [name, value] of traceHeaders(entry.event)) headers[name] = value
    }
    Object.assign(headers, given)
    for (const [name, value] of rendered) headers[name] = value.render(entry, entries)
    const init = { method: config.method, headers, body: bytes }
    return { url: url.render(entry, entries), headers, signature, bytes, init }
  }
}

/** Shows the request, without the URL, which may be a secret. */
export const preview = (
  config: HttpConfig,
  entries: ReadonlyArray<Entry>,
  preset?: Template.Template,
): ReadonlyArray<Preview> => {
  if (!Arr.isReadonlyArrayNonEmpty(entries)) return []
  const { headers, signature, bytes } = encoder(config, payloadOf(config, preset))(batchOf(entries), 0)
  // These two don't depend on the event.
  const { "user-agent": _, "accept-encoding": __, ...telling } = headers
  const token = config.oauth === undefined ? {} : { authorization: `Bearer ${masked}` }
  return [
    {
      method: config.method,
      headers: { ...telling, ...token, ...previewed(signature) },
      body: displayBytes(bytes),
    },
  ]
}
