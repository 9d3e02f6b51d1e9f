/** Encodes events as NATS messages. */
import type { Entry } from "../../event/Entry.ts"
import { idempotencyKey } from "../../event/IdempotencyKey.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import { type Header, identity, provenance } from "../../formats/MessageHeaders.ts"
import * as Template from "../../formats/Template.ts"
import type { NatsConfig } from "./NatsConfig.ts"

const json: Header = ["content-type", "application/json"]

export interface Message {
  readonly subject: string
  /** Order holds among messages of one key; empty for one that has none. */
  readonly key: string
  /** By this the stream knows a message that comes twice. */
  readonly id: string
  readonly headers: ReadonlyArray<Header>
  readonly body: Uint8Array
}

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
        ...(config.format === "raw"
          ? [json, ...identity(entry, Template.escapeHeader)]
          : CloudEvents.binary(entry, CloudEvents.nats)),
        ...provenance(entry, Template.escapeHeader),
        ...own.map(([name, value]) => [name, value.render(entry)] as const),
      ],
      body: entry.event.body,
    }
  }
}
