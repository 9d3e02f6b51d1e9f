/** Encodes events as Kafka records, without their partitions, and names the topics that events may have. */
import type { Entry } from "../../event/Entry.ts"
import { eventTypes } from "../../event/EventType.ts"
import { idempotencyKey } from "../../event/IdempotencyKey.ts"
import { traceHeaders } from "../../event/TraceContext.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import * as Template from "../../formats/Template.ts"
import type { KafkaRecord } from "./KafkaClient.ts"
import type { KafkaConfig } from "./KafkaConfig.ts"

export type Encoded = Omit<KafkaRecord, "partition">
type Header = readonly [name: string, value: string]

const rawHeaders = (entry: Entry): ReadonlyArray<Header> => {
  const { id, type } = entry.event
  return [
    ["content-type", "application/json"],
    ["idempotency-key", idempotencyKey(entry)],
    ...(id === "" ? [] : [["x-relay-event-id", id] as const]),
    ...(type === "" ? [] : [["x-relay-event-type", type] as const]),
  ]
}

/** Either format sends the signed bytes, so their signature goes along. */
const provenance = ({ event }: Entry): ReadonlyArray<Header> => [
  ...(event.signature === "" ? [] : [["x-service-signature", event.signature] as const]),
  ...(event.webhookId === "" ? [] : [["x-service-webhook-id", event.webhookId] as const]),
]

export const encoder = (config: KafkaConfig): ((entry: Entry) => Encoded) => {
  const topic = Template.compile(config.topic, "topic")
  const key = Template.compile(config.key, "text")
  const own = Object.entries(config.headers).map(([name, value]) => [name, Template.compile(value, "text")] as const)
  return (entry) => ({
    topic: topic.render(entry),
    key: key.render(entry),
    value: entry.event.body,
    headers: [
      ...(config.format === "raw" ? rawHeaders(entry) : CloudEvents.binary(entry, CloudEvents.kafka)),
      ...provenance(entry),
      ...traceHeaders(entry.event),
      ...own.map(([name, value]) => [name, value.render(entry)] as const),
    ],
  })
}

/** The topics of the known event types; none where the template needs more than the type. */
export const foreseeableTopics = (template: string): ReadonlyArray<string> => {
  if (/\{\{(?!\s*(type|resource)\s*\}\})/.test(template)) return []
  const topic = Template.compile(template, "topic")
  return [...new Set(eventTypes.map((type) => topic.render(sampleOf(type))))]
}

const sampleOf = (type: string): Entry => ({
  sequence: 0,
  event: {
    id: "",
    type,
    accountId: "",
    webhook: "",
    webhookId: "",
    signature: "",
    secret: "",
    receivedAt: 0,
    body: new Uint8Array(),
  },
  sinks: [],
  replayed: false,
})
