/** Encodes events as Kafka records, without their partitions. */
import type { Entry } from "../../event/Entry.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import * as Template from "../../formats/Template.ts"
import * as SentHeaders from "../SentHeaders.ts"
import type { KafkaRecord } from "./KafkaClient.ts"
import type { KafkaConfig } from "./KafkaConfig.ts"

export type Encoded = Omit<KafkaRecord, "partition">

/** Makes records. The function that is returned throws what a template throws. */
export const encoder = (config: KafkaConfig): ((entry: Entry) => Encoded) => {
  const topic = Template.compile(config.topic, "topic")
  const key = Template.compile(config.key, "key")
  const headers = SentHeaders.compile(config, {
    values: "text",
    raw: [SentHeaders.json],
    cloudEvent: (entry) => CloudEvents.binary(entry, CloudEvents.kafka),
  })
  return (entry) => ({
    topic: topic.render(entry),
    key: key.render(entry),
    value: entry.event.body,
    headers: headers(entry),
  })
}
