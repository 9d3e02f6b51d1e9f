/** An event that can't be rendered for a sink is rejected alone. */
import { describe, expect } from "bun:test"
import { Effect, Schema } from "effect"
import type { Entry } from "../../src/event/Event.ts"
import { Slack, SlackConfig } from "../../src/sinks/alerts/slack/Slack.ts"
import { Http } from "../../src/sinks/http/Http.ts"
import { HttpConfig } from "../../src/sinks/http/HttpConfig.ts"
import { KafkaError } from "../../src/sinks/kafka/KafkaClient.ts"
import * as KafkaErrors from "../../src/sinks/kafka/KafkaErrors.ts"
import { Sns } from "../../src/sinks/sns/Sns.ts"
import { it } from "../lib/effect.ts"
import { serve } from "./receiver.ts"
import { bytes, entry, envelope, reasonOf } from "./samples.ts"
import { snsServer } from "./sns/snsServer.ts"
import { credentials } from "./sns/snsSink.ts"

const nested = `${"[".repeat(100_000)}${"]".repeat(100_000)}`

/** An event whose object is nested too deep to be written as JSON. */
const deep = (sequence: number): Entry =>
  entry(sequence, {
    body: bytes(
      JSON.stringify(envelope(sequence, { id: "ID", list: "LIST" }))
        .replace('"LIST"', nested)
        .replace('"ID"', nested),
    ),
  })

const tooDeep = (where: string) => `can't be rendered: what stands at ${where} is nested more than 1000 levels deep`

const receiving = Effect.gen(function* () {
  const bodies: Array<string> = []
  const { url } = yield* serve((request, response) => {
    bodies.push(Buffer.from(request.body).toString())
    response.writeHead(200).end("ok")
  })
  return { url, bodies }
})

describe("an event that is nested too deep", () => {
  const parts: ReadonlyArray<readonly [string, Partial<typeof HttpConfig.Encoded>, string]> = [
    ["its URL", {}, "?of={{/data/object/list}}"],
    ["a header", { headers: { "x-of": "{{/data/object/list}}" } }, ""],
    ["its body", { format: "template", body: { of: ["{{/data/object/list}}"] } }, ""],
    ["a text of its body", { format: "template", body: "of {{/data/object/list}}" }, ""],
  ]
  for (const [part, config, path] of parts) {
    it.live(`is rejected with a reason if ${part} would contain it, and nothing is sent`, function* () {
      const { url, bodies } = yield* receiving
      const decoded = Schema.decodeUnknownSync(HttpConfig)({ url: `${url}/${path}`, ...config })
      const sink = yield* Http.open(decoded)
      const reason = yield* reasonOf(sink.send([deep(1)]))
      expect(reason).toMatchObject({ _tag: "DeliveryRejected", message: tooDeep("/data/object/list") })
      expect(bodies).toEqual([])
    })
  }

  it.live("is sent normally by a sink that doesn't use it", function* () {
    const { url, bodies } = yield* receiving
    const sink = yield* Http.open(Schema.decodeUnknownSync(HttpConfig)({ url }))
    expect(yield* reasonOf(sink.send([deep(1)]))).toBeUndefined()
    expect(bodies).toEqual([Buffer.from(deep(1).event.body).toString()])
  })

  it.live("is rejected alone in a digest: the others are one message", function* () {
    const { url, bodies } = yield* receiving
    const sink = yield* Slack.open(Schema.decodeUnknownSync(SlackConfig)({ url }))
    const failures = yield* sink.send([entry(1), deep(2), entry(3)])
    expect([...failures].map(([index, { message }]) => [index, message])).toEqual([[1, tooDeep("/data/object/id")]])
    expect(bodies.length).toBe(1)
    expect(bodies[0]).toContain("2 ×")
    expect((yield* sink.send([deep(4), deep(5)])).size).toBe(2)
    expect(bodies.length).toBe(1)
  })

  it.live("is rejected alone in a batch to a FIFO topic", function* () {
    const server = yield* snsServer()
    const sink = yield* Sns.open(
      Schema.decodeUnknownSync(Sns.config)({
        topicArn: "arn:aws:sns:eu-west-1:123456789012:events.fifo",
        endpoint: server.url,
        key: "{{/data/object/id}}",
        credentials,
      }) as never,
    )
    const failures = yield* sink.send([entry(1), deep(2), entry(3)])
    expect([...failures].map(([index, { message }]) => [index, message])).toEqual([[1, tooDeep("/data/object/id")]])
    expect(server.passed().map(({ attributes }) => attributes.event_id)).toEqual(["evt_1", "evt_3"])
  })
})

it.effect("a rendered topic that can't be a topic's name is not repeated at length", () =>
  Effect.sync(() => {
    const { reason } = KafkaErrors.sinkErrorOf(new KafkaError({ code: "INVALID_TOPIC_EXCEPTION", detail: "" }), {
      brokers: "b:9092",
      topic: "x".repeat(1_000_000),
      isTemplated: true,
      bytes: 1,
      smaller: "",
      isKeyless: false,
    })
    expect(reason.message).toMatch(/^kafka b:9092, topic x{60}…: this is not a name for a topic: at most 249/)
  }),
)
