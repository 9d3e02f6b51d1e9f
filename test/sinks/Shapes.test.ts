/** Bodies of the user's own, as local sinks receive them, and the reasons of dead letters. */
import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Schema, type Scope } from "effect"
import { File, FileConfig } from "../../src/sinks/file/File.ts"
import type { Sink, SinkError } from "../../src/sinks/Sink.ts"
import { targetOf } from "../../src/sinks/SinkTypes.ts"
import { directory } from "../lib/directory.ts"
import { it } from "../lib/effect.ts"
import { awsServer } from "./aws/awsServer.ts"
import { openEventBridge } from "./eventbridge/eventBridgeSink.ts"
import { preview } from "./preview.ts"
import { s3Server } from "./s3/s3Server.ts"
import { openS3 } from "./s3/s3Sink.ts"
import { entry } from "./samples.ts"
import { doubled, shapes, withText } from "./shapes.ts"
import { snsServer } from "./sns/snsServer.ts"
import { openSns, topicArn } from "./sns/snsSink.ts"
import { openSqs, queueUrl } from "./sqs/sqsSink.ts"

type Config = Readonly<Record<string, unknown>>

interface Opened {
  readonly sink: Sink
  /** The bodies that were received. */
  readonly bodies: () => ReadonlyArray<string>
}

interface Receiver {
  readonly open: (shape: Config) => Effect.Effect<Opened, SinkError, Scope.Scope>
  /** The keys that the type needs, for a preview. */
  readonly required: Config
  /** A body of this size is too large for the sink. */
  readonly tooLarge?: number
  /** Whether the body must be a JSON object. */
  readonly takesObjects?: boolean
}

const bodiesOf = (all: ReadonlyArray<object>, key: string) =>
  all.map((one) => String((one as Record<string, unknown>)[key]))

const receivers: Readonly<Record<string, Receiver>> = {
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

for (const [type, { open, required, tooLarge, takesObjects = false }] of Object.entries(receivers)) {
  describe(`the sink ${type} with a body of the user's own`, () => {
    for (const { title, config, value } of shapes) {
      it.live(`delivers it: ${title}`, function* () {
        const { sink, bodies } = yield* open(config)
        expect((yield* sink.send([entry(1)])).size).toBe(0)
        expect(bodies().map((body) => JSON.parse(body))).toEqual([value])
        const shown = JSON.stringify(preview(type, { ...required, ...config }))
        expect(shown).toContain(JSON.stringify(value))
        expect(shown).not.toContain(entry(1).event.signature)
      })
    }

    const ofNull = takesObjects ? "makes a dead letter of an event without an object" : "delivers null"
    it.live(`${ofNull}, and the other events of its batch`, function* () {
      const body = { jmespath: "id == 'evt_2' && data || data.nowhere" }
      const { sink, bodies } = yield* open({ format: "template", body })
      const failures = yield* sink.send([entry(1), entry(2)])
      if (takesObjects) {
        expect([...failures.keys()]).toEqual([0])
        expect(failures.get(0)?.reason._tag).toBe("DeliveryRejected")
        expect(failures.get(0)?.message).toMatch(/"body" must make a JSON object/)
      } else expect(failures.size).toBe(0)
      expect(bodies()).toHaveLength(takesObjects ? 1 : 2)
      if (!takesObjects) expect(bodies()[0]).toBe("null")
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
        const failures = yield* sink.send([withText(tooLarge / 2), withText(10)])
        expect([...failures.keys()]).toEqual([0])
        expect(failures.get(0)?.reason._tag).toBe("DeliveryRejected")
        expect(failures.get(0)?.message).toMatch(/larger than|too large/)
        expect(bodies()).toEqual([JSON.stringify({ text: "x".repeat(20) })])
      })
    }
  })
}

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
