/**
 * Answers of Kafka's brokers and of schema registries. A broker's answer is bytes
 * behind the number of the request's version; a registry's is a text that begins
 * with its status.
 */
import { produceV3, produceV5, produceV8, produceV9, produceV11, Reader, Writer } from "@platformatic/kafka"
import { Cause, Clock, Effect, Exit, Result, Schema } from "effect"
import { hasProperty } from "effect/Predicate"
import { KafkaError, type KafkaRecord, kafkaError, tokenRefusal } from "../../src/sinks/kafka/KafkaClient.ts"
import { KafkaConfig } from "../../src/sinks/kafka/KafkaConfig.ts"
import { sinkErrorOf } from "../../src/sinks/kafka/KafkaErrors.ts"
import * as Produce from "../../src/sinks/kafka/Produce.ts"
import * as SchemaRegistry from "../../src/sinks/kafka/SchemaRegistry.ts"
import { SinkError } from "../../src/sinks/Sink.ts"
import { entry } from "../sinks/samples.ts"
import type { Input } from "./Mutations.ts"
import { Broken, type Play, type Target } from "./Search.ts"

type Client = Parameters<typeof Produce.make>[0]
type Send = Parameters<Awaited<ReturnType<Client["connections"]["get"]>>["send"]>
type Answered = ReturnType<typeof produceV11.parseResponse>

/** Runs an effect on a clock that doesn't wait. */
const played = async <A, E>(effect: Effect.Effect<A, E>): Promise<Exit.Exit<A, E>> => {
  const real = await Effect.runPromise(Clock.Clock)
  const hasty: Clock.Clock = Object.create(real, { sleep: { value: () => Effect.yieldNow } })
  return Effect.runPromiseExit(Effect.provideService(effect, Clock.Clock, hasty))
}

/** Returns the error of an exit. Anything else that ended it is a bug. */
const errorOf = <A, E>(exit: Exit.Exit<A, E>): E | undefined => {
  if (Exit.isSuccess(exit)) return undefined
  const error = Cause.findError(exit.cause)
  if (Result.isFailure(error)) throw Cause.squash(exit.cause)
  return error.success
}

const longestMessage = 3_000
/** A message is one line of a length that a person reads, and tells no secret. */
const requireMessage = ({ message }: { readonly message: string }, ...secrets: ReadonlyArray<string>): void => {
  // These characters must not reach a terminal.
  if (/[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e]/u.test(message))
    throw new Broken("a message with control characters", JSON.stringify(message))
  if (message.length > longestMessage) throw new Broken("a message without an end", message.slice(0, 200))
  if (secrets.some((secret) => message.includes(secret))) throw new Broken("a message tells a secret", message)
}

// Brokers.

const versions = [produceV3, produceV5, produceV8, produceV9, produceV11]
const records: ReadonlyArray<KafkaRecord> = [0, 1, 0].map((partition, index) => ({
  topic: "events",
  partition,
  key: "",
  value: Buffer.from(String(index)),
  headers: [],
}))
const metadata = {
  brokers: new Map([[1, { host: "broker", port: 9092 }]]),
  topics: new Map([["events", { partitions: [{ leader: 1 }, { leader: 1 }], partitionsCount: 2 }]]),
}

const broker: Play = async (input) => {
  const { api, parseResponse } = versions[(input[0] ?? 0) % versions.length] ?? produceV11
  /** Each answer is as long as the byte before it says, the last as long as the rest. */
  const answers: Array<Input> = []
  for (let at = 1; at < input.length; ) {
    const length = input[at] ?? 0
    answers.push(input.subarray(at + 1, length === 255 ? undefined : at + 1 + length))
    at = length === 255 ? input.length : at + 1 + length
  }
  let next = 0
  /** Partitions that some answer said were written: by an earlier attempt, for the second code. */
  const written = new Set<number>()
  const note = (response: Answered): Answered => {
    const topic = response.responses?.find(({ name }) => name === "events")
    for (const { index, errorCode } of topic?.partitionResponses ?? [])
      if (errorCode === 0 || errorCode === 46) written.add(index)
    return response
  }
  const send = (...[key, version, payload, , , , done]: Send): void => {
    payload()
    const answer = answers[next++]
    let response: Answered | undefined
    let error: unknown = new Error("closed")
    try {
      response = answer && note(parseResponse(1, key, version, Reader.from(Buffer.from(answer))))
    } catch (thrown) {
      error = thrown
      if (hasProperty(thrown, "response") && thrown.response !== undefined) note(thrown.response as Answered)
    }
    done(response === undefined ? (error as Error) : null, response as never)
  }
  const client = {
    listApis: async () => [{ apiKey: 0, name: "Produce", minVersion: api.version, maxVersion: api.version }],
    initIdempotentProducer: async () => ({ producerId: 1n, producerEpoch: 0 }),
    metadata: async () => metadata,
    connections: { get: async () => ({ send }) },
  }
  const throttles: Array<number> = []
  const producing = Produce.make(client as unknown as Client, {
    compression: "none",
    requestTimeout: 1_000,
    errorOf: (error) => kafkaError("UNREACHABLE", error instanceof Error ? error.name : ""),
    throttled: (millis) => throttles.push(millis),
  })
  const exit = await played(producing(records))
  const failure = errorOf(exit)
  const errors = Exit.isSuccess(exit) ? [...exit.value.values()] : [failure]
  for (const error of errors) {
    if (!(error instanceof KafkaError)) throw new Broken("a failure of another kind", String(error))
    const place = { brokers: "b:9092", topic: "events", isTemplated: false, bytes: 1, smaller: "", isKeyless: true }
    requireMessage(sinkErrorOf(error, place))
  }
  const unwritten =
    Exit.isSuccess(exit) && records.some(({ partition }, index) => !exit.value.has(index) && !written.has(partition))
  if (unwritten) throw new Broken("a record counts as written without an answer")
  return `${api.version} ${errors.map((error) => error?.code).join(" ")}${throttles.length > 0 ? " throttled" : ""}`
}

/** An answer in the format of a version of the response. */
const answerOf = (version: number, codes: ReadonlyArray<number>, words: string | null = null): Buffer => {
  const compact = version >= 9
  const writer = Writer.create().appendArray(
    [codes],
    (topic) => {
      topic.appendString("events", compact).appendArray(
        codes.map((code, index) => [index, code] as const),
        (partition, [index, code]) => {
          partition.appendInt32(index).appendInt16(code).appendInt64(0n).appendInt64(-1n)
          if (version >= 5) partition.appendInt64(0n)
          if (version >= 8) {
            partition.appendArray(
              words === null ? [] : [words],
              (one, text) => one.appendInt32(0).appendString(text, compact),
              compact,
              compact,
            )
            partition.appendString(words, compact)
          }
        },
        compact,
        compact,
      )
    },
    compact,
    compact,
  )
  writer.appendInt32(codes.length * 10)
  if (compact) writer.appendTaggedFields()
  return writer.buffer
}

const brokerSeeds = (): ReadonlyArray<Uint8Array> =>
  versions.flatMap(({ api: { version } }, index) =>
    [
      [answerOf(version, [0, 0])],
      [answerOf(version, [6, 0]), answerOf(version, [0, 0])],
      [answerOf(version, [87, 10], "one\nrecord has no key"), answerOf(version, [46, 45]), answerOf(version, [0, 47])],
    ].map((answers) =>
      Buffer.concat([
        Buffer.from([index]),
        ...answers.flatMap((answer) => [Buffer.from([Math.min(answer.length, 254)]), answer.subarray(0, 254)]),
      ]),
    ),
  )

// Schema registries.

const password = "canary-registry-secret"
const isHeader = /^(?!content-length|transfer-encoding)[a-z-]+$/i

/** An answer as a text has it: a line with the status, the headers, a blank line, and the body. */
const responseOf = (text: string): Response => {
  const [head = "", ...lines] = text.split("\n")
  const end = Math.max(lines.indexOf(""), 0)
  const headers = new Headers()
  for (const line of lines.slice(0, end)) {
    const [name = "", ...value] = line.split(":")
    if (isHeader.test(name)) headers.append(name, value.join(":").replace(/[^\t\x20-\x7e]/g, "~"))
  }
  const status = Number(/\d{3}/.exec(head)?.[0] ?? 200)
  const isStatus = status >= 200 && status <= 599
  const isBodyless = [204, 205, 304].includes(status)
  return new Response(isBodyless ? null : lines.slice(end + 1).join("\n"), { status: isStatus ? status : 200, headers })
}

/** Runs an effect whose requests get these answers in their order, and the last of them again. */
const answering = async <A>(answers: ReadonlyArray<string>, asking: Effect.Effect<A, SinkError>) => {
  const real = globalThis.fetch
  let next = 0
  const answer = async () => responseOf(answers[Math.min(next++, answers.length - 1)] ?? "500")
  globalThis.fetch = Object.assign(answer, { preconnect: () => {} })
  try {
    return errorOf(await Effect.runPromiseExit(asking))
  } finally {
    globalThis.fetch = real
  }
}

const url = "https://registry.example/api"
const configs = [{}, { autoRegister: false }, { subject: "{{type}}-value" }].map((more) =>
  Schema.decodeUnknownSync(KafkaConfig)({
    brokers: ["b:9092"],
    topic: "events",
    schema: { type: "json", registry: { url, username: "user", password }, ...more },
  }),
)

const registry: Play = async (input) => {
  const { schema, topic } = configs[(input[0] ?? 0) % configs.length] ?? {}
  if (schema === undefined || topic === undefined) return ""
  const answers = Buffer.from(input).toString("utf8").split("\0")
  const one = entry(1)
  const sides: Array<string> = []
  const judge = (error: unknown): void => {
    if (error !== undefined && !(error instanceof SinkError))
      throw new Broken("a failure of another kind", String(error))
    if (error !== undefined) requireMessage(error, password)
    sides.push(error?.reason._tag ?? "ok")
  }
  await Effect.runPromise(
    Effect.scoped(
      Effect.gen(function* () {
        const schemas = yield* SchemaRegistry.make({ schema, topic })
        for (const asking of [schemas.prepare([one]), schemas.check, schemas.advise([one.event.type])])
          judge(yield* Effect.promise(() => answering(answers, Effect.asVoid(asking))))
        const framed = schemas.frame(one, one.event.body)
        if (framed instanceof SinkError) judge(framed)
        else if (framed[0] !== 0 || !Buffer.from(framed.subarray(5)).equals(Buffer.from(one.event.body)))
          throw new Broken("a frame of another form")
      }),
    ),
  )
  return sides.join(" ")
}

const registrySeeds: ReadonlyArray<string> = [
  '200\ncontent-type: application/json\n\n{"id":258}',
  '404\ncontent-type: application/json\n\n{"error_code":40401,"message":"Subject not found"}\x100\n\n{"id":7}',
  '409\n\n{"error_code":409,"message":"incompatible with an earlier schema"}',
  '429\nretry-after: 120\n\n{"message":"slow down"}',
  '401\n\n{"error_code":40101,"message":"Basic dXNlcjpjYW5hcnktcmVnaXN0cnktc2VjcmV0 for canary-registry-secret"}',
  '200\n\n{"is_compatible":false,"messages":["a","b"]}',
  "502\nserver: cloudflare\ncontent-type: text/html\n\n<html><title>Bad gateway</title></html>",
  '200\n\n["JSON","AVRO"]',
]

export const kafka: Target = {
  name: "kafka",
  holds:
    "An answer of a broker or a registry is an error of a known kind, or none. Its message is one line, and has no secret. A refused token is understood.",
  longest: 4_096,
  most: 250,
  words: [
    "NaN",
    "-0",
    "error_code",
    "is_compatible",
    "retry-after",
    "cloudflare",
    "application/json",
    '{"id":',
    "\0",
    "\n\n",
  ],
  seeds: () => [...brokerSeeds(), ...registrySeeds.map((text) => Buffer.from(text))],
  open: async () => (input) => {
    const refused = tokenRefusal(input)
    if (refused !== undefined) requireMessage(refused)
    // A registry's answers begin with a digit.
    return (input[0] ?? 0) >= 0x20 ? registry(input) : broker(input)
  },
}
