/** Encodes events as AMQP 0-9-1 messages. */
import { createHash } from "node:crypto"
import type { Entry } from "../../event/Entry.ts"
import { idempotencyKey } from "../../event/IdempotencyKey.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import type { Header } from "../../formats/MessageHeaders.ts"
import * as Template from "../../formats/Template.ts"
import * as SentHeaders from "../SentHeaders.ts"
import { longestKey, type RabbitMqConfig } from "./RabbitMqConfig.ts"

export interface Message {
  readonly routingKey: string
  /** Order holds among messages of one key; empty for one that has none. */
  readonly key: string
  readonly messageId: string
  /** Empty where the event has none, or one that is too long for it. */
  readonly type: string
  readonly contentType: string
  /** When the event was received, in seconds. */
  readonly timestamp: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

const fits = (text: string): boolean => Buffer.byteLength(text) <= longestKey

/** The binary mode of CloudEvents' AMQP binding: RabbitMQ shows headers to readers of AMQP 1.0 as application properties. */
const cloudEvent = (entry: Entry): ReadonlyArray<Header> =>
  Object.entries(CloudEvents.attributes(entry)).map(([name, value]) => [`cloudEvents:${name}`, value])

/** The idempotency key, or the hash of one that is too long for a property. */
const messageIdOf = (entry: Entry): string => {
  const key = idempotencyKey(entry)
  return fits(key) ? key : `sha256-${createHash("sha256").update(key).digest("hex")}`
}

/** Makes messages. The function that is returned throws what a template throws. */
export const encoder = (config: RabbitMqConfig): ((entry: Entry) => Message) => {
  const routingKey = Template.compile(config.routingKey ?? "{{type}}", "text")
  const key = Template.compile(config.key, "key")
  // The content type is a property here.
  const headers = SentHeaders.compile(config, { values: "text", raw: [], cloudEvent })
  return (entry) => {
    const { event } = entry
    return {
      routingKey: routingKey.render(entry),
      key: key.render(entry),
      messageId: messageIdOf(entry),
      type: fits(event.type) ? event.type : "",
      contentType: config.format === "raw" ? "application/json" : CloudEvents.contentType(event),
      timestamp: Math.floor(event.receivedAt / 1_000),
      headers: Object.fromEntries(headers(entry)),
      body: event.body,
    }
  }
}
