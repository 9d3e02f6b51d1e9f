import { describe, expect, test } from "bun:test"
import { preview } from "../preview.ts"
import { envelope } from "../samples.ts"

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
