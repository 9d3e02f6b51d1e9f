/**
 * SNS messages: their text, attributes and size, and how they are put into
 * requests.
 *
 * **Guarantee.** The text is the signed bytes wherever SNS accepts them. Bytes
 * that aren't UTF-8, or hold a character that XML doesn't allow, are sent as
 * base64 with the attribute `encoding`.
 *
 * **Gotcha.** SNS counts the names, types and values of attributes towards the
 * size, refuses empty texts and values, and passes at most ten attributes on to
 * a queue; with `encoding` and the trace there are ten.
 */
import { createHash } from "node:crypto"
import type { Entry } from "../../event/Entry.ts"
import { resource } from "../../event/EventType.ts"
import { idempotencyKey } from "../../event/IdempotencyKey.ts"
import { traceHeaders } from "../../event/TraceContext.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import * as Template from "../../formats/Template.ts"

/** The largest message, and the largest request, in bytes. */
export const largest = 256 * 1024
/** The most messages in a request. */
export const most = 10

export interface Message {
  /** The event's index in the lane's batch. */
  readonly index: number
  readonly text: string
  /** None is empty. */
  readonly attributes: Readonly<Record<string, string>>
  /** Bytes, as SNS counts them. */
  readonly size: number
  /** The message group and deduplication id, on a FIFO topic. */
  readonly fifo?: { readonly group: string; readonly deduplication: string }
}

/** The part of a config that shapes messages. */
export interface Shape {
  readonly format: "raw" | "cloudevents"
  /** The template of the message group on a FIFO topic. */
  readonly key: string
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

/** The text and its encoding; the encoding is empty where the text is the signed bytes. */
const textOf = (body: Uint8Array): readonly [text: string, encoding: string] => {
  // SNS refuses an empty text.
  if (body.length === 0) return ["empty", "empty"]
  const text = decoded(body)
  return text === undefined || refused.test(text) ? [Buffer.from(body).toString("base64"), "base64"] : [text, ""]
}

const everyRefused = new RegExp(refused, "gu")
/** Percent-encodes the characters that SNS refuses. */
const acceptable = (value: string): string =>
  value.replace(everyRefused, (character) => encodeURIComponent(character.toWellFormed()))

/** Group and deduplication ids are at most 128 characters of visible ASCII; any other value is hashed. */
const idOf = (value: string): string =>
  /^[\x21-\x7e]{1,128}$/.test(value) ? value : `sha256-${createHash("sha256").update(value).digest("hex")}`

const attributesOf = (entry: Entry, format: Shape["format"], encoding: string): Attributes => {
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
  return attributes
}

export const encoder = ({ format, key, isFifo }: Shape): ((entry: Entry, index: number) => Message) => {
  const group = Template.compile(key, "text")
  return (entry, index) => {
    const body = format === "raw" ? entry.event.body : Buffer.from(CloudEvents.structured(entry))
    const [text, encoding] = textOf(body)
    const attributes = attributesOf(entry, format, encoding)
    const size = Buffer.byteLength(text) + sizeOf(attributes)
    if (!isFifo) return { index, text, attributes, size }
    // Ids are unique within a webhook only.
    const deduplication = idOf(`${entry.event.webhook}:${idempotencyKey(entry)}`)
    // An event without a key is in a group of its own.
    return { index, text, attributes, size, fifo: { group: idOf(group.render(entry) || deduplication), deduplication } }
  }
}

/**
 * The messages of the next request: as many as fit, in order, and only one of
 * each group. A request may succeed in part, and nothing may overtake a failed
 * message of its group.
 */
export const next = (waiting: ReadonlyArray<Message>, atMost = most): ReadonlyArray<Message> => {
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
