/** Encodes events as Kafka records, without their partitions. */
import type { Entry } from "../../event/Entry.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import { type Header, identity, provenance } from "../../formats/MessageHeaders.ts"
import * as Template from "../../formats/Template.ts"
import type { KafkaRecord } from "./KafkaClient.ts"
import type { KafkaConfig } from "./KafkaConfig.ts"

export type Encoded = Omit<KafkaRecord, "partition">

const json: Header = ["content-type", "application/json"]

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
    const isRaw = config.format === "raw"
    const headers = isRaw ? [json, ...identity(entry)] : [...CloudEvents.binary(entry, CloudEvents.kafka)]
    headers.push(...provenance(entry))
    for (const [name, value] of own) set(headers, [name, value.render(entry)])
    return { topic: topic.render(entry), key: key.render(entry), value: entry.event.body, headers }
  }
}
