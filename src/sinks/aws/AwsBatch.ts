/**
 * Sends a lane's batch in requests of ten. Each message has its own outcome.
 *
 * **Guarantee.** A request holds at most one message of a group, and nothing
 * overtakes a failed message of its group. With FIFO, events of one key stay in
 * order.
 */
import { createHash } from "node:crypto"
import { Duration, Effect } from "effect"
import type { Entry } from "../../event/Event.ts"
import { resource } from "../../event/EventType.ts"
import { idempotencyKey } from "../../event/IdempotencyKey.ts"
import { traceHeaders } from "../../event/TraceContext.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import { displayBytes } from "../../formats/Rendering.ts"
import * as Template from "../../formats/Template.ts"
import * as MessageKeys from "../MessageKeys.ts"
import { renderEach } from "../Rendered.ts"
import * as Signing from "../Signing.ts"
import { type Failures, isFinal, type SinkError } from "../Sink.ts"
import * as AwsErrors from "./AwsErrors.ts"

/** The most messages in a request. */
const most = 10

/** The limits of a lane's batch, which is one request: `largest` is in bytes. */
export const limits = (largest: number, { linger }: { readonly linger: Duration.Duration }) => ({
  maxEvents: most,
  maxBytes: largest,
  linger: Duration.toMillis(linger),
})

/** This part of a message decides which request it goes with. */
export interface Sized {
  /** The event's index in the lane's batch. */
  readonly index: number
  /** Bytes, as the service counts them. */
  readonly size: number
  /** It is set if the service keeps order by groups. */
  readonly fifo?: { readonly group: string }
}

/**
 * Returns the messages of the next request: as many as fit, in order, and at most
 * one per group. A request may succeed in part, and nothing may overtake a failed
 * message of its group.
 */
export const next = <Message extends Sized>(
  waiting: ReadonlyArray<Message>,
  largest: number,
  atMost = most,
): ReadonlyArray<Message> => {
  const request: Array<Message> = []
  const groups = new Set<string>()
  let bytes = 0
  for (const message of waiting) {
    if (request.length === atMost) break
    if (message.fifo !== undefined) {
      if (groups.has(message.fifo.group)) continue
      groups.add(message.fifo.group)
    }
    if (request.length > 0 && bytes + message.size > largest) break
    request.push(message)
    bytes += message.size
  }
  return request
}

/** Why a message must wait: an earlier message of its group failed and is retried. */
const ahead = (
  { fifo }: Sized,
  request: ReadonlyArray<Sized>,
  failed: ReadonlyMap<number, SinkError>,
): SinkError | undefined => {
  if (fifo === undefined || failed.size === 0) return undefined
  const first = request.find((message) => message.fifo?.group === fifo.group)
  const error = first && failed.get(first.index)
  return error !== undefined && !isFinal(error) ? error : undefined
}

interface Sending<Message extends Sized> {
  readonly place: AwsErrors.Place
  readonly format: string
  /** The largest message, and the largest request, in bytes. */
  readonly largest: number
  readonly encode: (entry: Entry, index: number) => Message
  /** Sends one request. Returns the failures by index in the lane's batch. */
  readonly publish: (request: ReadonlyArray<Message>) => Effect.Effect<Failures, SinkError>
}

export const send = Effect.fnUntraced(function* <Message extends Sized>(
  batch: ReadonlyArray<Entry>,
  { place, format, largest, encode, publish }: Sending<Message>,
) {
  const failures = new Map<number, SinkError>()
  const smaller = MessageKeys.smaller({ format })
  const unfit = ({ size }: Message) => (size > largest ? AwsErrors.tooLarge(place, size, largest, smaller) : undefined)
  let waiting = renderEach(batch, encode, failures, unfit).map(({ message }) => message)
  let atMost = most
  while (waiting.length > 0) {
    const request = next(waiting, largest, atMost)
    const answer = yield* Effect.result(publish(request))
    if (answer._tag === "Failure" && isFinal(answer.failure) && request.length > 1) {
      // One message may be the cause, so each is sent alone from here on.
      atMost = 1
      continue
    }
    const failed =
      answer._tag === "Success" ? answer.success : new Map(request.map(({ index }) => [index, answer.failure]))
    for (const [index, error] of failed) failures.set(index, error)
    const stop = answer._tag === "Failure" && !isFinal(answer.failure) ? answer.failure : undefined
    waiting = waiting.filter((message) => {
      if (request.includes(message)) return false
      const error = stop ?? ahead(message, request, failed)
      if (error !== undefined) failures.set(message.index, error)
      return error === undefined
    })
  }
  return failures
})

/** The answer to a batch of SNS or SQS. */
interface Answer {
  readonly Successful?: ReadonlyArray<{ readonly Id?: string | undefined }> | undefined
  readonly Failed?:
    | ReadonlyArray<{
        readonly Id?: string | undefined
        readonly Code?: string | undefined
        readonly Message?: string | undefined
        readonly SenderFault?: boolean | undefined
      }>
    | undefined
}

/**
 * Returns the failures of a request. The id of an entry is its index. An entry that
 * the answer doesn't name has failed.
 */
export const failuresOf = (
  request: ReadonlyArray<Sized>,
  { Successful, Failed }: Answer,
  place: AwsErrors.Place,
): Effect.Effect<Failures, SinkError> => {
  if (Successful === undefined && Failed === undefined) return Effect.fail(AwsErrors.notTheService(place))
  const passed = new Set(Successful?.map(({ Id }) => Id))
  const failures = new Map<number, SinkError>()
  for (const { index } of request) {
    const id = String(index)
    if (passed.has(id)) continue
    const failed = Failed?.find(({ Id }) => Id === id)
    failures.set(
      index,
      failed === undefined
        ? AwsErrors.unnamed(place)
        : AwsErrors.entryErrorOf(
            { code: failed.Code, detail: failed.Message, senderFault: failed.SenderFault ?? false },
            place,
          ),
    )
  }
  return Effect.succeed(failures)
}

/** An estimate of the bytes around an event's body. */
const overhead = 1_024

/** Warns if the relay accepts larger bodies than the service. */
export const sizeAdvice = (taker: string, largest: number, maxBody: number): ReadonlyArray<string> =>
  maxBody + overhead > largest
    ? [
        `${taker} takes ${largest} bytes at most, all that goes along included, and a delivery may have ${maxBody}: an event that is too large becomes a dead letter; lower the webhook's maxBody, or send large events to another sink`,
      ]
    : []

// Messages of SNS and SQS: their text, attributes and size.
// **Guarantee.** The text is the signed bytes wherever both accept them. Bytes that aren't UTF-8, or hold a character
// that XML doesn't allow, are sent as base64 with the attribute `encoding`.
// **Gotcha.** Both services count the names, types and values of attributes towards the size, and refuse empty texts
// and values. A message in a queue has at most ten attributes. With `encoding` and the trace it has exactly ten.

export interface Message extends Sized {
  readonly text: string
  /** No value is empty. */
  readonly attributes: Readonly<Record<string, string>>
  /** The message group and deduplication id, with FIFO. */
  readonly fifo?: { readonly group: string; readonly deduplication: string }
}

/** The part of a config that shapes messages. */
interface Shape {
  readonly format: "raw" | "cloudevents" | "template"
  readonly body?: unknown
  readonly attributes?: Readonly<Record<string, Template.Text>>
  readonly sign?: Signing.SignatureConfig
  /** The template of the message group with FIFO. */
  readonly key: Template.Text
  readonly isFifo: boolean
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
/** SNS and SQS accept the characters of XML 1.0. */
const refused = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u

type Attributes = Record<string, string>
const stringType = "String"

const sizeOf = (attributes: Attributes): number => {
  let bytes = 0
  for (const [name, value] of Object.entries(attributes)) {
    bytes += name.length + stringType.length + Buffer.byteLength(value)
  }
  return bytes
}

const decoded = (body: Uint8Array): string | undefined => {
  try {
    return utf8.decode(body)
  } catch {
    return undefined
  }
}

/** The text and its encoding. The encoding is empty if the text is the signed bytes. */
const textOf = (body: Uint8Array): readonly [text: string, encoding: string] => {
  // An empty text is refused.
  if (body.length === 0) return ["empty", "empty"]
  const text = decoded(body)
  return text === undefined || refused.test(text) ? [Buffer.from(body).toString("base64"), "base64"] : [text, ""]
}

const everyRefused = new RegExp(refused, "gu")
/** Percent-encodes the characters that are refused. */
const acceptable = (value: string): string =>
  value.replace(everyRefused, (character) => encodeURIComponent(character.toWellFormed()))

/** Group and deduplication ids are at most 128 characters of visible ASCII; any other value is hashed. */
const idOf = (value: string): string =>
  /^[\x21-\x7e]{1,128}$/.test(value) ? value : `sha256-${createHash("sha256").update(value).digest("hex")}`

/** The relay's attributes that are left out of a message with more than ten, in this order. */
const spare = ["tracestate", "traceparent", "resource", "webhook_id", "account_id", "type", "event_id"]

const attributesOf = (entry: Entry, format: Shape["format"], encoding: string, own: Attributes): Attributes => {
  const { event } = entry
  const named = [
    ["type", event.type],
    ["resource", resource(event.type)],
    ["account_id", event.accountId],
    ["event_id", event.id],
    ["idempotency_key", idempotencyKey(entry)],
    ["webhook_id", event.webhookId],
    // It signs the original bytes, which a CloudEvent doesn't hold as they are.
    ["signature", format === "raw" ? event.signature : ""],
    ["encoding", encoding],
    ...traceHeaders(event),
  ] as const
  const attributes: Attributes = {}
  for (const [name, value] of named) if (value !== "") attributes[name] = acceptable(value)
  for (const [name, value] of Object.entries(own)) if (value !== "") attributes[name] = acceptable(value)
  let surplus = Object.keys(attributes).length - most
  for (const name of spare) {
    if (surplus <= 0) break
    if (name in own || !(name in attributes)) continue
    delete attributes[name]
    surplus -= 1
  }
  return attributes
}

/** Returns a function that makes the attributes that the config asks for. Each attribute of a signature is as a header of it. */
const ownAttributes = ({ attributes = {}, sign }: Shape, now?: () => number) => {
  const templates = Object.entries(attributes).map(
    ([name, value]) => [name, Template.compile(value, "text", `attributes.${name}`)] as const,
  )
  const signed = sign && Signing.bodySigner(sign, now)
  return (entry: Entry, body: Uint8Array): Attributes => {
    const own: Attributes = { ...signed?.(body, idempotencyKey(entry)) }
    for (const [name, value] of templates) own[name] = value.render(entry)
    return own
  }
}

/** Returns a function that makes messages. That function throws if a template throws. `now` is as for `Signing.bodySigner`. */
export const encoder = (config: Shape, now?: () => number): ((entry: Entry, index: number) => Message) => {
  const { format, isFifo } = config
  const group = Template.compile(config.key, "key")
  const bodyOf = MessageKeys.bodyOf(config)
  const ownOf = ownAttributes(config, now)
  return (entry, index) => {
    const body = format === "cloudevents" ? Buffer.from(CloudEvents.structured(entry)) : bodyOf(entry)
    const [text, encoding] = textOf(body)
    const attributes = attributesOf(entry, format, encoding, ownOf(entry, body))
    const size = Buffer.byteLength(text) + sizeOf(attributes)
    if (!isFifo) return { index, text, attributes, size }
    // Ids are unique within a webhook only.
    const deduplication = idOf(`${entry.event.webhook}:${idempotencyKey(entry)}`)
    // An event without a key is in a group of its own.
    return { index, text, attributes, size, fifo: { group: idOf(group.render(entry) || deduplication), deduplication } }
  }
}

/** Makes the fields of a request's entry other than its text, in the SDK's form. The id is the event's index in the lane's batch. */
export const entryOf = ({ index, attributes, fifo }: Message) => ({
  Id: String(index),
  MessageAttributes: Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [name, { DataType: stringType, StringValue: value }]),
  ),
  ...(fifo && { MessageGroupId: fifo.group, MessageDeduplicationId: fifo.deduplication }),
})

/** The form of a message in a preview. */
export const shown = ({ text, attributes, fifo }: Message) => ({
  ...(fifo && { messageGroupId: fifo.group, messageDeduplicationId: fifo.deduplication }),
  attributes,
  message: displayBytes(Buffer.from(text)),
})
