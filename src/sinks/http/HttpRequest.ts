/**
 * Encodes events as a request: the body in the sink's format, and the headers.
 *
 * `raw` and `cloudevents` send the sender's own signature with the bytes that it
 * signs. `sign` adds a signature of the relay (`Signing.ts`).
 */
import { Array as Arr, Effect, Redacted } from "effect"
import type { Entry } from "../../event/Event.ts"
import { batchKey, groupKey } from "../../event/IdempotencyKey.ts"
import { traceHeaders } from "../../event/TraceContext.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import { displayBytes, rawLine, rawObject } from "../../formats/Rendering.ts"
import * as Template from "../../formats/Template.ts"
import * as HttpTransport from "../../runtime/HttpTransport.ts"
import * as Alert from "../alerts/Alert.ts"
import type { Entries } from "../Rendered.ts"
import { previewed, signer } from "../Signing.ts"
import { type Failures, isFinal, masked, type Preview, passed, type Sink, type SinkError } from "../Sink.ts"
import type * as HttpAnswer from "./HttpAnswer.ts"
import { type HttpConfig, headerText, isBatched, ofAction } from "./HttpConfig.ts"

// Several events in one request: an array of CloudEvents or of the signed bodies, or one body per line. **Guarantee.**
// If the receiver refuses a batch, its halves are sent, the first one first. Each half is a new request with its own
// key. A refused half is halved again, so the receiver rejects only events that it refuses alone.

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

/** The parts that an alert service adds: the alert of its events, the body, and the meaning of an answer. */
export interface Service {
  readonly alertOf: (entries: Entries) => Alert.Alert
  readonly body: (alert: Alert.Alert, now: number) => string
  readonly meaning: HttpAnswer.Meaning
  /** Parts of the body that are never shown. */
  readonly secrets?: unknown
  /** Absent if each message is one request, whose answer is of no use. */
  readonly conversation?: Conversation
}

/** Sends a request to a path below the service's URL, and returns the text of the answer that means success. */
export type Ask = (path: string, body: object, meaning: HttpAnswer.Meaning) => Effect.Effect<string, SinkError>

/** The requests of a service that needs several for a message, or that returns a reference to it. */
export interface Conversation {
  /** Sends the message of an alert. Returns the service's reference to it, if the alert has a policy. */
  readonly send: (alert: Alert.Alert, ask: Ask) => Effect.Effect<string | undefined, SinkError>
  /** Tests the credentials. */
  readonly check: (ask: Ask) => Effect.Effect<unknown, SinkError>
  /** The requests of a message, for people. */
  readonly preview: (alert: Alert.Alert) => ReadonlyArray<readonly [path: string, body: object]>
}

type HeaderFields = Record<string, string>
/** The events of one request, the last of them, their alert, and when the attempt is made, in epoch milliseconds. */
interface Batch {
  readonly entries: Entries
  readonly entry: Entry
  readonly alert: () => Alert.Alert
  readonly now: number
}

const batchOf = (entries: Entries, alertOf: Service["alertOf"], now: number): Batch => {
  let alert: Alert.Alert | undefined
  return { entry: entries.at(-1) ?? entries[0], entries, alert: () => (alert ??= alertOf(entries)), now }
}

/** Makes the body of a request, and adds the headers that go with it. */
type Payload = (batch: Batch, headers: HeaderFields) => Uint8Array

const identify = ({ event }: Entry, headers: HeaderFields): void => {
  if (event.id !== "") headers["x-relay-event-id"] = Template.escapeHeader(event.id)
  if (event.type !== "") headers["x-relay-event-type"] = Template.escapeHeader(event.type)
}

/** `at` is the key of the body in the config. */
const payloadOf = (config: HttpConfig, at: string, service?: Service): Payload => {
  const { format, mode, body, forward } = config
  if (isBatched(config)) {
    const batched = bodyOf(config)
    return ({ entries }, headers) => {
      headers["content-type"] = batched.type
      return batched.body(entries)
    }
  }
  if (format === "template") {
    const { render } = Template.compileBody(body, at)
    const bodyOf = service?.body
    return ({ entry, entries, alert, now }, headers) => {
      identify(entry, headers)
      return utf8.encode(bodyOf === undefined ? render(entry, entries, alert) : bodyOf(alert(), now))
    }
  }
  if (mode === "structured") {
    return ({ entry }, headers) => {
      headers["content-type"] = CloudEvents.structuredType
      return utf8.encode(CloudEvents.structured(entry))
    }
  }
  return ({ entry }, headers) => {
    const { event } = entry
    if (format === "raw") identify(entry, headers)
    else for (const [name, value] of CloudEvents.binary(entry, CloudEvents.http)) headers[name] = value
    for (const [name, value] of CloudEvents.signed(event, forward, Template.escapeHeader)) headers[name] = value
    return event.body
  }
}

/** A request and its parts. */
export interface Rendered extends Encoded {
  readonly headers: HeaderFields
  /** These headers sign the body. */
  readonly signature: Readonly<HeaderFields>
}

type Encoder = (batch: Batch) => Rendered

const encoder = (config: HttpConfig, payload: Payload): Encoder => {
  const url = Template.compile(Redacted.value(config.url), "url")
  const sign = config.sign && signer(config.sign)
  const isBatch = isBatched(config)
  const keyOf = isBatch ? batchKey : groupKey
  const given: HeaderFields = {}
  const rendered: Array<readonly [name: string, value: Template.Template]> = []
  for (const [name, value] of Object.entries(config.headers)) {
    const text = headerText(value)
    if (Template.isConstant(text)) given[name.toLowerCase()] = text
    else rendered.push([name.toLowerCase(), Template.compile(text, "header", `headers.${name}`)])
  }
  return (batch) => {
    const { entry, entries, alert, now } = batch
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
    for (const [name, value] of rendered) headers[name] = value.render(entry, entries, alert)
    const init = { method: config.method, headers, body: bytes }
    return { url: url.render(entry, entries, alert), headers, signature, bytes, init }
  }
}

/** Makes the alert of a sink's events. */
const alerting = ({ resolve, dedupKey }: HttpConfig): Service["alertOf"] => {
  const alertOf = Alert.compile({
    resolve: resolve !== undefined,
    ...(dedupKey !== undefined && { dedupKey }),
    objectId: Alert.usualObjectId,
    details: {},
  })
  return (entries) => alertOf(Alert.groupOf(entries, resolve !== undefined))
}

/** The requests of a sink for an action of its alerts. */
interface Requests {
  /** The sink's config, with the action's own keys. */
  readonly config: HttpConfig
  readonly encode: (entries: Entries, now: number) => Rendered
}

/** Returns a function that finds the requests for events. A sink without `resolve` has one kind of requests. */
export const requestsOf = <A>(config: HttpConfig, service: Service | undefined, use: (requests: Requests) => A) => {
  const alertOf = service?.alertOf ?? alerting(config)
  const of = (action: Alert.Action) => {
    const own = ofAction(config, action)
    const at = config[action]?.body === undefined ? "body" : `${action}.body`
    const encode = encoder(own, payloadOf(own, at, service))
    return use({ config: own, encode: (entries, now) => encode(batchOf(entries, alertOf, now)) })
  }
  const trigger = of("trigger")
  const actions = {
    trigger,
    update: config.update === undefined ? trigger : of("update"),
    resolve: config.resolve === undefined ? trigger : of("resolve"),
  }
  return { ...actions, of: (entries: Entries) => actions[Alert.actionOf(entries, config.resolve !== undefined)] }
}

/** Shows the request at the time of the last event, without the URL, which may be a secret. */
export const preview = (
  config: HttpConfig,
  entries: ReadonlyArray<Entry>,
  service?: Service,
): ReadonlyArray<Preview> => {
  if (!Arr.isReadonlyArrayNonEmpty(entries)) return []
  const requests = requestsOf(config, service, (requests) => requests).of(entries)
  const { headers, signature, bytes } = requests.encode(entries, (entries.at(-1) ?? entries[0]).event.receivedAt)
  // These two don't depend on the event.
  const { "user-agent": _, "accept-encoding": __, ...telling } = headers
  const token = config.oauth === undefined ? {} : { authorization: `Bearer ${masked}` }
  const { method } = requests.config
  const shown = { ...telling, ...token, ...previewed(signature) }
  const several = service?.conversation?.preview(service.alertOf(entries))
  return (
    several?.map(([path, body]) => ({ method, path, headers: shown, body })) ?? [
      { method, headers: shown, body: displayBytes(bytes) },
    ]
  )
}
