import { describe, expect, test } from "bun:test"
import { Schema } from "effect"
import { hmacSha256, verify } from "../../../src/event/Signature.ts"
import { encoder } from "../../../src/sinks/kafka/Kafka.ts"
import { doubts, KafkaConfig } from "../../../src/sinks/kafka/KafkaConfig.ts"
import { preview } from "../preview.ts"
import { bytes, entry, envelope } from "../samples.ts"
import { nothing, shapes } from "../shapes.ts"

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

describe("a record with a body of its own", () => {
  const config = { brokers: ["b:9092"], topic: "events", key: "{{/data/object/id}}" }
  const signature = "x-service-signature"

  for (const { title, config: shape, value } of shapes) {
    test(`${title}, and the sender's signature is left out`, () => {
      const shown = preview("kafka", { ...config, ...shape })
      expect(shown).toMatchObject({ key: "apt_1", value, headers: { "x-service-webhook-id": "wh_1" } })
      expect(shown.headers).not.toHaveProperty(signature)
    })
  }

  test("has the JSON value null if the expression has no result: only a tombstone has no value", () => {
    const [first] = [entry(1)].map(encoder(Schema.decodeUnknownSync(KafkaConfig)({ ...config, ...nothing })))
    expect(Buffer.from(first?.value ?? "")).toEqual(Buffer.from("null"))
  })

  test("has the relay's own signature over the body that is sent", () => {
    const sign = { scheme: "sender", secret: "one" }
    for (const more of [{}, shapes[0]?.config]) {
      const encode = encoder(Schema.decodeUnknownSync(KafkaConfig)({ ...config, sign, ...more }), () => 0)
      const { headers, value } = encode(entry(1))
      const own = new Map(headers).get("x-relay-signature") ?? ""
      const secrets = [{ name: "ours", hmac: hmacSha256("one") }]
      expect(verify(secrets, own, value ?? bytes(""), 0)).toEqual({ ok: true, secret: "ours" })
    }
    expect(preview("kafka", { ...config, sign }).headers).toMatchObject({ "x-relay-signature": "***" })
  })

  test("has headers by templates and by expressions", () => {
    const headers = { "x-kind": "{{resource}}", "x-object": { jmespath: "data.object.id" } }
    expect(preview("kafka", { ...config, headers }).headers).toMatchObject({
      "x-kind": "appointment",
      "x-object": "apt_1",
    })
  })
})

describe("a tombstone", () => {
  const config = { brokers: ["b:9092"], topic: "events", key: "{{/data/object/id}}", tombstone: ["*.deleted"] }
  const deleted = entry(1, { type: "client.deleted" })

  test("has a key, no value, and no signature", () => {
    const shown = preview("kafka", { ...config, sign: { secret: "one" } }, deleted)
    expect(shown).toMatchObject({ key: "apt_1", value: null, headers: { "x-relay-event-type": "client.deleted" } })
    expect(shown.headers).not.toHaveProperty("x-service-signature")
    expect(shown.headers).not.toHaveProperty("x-relay-signature")
  })

  test("is made of events of its types alone", () => {
    expect(preview("kafka", config)).toMatchObject({
      value: object,
      headers: { "x-service-signature": entry(1).event.signature },
    })
  })

  test("needs a key of the object: all events of an account have the default one", () => {
    const { key: _, ...keyless } = config
    expect(() => preview("kafka", keyless)).toThrow(/all events of an account have this one: name the object/)
  })
})

test("a config that creates compacted topics is asked for a key of the object", () => {
  const createTopics = { compact: true }
  const of = (more: object) =>
    doubts(Schema.decodeUnknownSync(KafkaConfig)({ brokers: ["127.0.0.1:9092"], topic: "events", ...more }))
  expect(of({ createTopics })).toEqual([expect.objectContaining({ path: ["key"] })])
  expect(of({ createTopics, key: "{{/data/object/id}}" })).toEqual([])
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
