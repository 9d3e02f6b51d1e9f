/** Encodes events as NATS messages. */
import type { Entry } from "../../event/Entry.ts"
import { idempotencyKey } from "../../event/IdempotencyKey.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import type { Header } from "../../formats/MessageHeaders.ts"
import * as Template from "../../formats/Template.ts"
import * as SentHeaders from "../SentHeaders.ts"
import type { NatsConfig } from "./NatsConfig.ts"

export interface Message {
  readonly subject: string
  /** Order holds among messages of one key; empty for one that has none. */
  readonly key: string
  /** By this the stream knows a message that comes twice. */
  readonly id: string
  readonly headers: ReadonlyArray<Header>
  readonly body: Uint8Array
}

/** Makes messages. The function that is returned throws what a template throws. */
export const encoder = (config: NatsConfig): ((entry: Entry) => Message) => {
  const subject = Template.compile(config.subject, "topic")
  const key = Template.compile(config.key, "key")
  const headers = SentHeaders.compile(config, {
    values: "header",
    raw: [SentHeaders.json],
    cloudEvent: (entry) => CloudEvents.binary(entry, CloudEvents.nats),
  })
  return (entry) => {
    const rendered = subject.render(entry)
    return {
      subject: rendered,
      key: key.render(entry),
      // Ids are unique within a webhook only, and a stream drops what has the id of another message, whatever its subject.
      id: `${entry.event.webhook}:${idempotencyKey(entry)} ${rendered}`,
      headers: headers(entry),
      body: entry.event.body,
    }
  }
}
