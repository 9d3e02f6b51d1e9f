/** Encodes events as NATS messages. */
import type { Entry } from "../../event/Entry.ts"
import { idempotencyKey } from "../../event/IdempotencyKey.ts"
import { traceHeaders } from "../../event/TraceContext.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import * as Template from "../../formats/Template.ts"
import type { NatsConfig } from "./NatsConfig.ts"

type Header = readonly [name: string, value: string]

export interface Message {
  readonly subject: string
  /** Order holds among messages of one key; empty for one that has none. */
  readonly key: string
  /** By this the stream knows a message that comes twice. */
  readonly id: string
  readonly headers: ReadonlyArray<Header>
  readonly body: Uint8Array
}

const rawHeaders = (entry: Entry): ReadonlyArray<Header> => {
  const { id, type } = entry.event
  return [
    ["content-type", "application/json"],
    ["idempotency-key", idempotencyKey(entry)],
    ...(id === "" ? [] : [["x-relay-event-id", Template.escapeHeader(id)] as const]),
    ...(type === "" ? [] : [["x-relay-event-type", Template.escapeHeader(type)] as const]),
  ]
}

/** Either format sends the signed bytes, so their signature goes along. */
const provenance = ({ event }: Entry): ReadonlyArray<Header> => [
  ...(event.signature === "" ? [] : [["x-service-signature", event.signature] as const]),
  ...(event.webhookId === "" ? [] : [["x-service-webhook-id", Template.escapeHeader(event.webhookId)] as const]),
]

export const encoder = (config: NatsConfig): ((entry: Entry) => Message) => {
  const subject = Template.compile(config.subject, "topic")
  const key = Template.compile(config.key, "text")
  const own = Object.entries(config.headers).map(([name, value]) => [name, Template.compile(value, "header")] as const)
  return (entry) => {
    const rendered = subject.render(entry)
    return {
      subject: rendered,
      key: key.render(entry),
      // Ids are unique within a webhook only, and a stream drops what has the id of another message, whatever its subject.
      id: `${entry.event.webhook}:${idempotencyKey(entry)} ${rendered}`,
      headers: [
        ...(config.format === "raw" ? rawHeaders(entry) : CloudEvents.binary(entry, CloudEvents.nats)),
        ...provenance(entry),
        ...traceHeaders(entry.event),
        ...own.map(([name, value]) => [name, value.render(entry)] as const),
      ],
      body: entry.event.body,
    }
  }
}
