import { describe, expect, test } from "bun:test"
import { Schema } from "effect"
import { encoder } from "../../../src/sinks/kafka/Kafka.ts"
import { KafkaConfig } from "../../../src/sinks/kafka/KafkaConfig.ts"
import { preview } from "../preview.ts"
import { entry, envelope } from "../samples.ts"

const object = JSON.parse(JSON.stringify(envelope(1)))

describe("a preview", () => {
  test("of a Kafka record has topic, key, headers and value", () => {
    const config = { brokers: ["b:9092"], topic: "events.{{resource}}", headers: { "x-env": "test" } }
    expect(preview("kafka", config)).toMatchObject({
      topic: "events.appointment",
      key: "acct_1",
      headers: { "x-relay-event-id": "evt_1", "x-env": "test" },
      value: object,
    })
    expect(preview("kafka", { ...config, key: "{{/nowhere}}" })).not.toHaveProperty("key")
  })
})

test("a header of the config replaces the relay's header of its name", () => {
  const headers = { "content-type": "application/webhook+json", origin: "{{webhook}}" }
  const config = Schema.decodeUnknownSync(KafkaConfig)({ brokers: ["b:9092"], topic: "events", headers })
  const encode = encoder(config)
  const names = encode(entry(1)).headers.map(([name]) => name)
  expect(new Set(names).size).toBe(names.length)
  expect(encode(entry(1)).headers).toContainEqual(["content-type", "application/webhook+json"])
  expect(names.at(-1)).toBe("origin")
})
