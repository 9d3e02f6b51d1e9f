/** What a sink would send, shown without sending: the same as what it sends, but for its secrets. */
import { describe, expect, test } from "bun:test"
import { Effect, Schema } from "effect"
import { show } from "../../src/formats/DisplayBytes.ts"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"
import { it } from "../lib/effect.ts"
import { own, names as services } from "./alerts/services.ts"
import { type Received, serve } from "./receiver.ts"
import { bytes, entry, envelope } from "./samples.ts"

const canary = "canary-7f3a"

const typeOf = (name: string) => {
  const type = sinkTypes[name]
  if (type === undefined) throw new Error(`there is no sink type ${name}`)
  return type
}

const preview = (name: string, config: object, one = entry(1)) => {
  const type = typeOf(name)
  return type.preview(Schema.decodeUnknownSync(type.config)(config), [one])[0] ?? {}
}

const object = JSON.parse(JSON.stringify(envelope(1)))

describe("a preview", () => {
  const http = { url: `https://example.com/${canary}?key=${canary}`, headers: { Authorization: canary } }

  test("of every type that has one shows no secret", () => {
    const configs: Readonly<Record<string, object>> = {
      http: { ...http, sign: { secret: canary } },
      ...Object.fromEntries(services.map((name) => [name, { ...own[name], ...http }])),
      pagerduty: { ...http, routingKey: canary },
      kafka: { brokers: ["b:9092"], topic: "t", sasl: { mechanism: "PLAIN", username: "u", password: canary } },
    }
    for (const [name, config] of Object.entries(configs)) {
      const shown = JSON.stringify(preview(name, config))
      expect(shown).not.toContain(canary)
      expect(shown).toContain("evt_1")
      if (name !== "kafka") expect(preview(name, config)).toMatchObject({ headers: { authorization: "***" } })
    }
  })

  test("of an HTTP request has its method, its headers and its body", () => {
    expect(preview("http", { ...http, method: "PUT", sign: { secret: canary } })).toEqual({
      method: "PUT",
      headers: {
        "content-type": "application/json",
        "idempotency-key": "evt_1",
        "x-relay-event-id": "evt_1",
        "x-relay-event-type": "appointment.created",
        "x-service-signature": `sha256=${"AB".repeat(32)}`,
        "x-service-webhook-id": "wh_1",
        authorization: "***",
        "x-relay-signature": "***",
      },
      body: object,
    })
  })

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

  test("of a file or the console is its line", () => {
    expect(preview("file", { path: "events.ndjson" })).toEqual({ file: "events.ndjson", line: object })
    expect(preview("console", { format: "raw" })).toEqual({ line: object })
    expect(preview("console", {}).line).toBe(
      "2026-11-21T08:00:01.000Z  appointment.created  evt_1  acct_1  via scheduling  to audit",
    )
  })

  it.live("is what is sent", () =>
    Effect.gen(function* () {
      for (const name of ["http", ...services]) {
        const requests: Array<Received> = []
        const { url } = yield* serve((request, response) => {
          requests.push(request)
          response.writeHead(name === "slack" ? 200 : 202).end("ok")
        })
        const config = { ...(services.includes(name as "slack") ? own[name as "slack"] : {}), url }
        const type = typeOf(name)
        const sink = yield* type.open(Schema.decodeUnknownSync(type.config)(config))
        yield* sink.send([entry(1)])
        const { headers, body } = preview(name, config)
        const sent = JSON.parse(Buffer.from(requests[0]?.body ?? []).toString())
        expect(body).toEqual("routing_key" in sent ? { ...sent, routing_key: "***" } : sent)
        expect(requests[0]?.headers).toMatchObject(headers as object)
      }
    }),
  )
})

describe("bytes are shown", () => {
  test("as JSON where that loses nothing, as text where it would, and else as base64", () => {
    expect(show(bytes('{"a":[1,null]}'))).toEqual({ a: [1, null] })
    for (const text of ['{"a": 1}', '{"a":1.0}', '{"a":1,"a":2}', "[12345678901234567890]", "plain", "", "\ufeff{}"]) {
      expect(show(bytes(text))).toBe(text)
    }
    expect(show(Uint8Array.of(0x7b, 0xff))).toEqual({ base64: "e/8=" })
  })
})
