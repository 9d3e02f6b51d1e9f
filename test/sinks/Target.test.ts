import { expect, test } from "bun:test"
import { Redacted } from "effect"
import { traitOf, written } from "../../src/config/schema/Traits.ts"
import { sinkTypes, targetOf } from "../../src/sinks/SinkTypes.ts"

const targets: ReadonlyArray<readonly [type: string, config: unknown, target: string]> = [
  ["file", { path: "data/events.ndjson" }, "data/events.ndjson"],
  ["kafka", { topic: "a.{{resource}}", brokers: ["one:9092", "two:9092"] }, "a.{{resource}} at one:9092, two:9092"],
  ["nats", { servers: ["nats:4222"], subject: "events" }, "events at nats:4222"],
  ["email", { server: "smtp.example.com:587", subject: "a mail's" }, "smtp.example.com:587"],
  [
    "http",
    { url: Redacted.make("https://user:word@crm.example.com/secret?key=secret"), oauth: { url: "https://login" } },
    "https://crm.example.com",
  ],
  ["rabbitmq", { url: Redacted.make("amqps://user:word@mq:5671/v"), exchange: "events" }, "events at amqps://mq:5671"],
  ["rabbitmq", { url: Redacted.make("amqp://mq"), routingKey: "events" }, "amqp://mq"],
  ["sns", { topicArn: "arn:aws:sns:eu-west-1:1:events" }, "arn:aws:sns:eu-west-1:1:events"],
  ["sqs", { queueUrl: "https://sqs.eu-west-1.amazonaws.com/1/a" }, "https://sqs.eu-west-1.amazonaws.com/1/a"],
  ["s3", { bucket: "events", endpoint: "https://minio.example.com" }, "events"],
  ["console", {}, ""],
  ["unknown", undefined, ""],
]

for (const [type, config, target] of targets) {
  test(`the target of a ${type} sink is shown as "${target}", without secrets`, () => {
    expect(targetOf(type, config)).toBe(target)
  })
}

test("the config of every sink but the console's names its target", () => {
  const without = Object.entries(sinkTypes).filter(([, { config }]) => {
    const ast = written(config)
    return ast._tag !== "Objects" || !ast.propertySignatures.some((key) => traitOf(key.type, "target") !== undefined)
  })
  expect(without.map(([name]) => name)).toEqual(["console"])
})
