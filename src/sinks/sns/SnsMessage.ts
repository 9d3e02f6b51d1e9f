/**
 * An event as a message of SNS: what it says, what it weighs, and how messages
 * go together into requests.
 *
 * **Promise.** A message's text is the bytes that were signed wherever SNS
 * takes them as text. Where it does not, because they are no UTF-8 or hold a
 * character that XML can't, it is their base64 and the attribute `encoding`
 * says so.
 *
 * **Trap.** SNS counts names, types and values of the attributes with the text,
 * refuses a text or a value that is empty, and hands no more than ten
 * attributes on to a queue: with `encoding` and the trace there are ten.
 */
import { createHash } from "node:crypto"
import type { Entry } from "../../event/Entry.ts"
import { resource } from "../../event/EventType.ts"
import { idempotencyKey } from "../../event/IdempotencyKey.ts"
import { traceHeaders } from "../../event/TraceContext.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import * as Template from "../../formats/Template.ts"

/** Bytes of a message, and of all messages of a request, at most. */
export const largest = 256 * 1024
/** Messages of a request at most. */
export const most = 10

export interface Message {
  /** Where its event stands in the lane's batch. */
  readonly index: number
  readonly text: string
  /** All of them strings, none of them empty. */
  readonly attributes: Readonly<Record<string, string>>
  /** Bytes, as SNS counts them. */
  readonly size: number
  /** Set where the topic is FIFO: what is kept in order, and what tells a duplicate. */
  readonly fifo?: { readonly group: string; readonly deduplication: string }
}

/** What a config decides about messages. */
export interface Shape {
  readonly format: "raw" | "cloudevents"
  /** A template: the group of a message, where the topic is FIFO. */
  readonly key: string
  readonly isFifo: boolean
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
/** The characters of XML 1.0 are those that SNS and SQS take. */
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

/** The text, and how it is written; `""` where it is the bytes themselves. */
const textOf = (body: Uint8Array): readonly [text: string, encoding: string] => {
  // A text that is empty is refused, so nothing needs a word too.
  if (body.length === 0) return ["empty", "empty"]
  const text = decoded(body)
  return text === undefined || refused.test(text) ? [Buffer.from(body).toString("base64"), "base64"] : [text, ""]
}

const everyRefused = new RegExp(refused, "gu")
/** A value with what SNS refuses percent-encoded. */
const acceptable = (value: string): string =>
  value.replace(everyRefused, (character) => encodeURIComponent(character.toWellFormed()))

/** Group and deduplication ids hold up to 128 characters of visible ASCII; of others, their hash. */
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
    // Over bytes that a CloudEvent is not.
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
    // Ids are unique within a webhook: an event that comes by two of them is sent twice, here as anywhere.
    const deduplication = idOf(`${entry.event.webhook}:${idempotencyKey(entry)}`)
    // An event without a key keeps no order with any other.
    return { index, text, attributes, size, fifo: { group: idOf(group.render(entry) || deduplication), deduplication } }
  }
}

/**
 * The messages of the next request: as many as fit, in order. Of a group only
 * the first goes: a request may pass in part, and nothing may overtake a message
 * of its group that failed.
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
