/** Custom bodies as local sinks receive them, and the reasons of dead letters. */
import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Result, Schema, type Scope } from "effect"
import type { Entry } from "../../src/event/Event.ts"
import { File, FileConfig } from "../../src/sinks/file/File.ts"
import { Http } from "../../src/sinks/http/Http.ts"
import { HttpConfig } from "../../src/sinks/http/HttpConfig.ts"
import type { Sink, SinkError } from "../../src/sinks/Sink.ts"
import { sinkTypes, targetOf } from "../../src/sinks/SinkTypes.ts"
import { directory } from "../lib/directory.ts"
import { it } from "../lib/effect.ts"
import { largest } from "../parts/RabbitMq.ts"
import * as RabbitQueues from "../parts/RabbitQueues.ts"
import { makeExchange, makeQueue } from "../parts/RabbitQueues.ts"
import * as Topics from "../parts/Topics.ts"
import { makeTopic } from "../parts/Topics.ts"
import { awsServer } from "./aws/awsServer.ts"
import { openEventBridge } from "./eventbridge/eventBridgeSink.ts"
import { clients, openKafka, withBroker } from "./kafka/kafkaSink.ts"
import { openNats, streamOn, withNats } from "./nats/natsSink.ts"
import { preview } from "./preview.ts"
import { openRabbitMq, withRabbit } from "./rabbitmq/rabbitMqSink.ts"
import { serve } from "./receiver.ts"
import { s3Server } from "./s3/s3Server.ts"
import { openS3 } from "./s3/s3Sink.ts"
import { bytes, entry, envelope } from "./samples.ts"
import { doubled, shapes, withText } from "./shapes.ts"
import { snsServer } from "./sns/snsServer.ts"
import { openSns, topicArn } from "./sns/snsSink.ts"
import { openSqs, queueUrl } from "./sqs/sqsSink.ts"

type Config = Readonly<Record<string, unknown>>

interface Opened {
  readonly sink: Sink
  /** Returns the received bodies once there are `count`. */
  readonly bodies: (count: number) => ReadonlyArray<string> | Promise<ReadonlyArray<string>>
}

interface Receiver {
  readonly open: (shape: Config) => Effect.Effect<Opened, SinkError, Scope.Scope>
  /** The keys that the type needs, for a preview. */
  readonly required: Config
  /** A body of this size is too large for the sink. */
  readonly tooLarge?: number
  /** The advice about such a body. */
  readonly advice?: RegExp
  /** Whether the body must be a JSON object. */
  readonly takesObjects?: boolean
}

/** Sends a batch. A sink of one event at a time gets the events one after the other. */
const sendAll = Effect.fnUntraced(function* ({ batch: { maxEvents }, send }: Sink, all: ReadonlyArray<Entry>) {
  if (maxEvents > 1) return yield* send(all)
  const failures = new Map<number, SinkError>()
  for (const [index, one] of all.entries()) {
    const result = yield* Effect.result(send([one]))
    if (Result.isFailure(result)) failures.set(index, result.failure)
  }
  return failures
})

const makesSmaller = /larger than.*put less into "body"/

const bodiesOf = (all: ReadonlyArray<object>, key: string) =>
  all.map((one) => String((one as Record<string, unknown>)[key]))

const local: Readonly<Record<string, Receiver>> = {
  http: {
    open: Effect.fnUntraced(function* (shape) {
      const bodies: Array<string> = []
      const { url } = yield* serve(({ body }, response) => {
        if (body.length > 100_000) return void response.writeHead(413).end()
        bodies.push(Buffer.from(body).toString())
        response.end()
      })
      const sink = yield* Http.open(Schema.decodeUnknownSync(HttpConfig)({ url, ...shape }))
      return { sink, bodies: () => bodies }
    }),
    required: { url: "http://127.0.0.1:1" },
    tooLarge: 100_000,
    advice: /answered 413/,
  },
  sns: {
    open: Effect.fnUntraced(function* (shape) {
      const server = yield* snsServer({})
      const sink = yield* openSns(() => ({ endpoint: server.url, ...shape }))
      return { sink, bodies: () => bodiesOf(server.passed(), "text") }
    }),
    required: { topicArn },
    tooLarge: 256 * 1024,
  },
  sqs: {
    open: Effect.fnUntraced(function* (shape) {
      const server = yield* awsServer()
      const sink = yield* openSqs(() => ({ queueUrl: `${server.url}/123456789012/events`, ...shape }))
      return { sink, bodies: () => bodiesOf(server.passed(), "MessageBody") }
    }),
    required: { queueUrl },
    tooLarge: 1024 * 1024,
  },
  eventbridge: {
    open: Effect.fnUntraced(function* (shape) {
      const server = yield* awsServer()
      const sink = yield* openEventBridge(() => ({ endpoint: server.url, ...shape }))
      return { sink, bodies: () => bodiesOf(server.passed(), "Detail") }
    }),
    required: { eventBusArn: "arn:aws:events:eu-west-1:123456789012:event-bus/events" },
    tooLarge: 1024 * 1024,
    takesObjects: true,
  },
  s3: {
    open: Effect.fnUntraced(function* (shape) {
      const server = yield* s3Server()
      const sink = yield* openS3(() => ({ endpoint: server.url, compression: "none", ...shape }))
      const text = () => server.objects().map(({ bytes }) => Buffer.from(bytes).toString())
      return { sink, bodies: () => text().flatMap((lines) => lines.trimEnd().split("\n")) }
    }),
    required: { bucket: "events", region: "us-east-1" },
    takesObjects: true,
  },
  file: {
    open: Effect.fnUntraced(function* (shape) {
      const path = join(yield* directory, "events.ndjson")
      const sink = yield* File.open(Schema.decodeUnknownSync(FileConfig)({ path, ...shape }))
      return { sink, bodies: () => readFileSync(path, "utf8").trimEnd().split("\n") }
    }),
    required: { path: "./events.ndjson" },
    takesObjects: true,
  },
}

const title = (type: string) => `the sink ${type} with a body of the user's own`

const testShapes = (
  type: string,
  { open, required, tooLarge, advice = makesSmaller, takesObjects = false }: Receiver,
) => {
  for (const { title, config, value } of shapes) {
    it.live(`delivers it: ${title}`, function* () {
      const { sink, bodies } = yield* open(config)
      expect((yield* sink.send([entry(1)])).size).toBe(0)
      const [received] = yield* Effect.promise(async () => bodies(1))
      expect([JSON.parse(String(received))]).toEqual([value])
      const shown = JSON.stringify(preview(type, { ...required, ...config }))
      expect(shown).toContain(JSON.stringify(value))
      expect(shown).not.toContain(entry(1).event.signature)
    })
  }

  const ofNull = takesObjects ? "makes a dead letter of an event without an object" : "delivers null"
  it.live(`${ofNull}, and the other events of its batch`, function* () {
    const body = { jmespath: "id == 'evt_2' && data || data.nowhere" }
    const { sink, bodies } = yield* open({ format: "template", body })
    const failures = yield* sendAll(sink, [entry(1), entry(2)])
    if (takesObjects) {
      expect([...failures.keys()]).toEqual([0])
      expect(failures.get(0)?.reason._tag).toBe("DeliveryRejected")
      expect(failures.get(0)?.message).toMatch(/"body" must make a JSON object/)
    } else expect(failures.size).toBe(0)
    const received = yield* Effect.promise(async () => bodies(takesObjects ? 1 : 2))
    expect(received).toHaveLength(takesObjects ? 1 : 2)
    if (!takesObjects) expect(received[0]).toBe("null")
  })

  it.live("makes a dead letter of an event for which the expression fails, and delivers the others", function* () {
    const { sink, bodies } = yield* open({ format: "template", body: { jmespath: "{size: length(data.object.id)}" } })
    const number = entry(1, { body: bytes(JSON.stringify(envelope(1, { id: 7 }))) })
    const failures = yield* sendAll(sink, [number, entry(2)])
    expect([...failures].map(([index, { reason }]) => [index, reason._tag])).toEqual([[0, "DeliveryRejected"]])
    expect(failures.get(0)?.message).toContain("the expression at body.jmespath fails")
    expect(yield* Effect.promise(async () => bodies(1))).toEqual([JSON.stringify({ size: 5 })])
  })

  test("refuses a body without its format, and the format without a body", () => {
    expect(() => preview(type, { ...required, body: {} })).toThrow(/a "body" needs "format": "template"/)
    expect(() => preview(type, { ...required, format: "template" })).toThrow(/needs a "body" to fill in/)
  })

  if (takesObjects) {
    test("refuses a config whose body is never an object", () => {
      for (const body of ["{{id}}", ["{{id}}"], null]) {
        expect(() => preview(type, { ...required, format: "template", body })).toThrow(/must be a JSON object here/)
      }
    })
  }

  if (tooLarge !== undefined) {
    it.live("makes a dead letter of a body that is too large, and delivers the others", function* () {
      const { sink, bodies } = yield* open(doubled)
      const failures = yield* sendAll(sink, [withText(tooLarge / 2), withText(10)])
      expect([...failures.keys()]).toEqual([0])
      expect(failures.get(0)?.reason._tag).toBe("DeliveryRejected")
      expect(failures.get(0)?.message).toMatch(advice)
      const received = yield* Effect.promise(async () => bodies(1))
      expect(received).toEqual([JSON.stringify({ text: "x".repeat(20) })])
    })
  }
}

for (const [type, receiver] of Object.entries(local)) describe(title(type), () => testShapes(type, receiver))

for (const client of clients) {
  withBroker(`${title("kafka")}, by ${client}`, (broker) => {
    testShapes("kafka", {
      open: Effect.fnUntraced(function* (shape) {
        const { plain } = broker()
        const topic = yield* Effect.promise(() => makeTopic(plain, 1, { "max.message.bytes": "20000" }))
        const received = yield* Topics.follow(plain, [topic])
        const sink = yield* openKafka(() => ({ client, brokers: [plain], topic, ...shape }))
        return { sink, bodies: (count) => received(count).then((all) => all.map(({ value }) => String(value))) }
      }),
      required: { brokers: ["b:9092"], topic: "events" },
      tooLarge: 20_000,
    })
  })
}

withNats(title("nats"), (server) => {
  const stream = streamOn(server)
  testShapes("nats", {
    open: Effect.fnUntraced(function* (shape) {
      const { name, received } = yield* stream({ max_msg_size: 20_000 })
      const sink = yield* openNats(() => ({ servers: [server().server], subject: `${name}.events`, ...shape }))
      return {
        sink,
        bodies: (count) => received(count).then((all) => all.map(({ body }) => Buffer.from(body).toString())),
      }
    }),
    required: { servers: ["n:4222"], subject: "events" },
    tooLarge: 20_000,
  })
})

withRabbit(title("rabbitmq"), (rabbit) => {
  testShapes("rabbitmq", {
    open: Effect.fnUntraced(function* (shape) {
      const url = rabbit().url()
      const exchange = yield* makeExchange(url)
      const received = yield* RabbitQueues.follow(url, yield* makeQueue(url, { exchange }))
      const sink = yield* openRabbitMq(() => ({ url, exchange, ...shape }))
      const bodies = (count: number) =>
        Effect.map(received(count), (all) => all.map(({ content }) => content.toString()))
      return { sink, bodies: (count) => Effect.runPromise(bodies(count)) }
    }),
    required: { url: "amqp://q", exchange: "events" },
    tooLarge: largest,
  })
})

test("all sinks that take a body of the user's own are tested with it", () => {
  const tested = [...Object.keys(local), "kafka", "nats", "rabbitmq"]
  const taking = Object.entries(sinkTypes).flatMap(([type, { config }]) =>
    "body" in Object(Reflect.get(config, "fields")) ? [type] : [],
  )
  expect(taking.toSorted()).toEqual(tested.toSorted())
})

describe("the attributes of a message of SNS or SQS", () => {
  const attributes = { region: "{{/data/object/id}}", kind: { jmespath: "data.type" }, none: "{{/nowhere}}" }
  const trace = { traceparent: `00-${"ab".repeat(16)}-${"cd".repeat(8)}-01`, tracestate: "a=b" }

  for (const [type, required] of [
    ["sns", { topicArn }],
    ["sqs", { queueUrl }],
  ] as const) {
    test(`are also those of the config, with ${type}; empty ones are left out`, () => {
      const shown = preview(type, { ...required, attributes }).attributes
      expect(shown).toMatchObject({ region: "apt_1", kind: "appointment.created", type: "appointment.created" })
      expect(shown).not.toHaveProperty("none")
    })

    test(`are ten at most with ${type}: the trace gives way to those of the config and to a signature`, () => {
      const five = Object.fromEntries(["a", "b", "c", "d", "e"].map((name) => [name, "{{id}}"]))
      const sign = { scheme: "standardWebhooks", secret: `whsec_${Buffer.alloc(24, 1).toString("base64")}` }
      const shown = preview(type, { ...required, attributes: five, sign }, entry(1, { trace })).attributes ?? {}
      expect(Object.keys(shown)).toHaveLength(10)
      expect(shown).toMatchObject({ ...Object.fromEntries(Object.keys(five).map((name) => [name, "evt_1"])) })
      expect(shown).toMatchObject({ idempotency_key: "evt_1", "webhook-signature": "***" })
      expect(shown).not.toHaveProperty("traceparent")
    })

    test(`are refused if ${type} doesn't take them`, () => {
      const six = Object.fromEntries([..."abcdef"].map((name) => [name, "x{{id}}"]))
      expect(() => preview(type, { ...required, attributes: six })).toThrow(/5 of them can be your own/)
      for (const name of ["a b", "AWS.x", ".a", "a..b", ""]) {
        expect(() => preview(type, { ...required, attributes: { [name]: "{{id}}" } })).toThrow(
          /not a name of an attribute/,
        )
      }
    })
  }
})

describe("the place of a message", () => {
  const expression = { jmespath: "join('/', ['scheduling', data.object.id])" }
  for (const [type, required, place] of [
    ["kafka", { brokers: ["b:9092"] }, "topic"],
    ["nats", { servers: ["n:4222"] }, "subject"],
  ] as const) {
    test(`may be made by an expression, with ${type}; characters that a ${place} can't have are replaced`, () => {
      expect(preview(type, { ...required, [place]: expression })).toMatchObject({ [place]: "scheduling_apt_1" })
      expect(targetOf(type, { ...required, [place]: expression })).toMatch(/^join\(.+\) at ./)
    })
  }
})
