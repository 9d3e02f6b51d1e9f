/** Encodes events as Kafka records, without their partitions. */
import type { Entry } from "../../event/Entry.ts"
import { idempotencyKey } from "../../event/IdempotencyKey.ts"
import { traceHeaders } from "../../event/TraceContext.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import * as Template from "../../formats/Template.ts"
import type { KafkaRecord } from "./KafkaClient.ts"
import type { KafkaConfig } from "./KafkaConfig.ts"

export type Encoded = Omit<KafkaRecord, "partition">
type Header = readonly [name: string, value: string]

const json: Header = ["content-type", "application/json"]

const rawHeaders = (entry: Entry): Array<Header> => {
  const { id, type } = entry.event
  const headers: Array<Header> = [json, ["idempotency-key", idempotencyKey(entry)]]
  if (id !== "") headers.push(["x-relay-event-id", id])
  if (type !== "") headers.push(["x-relay-event-type", type])
  return headers
}

/** Sets a header of the config, in the place of one of ours where it has that name. */
const set = (headers: Array<Header>, header: Header): void => {
  const at = headers.findIndex(([name]) => name === header[0])
  headers[at === -1 ? headers.length : at] = header
}

export const encoder = (config: KafkaConfig): ((entry: Entry) => Encoded) => {
  const topic = Template.compile(config.topic, "topic")
  const key = Template.compile(config.key, "text")
  const own = Object.entries(config.headers).map(([name, value]) => [name, Template.compile(value, "text")] as const)
  return (entry) => {
    const { body, signature, webhookId } = entry.event
    const headers = config.format === "raw" ? rawHeaders(entry) : [...CloudEvents.binary(entry, CloudEvents.kafka)]
    // Either format sends the signed bytes, so their signature goes along.
    if (signature !== "") headers.push(["x-service-signature", signature])
    if (webhookId !== "") headers.push(["x-service-webhook-id", webhookId])
    headers.push(...traceHeaders(entry.event))
    for (const [name, value] of own) set(headers, [name, value.render(entry)])
    return { topic: topic.render(entry), key: key.render(entry), value: body, headers }
  }
}
