/**
 * Messages of SNS and SQS: their text, attributes and size.
 *
 * **Guarantee.** The text is the signed bytes wherever both accept them. Bytes
 * that aren't UTF-8, or hold a character that XML doesn't allow, are sent as
 * base64 with the attribute `encoding`.
 *
 * **Gotcha.** Both count the names, types and values of attributes towards the
 * size and refuse empty texts and values; a queue has at most ten attributes of a
 * message, and with `encoding` and the trace there are ten.
 */
import { createHash } from "node:crypto"
import type { Entry } from "../../event/Entry.ts"
import { resource } from "../../event/EventType.ts"
import { idempotencyKey } from "../../event/IdempotencyKey.ts"
import { traceHeaders } from "../../event/TraceContext.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import * as DisplayBytes from "../../formats/DisplayBytes.ts"
import * as Template from "../../formats/Template.ts"
import type { Sized } from "./AwsBatch.ts"

export interface Message extends Sized {
  readonly text: string
  /** None is empty. */
  readonly attributes: Readonly<Record<string, string>>
  /** The message group and deduplication id, with FIFO. */
  readonly fifo?: { readonly group: string; readonly deduplication: string }
}

/** The part of a config that shapes messages. */
export interface Shape {
  readonly format: "raw" | "cloudevents"
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

/** The text and its encoding; the encoding is empty where the text is the signed bytes. */
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
  const group = Template.compile(key, "key")
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

/** Makes all that an entry of a request has beside its text, as the SDK takes it. The id is the event's index in the lane's batch. */
export const entryOf = ({ index, attributes, fifo }: Message) => ({
  Id: String(index),
  MessageAttributes: Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [name, { DataType: stringType, StringValue: value }]),
  ),
  ...(fifo && { MessageGroupId: fifo.group, MessageDeduplicationId: fifo.deduplication }),
})

/** A message is shown so. */
export const shown = ({ text, attributes, fifo }: Message) => ({
  ...(fifo && { messageGroupId: fifo.group, messageDeduplicationId: fifo.deduplication }),
  attributes,
  message: DisplayBytes.show(Buffer.from(text)),
})
