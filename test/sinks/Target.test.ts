import { expect, test } from "bun:test"
import { Redacted } from "effect"
import { targetOf } from "../../src/sinks/SinkTypes.ts"

const targets: ReadonlyArray<readonly [config: unknown, target: string]> = [
  [{ path: "data/events.ndjson" }, "data/events.ndjson"],
  [{ brokers: ["one:9092", "two:9092"], topic: "events.{{resource}}" }, "events.{{resource}} at one:9092, two:9092"],
  [{ servers: ["nats:4222"], subject: "events" }, "events at nats:4222"],
  [{ server: "smtp.example.com:587", subject: "a mail's" }, "smtp.example.com:587"],
  [{ url: Redacted.make("https://user:word@crm.example.com/secret?key=secret") }, "https://crm.example.com"],
  [{ url: Redacted.make("amqps://user:word@mq:5671/vhost"), exchange: "events" }, "events at amqps://mq:5671"],
  [{ topicArn: "arn:aws:sns:eu-west-1:1:events" }, "arn:aws:sns:eu-west-1:1:events"],
  [{}, ""],
  [undefined, ""],
]

for (const [config, target] of targets) {
  test(`a sink's target is shown as "${target}", without secrets`, () => {
    expect(targetOf(config)).toBe(target)
  })
}
