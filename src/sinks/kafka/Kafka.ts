/**
 * The Kafka sink: a record an event, in batches, acknowledged by every in-sync
 * replica.
 *
 * **Promise.** Events of one key come out in the order they went in, across
 * retries too where the lane keeps `order: key`: a key has one partition, and
 * nothing passes a record of its partition that failed in the same batch. What
 * the broker will never take, such as an event over its limit, is told apart
 * from the rest of its batch, which passes.
 *
 * **Trap.** A record stays what it was only as long as its partition does: when
 * a topic gets more partitions, keys move, as with every Kafka producer.
 */
import { Duration, Effect, Redacted, Result, Schedule, Schema, type Scope } from "effect"
import { Units } from "../../config/schema/Units.ts"
import type { Entry } from "../../event/Entry.ts"
import { eventTypes } from "../../event/EventType.ts"
import { idempotencyKey } from "../../event/IdempotencyKey.ts"
import { traceHeaders } from "../../event/TraceContext.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import * as Shown from "../../formats/DisplayBytes.ts"
import * as Template from "../../formats/Template.ts"
import * as Certificates from "../Certificates.ts"
import { rendered } from "../Rendered.ts"
import { allSent, type Failures, type Limits, type Sink, SinkError, type SinkType } from "../Sink.ts"
import {
  type ClientOptions,
  compressions,
  type KafkaClient,
  type KafkaRecord,
  KafkaTrouble,
  mechanisms,
  place,
  type Topic,
  timedOut,
} from "./KafkaClient.ts"
import * as KafkaTroubles from "./KafkaErrors.ts"
import { partitionOf } from "./Partition.ts"

// --- config ------------------------------------------------------------------

const count = (description: string, value: number, maximum: number) =>
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum }, { expected: `a whole number from 1 to ${maximum}` }))
    .annotate({ description, default: value })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed(value)))

const broker = Schema.String.check(
  Schema.isPattern(/^(\[[0-9A-Fa-f:.]+\]|[^\s:/[\]]+):\d{1,5}$/u, {
    message: 'this is no broker: write host and port, such as "broker-1.example.com:9092"',
  }),
)

export const KafkaConfig = Schema.Struct({
  brokers: Schema.Array(broker)
    .annotate({ description: "Where to begin; the brokers name the others", examples: [["127.0.0.1:9092"]] })
    .check(Schema.isMinLength(1, { message: "without a broker there is nowhere to begin" })),
  client: Schema.Literals(["platformatic", "kafkajs"])
    .annotate({ description: "The client library: the faster one, or the one with the longest record" })
    .annotate({ default: "platformatic" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("platformatic"))),
  clientId: Schema.NonEmptyString.check(Schema.isPattern(/^\S+$/u, { message: "a client id has no spaces" }))
    .annotate({ description: "What the brokers call the relay in their logs and quotas", default: "relay" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("relay"))),
  topic: Schema.NonEmptyString.annotate({
    description: "The topic; may hold placeholders",
    examples: ["events", "scheduling.{{resource}}"],
  }),
  // The lane reads it too: what keeps events in order is what places them.
  key: Schema.NonEmptyString.annotate({
    description: "A template over the envelope: what `order` keeps apart",
    default: "{{account_id}}",
  }).pipe(Schema.withDecodingDefaultKey(Effect.succeed("{{account_id}}"))),
  headers: Schema.Record(Schema.String, Schema.String)
    .annotate({ description: "Headers beside those of the relay; values may hold placeholders" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  format: Schema.Literals(["raw", "cloudevents"])
    .annotate({
      description: "The signed bytes both times; with `cloudevents` the headers are those of CloudEvents 1.0",
      default: "raw",
    })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("raw"))),
  compression: Schema.Literals(compressions)
    .annotate({ description: "How batches are compressed; kafkajs knows `none` and `gzip`", default: "none" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("none"))),
  sasl: Schema.optionalKey(
    Schema.Struct({
      mechanism: Schema.Literals(mechanisms).annotate({ description: "How to log in" }),
      username: Schema.NonEmptyString.annotate({ description: "The user" }),
      password: Schema.RedactedFromValue(Schema.NonEmptyString).annotate({ description: "Its password" }),
    }).annotate({ description: "Log in to the brokers" }),
  ),
  tls: Schema.optionalKey(
    Certificates.CertificatesConfig.annotate({
      description: "Speak TLS to the brokers; `{}` trusts the system's authorities",
    }),
  ),
  createTopics: Schema.optionalKey(
    Schema.Struct({
      partitions: count("Partitions of a new topic", 6, 10_000),
      replication: count("Copies of each partition", 3, 100),
    }).annotate({ description: "Make topics that are missing; without it they must be there" }),
  ),
  batch: Schema.Struct({
    maxEvents: count("Events in a batch at most", 500, 1_000),
    maxBytes: Units.bytes.or("512 KiB", "Bytes of bodies in a batch at most; a larger event goes alone"),
    linger: Units.duration.or("20 millis", "How long a batch may wait to fill"),
  })
    .annotate({ description: "How batches fill" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  requestTimeout: Units.duration.or("8 seconds", "How long the brokers may take for a batch"),
}).check(
  Schema.makeFilter((config: { readonly client: string; readonly compression: string }) =>
    config.client === "kafkajs" && !["none", "gzip"].includes(config.compression)
      ? { path: ["compression"], issue: 'kafkajs knows "none" and "gzip" only: take one, or the other client' }
      : undefined,
  ),
)
export type KafkaConfig = typeof KafkaConfig.Type

// --- encode ------------------------------------------------------------------

type Encoded = Omit<KafkaRecord, "partition">
type Header = readonly [name: string, value: string]

const rawHeaders = (entry: Entry): ReadonlyArray<Header> => {
  const { id, type } = entry.event
  return [
    ["content-type", "application/json"],
    ["idempotency-key", idempotencyKey(entry)],
    ...(id === "" ? [] : [["x-relay-event-id", id] as const]),
    ...(type === "" ? [] : [["x-relay-event-type", type] as const]),
  ]
}

/** The bytes are the signed ones in either format, so their signature goes along. */
const provenance = ({ event }: Entry): ReadonlyArray<Header> => [
  ...(event.signature === "" ? [] : [["x-service-signature", event.signature] as const]),
  ...(event.webhookId === "" ? [] : [["x-service-webhook-id", event.webhookId] as const]),
]

const encoder = (config: KafkaConfig): ((entry: Entry) => Encoded) => {
  const topic = Template.compile(config.topic, "topic")
  const key = Template.compile(config.key, "text")
  const own = Object.entries(config.headers).map(([name, value]) => [name, Template.compile(value, "text")] as const)
  return (entry) => ({
    topic: topic.render(entry),
    key: key.render(entry),
    value: entry.event.body,
    headers: [
      ...(config.format === "raw" ? rawHeaders(entry) : CloudEvents.binary(entry, CloudEvents.kafka)),
      ...provenance(entry),
      ...traceHeaders(entry.event),
      ...own.map(([name, value]) => [name, value.render(entry)] as const),
    ],
  })
}

// --- send --------------------------------------------------------------------

/** A record, and where its event stands in the lane's batch. */
interface Placed {
  readonly index: number
  readonly record: KafkaRecord
}

const loadClient = (client: KafkaConfig["client"], options: ClientOptions) =>
  Effect.flatMap(
    Effect.promise(() => (client === "kafkajs" ? import("./KafkaJs.ts") : import("./Platformatic.ts"))),
    ({ make }) => make(options),
  )

const isTopicName = (topic: string): boolean => /^[A-Za-z0-9._-]{1,249}$/.test(topic) && !/^\.\.?$/.test(topic)

const make = Effect.fnUntraced(function* (config: KafkaConfig): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const certificates = config.tls && (yield* Certificates.read(config.tls))
  const client: KafkaClient = yield* loadClient(config.client, {
    clientId: config.clientId,
    brokers: config.brokers,
    ...(certificates !== undefined && {
      tls: {
        ...(certificates.ca !== undefined && { ca: certificates.ca }),
        ...(certificates.certificate !== undefined && { cert: certificates.certificate }),
        ...(certificates.key !== undefined && { key: certificates.key }),
      },
    }),
    ...(config.sasl !== undefined && {
      sasl: { ...config.sasl, password: Redacted.value(config.sasl.password) },
    }),
    compression: config.compression,
    requestTimeout: Duration.toMillis(config.requestTimeout),
  })
  const encode = encoder(config)
  const brokers = config.brokers.join(", ")
  const isTemplated = Template.hasPlaceholder(config.topic)
  const { createTopics } = config
  let turn = 0

  const within = <A>(call: Effect.Effect<A, KafkaTrouble>): Effect.Effect<A, KafkaTrouble> =>
    Effect.timeoutOrElse(call, {
      duration: config.requestTimeout,
      orElse: () => Effect.fail(new KafkaTrouble({ code: timedOut, detail: "" })),
    })

  const fault = (trouble: KafkaTrouble, record?: Pick<KafkaRecord, "topic" | "value">): SinkError =>
    new SinkError({
      reason: KafkaTroubles.reasonOf(trouble, {
        brokers,
        topic: record?.topic ?? (isTemplated ? "" : config.topic),
        isTemplated,
        bytes: record?.value.length ?? 0,
      }),
    })

  /** A topic's facts; made first where it is missing and may be. */
  const topicOf = (name: string): Effect.Effect<Topic, KafkaTrouble> => {
    if (!isTopicName(name)) return Effect.fail(new KafkaTrouble({ code: "INVALID_TOPIC_EXCEPTION", detail: "" }))
    if (createTopics === undefined) return client.topic(name)
    return Effect.catch(client.topic(name), (trouble) =>
      trouble.code === "UNKNOWN_TOPIC_OR_PARTITION"
        ? client.createTopic(name, createTopics).pipe(
            // The other brokers hear of it a moment later.
            Effect.andThen(
              Effect.retry(client.topic(name), Schedule.max([Schedule.spaced("100 millis"), Schedule.recurs(20)])),
            ),
          )
        : Effect.fail(trouble),
    )
  }

  /** Sends records and notes what failed, each by itself; a batch refused for one record is taken apart, in order. */
  const deliver = (
    placed: ReadonlyArray<Placed>,
    failures: Map<number, SinkError>,
  ): Effect.Effect<void, KafkaTrouble> =>
    Effect.gen(function* () {
      const refused: Array<Placed> = []
      for (const [at, trouble] of yield* client.send(placed.map(({ record }) => record))) {
        const one = placed[at] as Placed
        if (KafkaTroubles.isOneRecords(trouble)) refused.push(one)
        failures.set(one.index, fault(trouble, one.record))
      }
      for (const some of Map.groupBy(refused, ({ record }) => place(record)).values()) {
        if (some.length > 1) yield* takeApart(some, failures)
      }
    })

  const takeApart = Effect.fnUntraced(function* (placed: ReadonlyArray<Placed>, failures: Map<number, SinkError>) {
    const middle = placed.length >> 1
    let stop: SinkError | undefined
    for (const half of [placed.slice(0, middle), placed.slice(middle)]) {
      for (const { index } of half) {
        if (stop === undefined) failures.delete(index)
        else failures.set(index, stop)
      }
      if (stop !== undefined) continue
      yield* deliver(half, failures)
      // What comes after a record that is to be tried again must not overtake it.
      stop = half.map(({ index }) => failures.get(index)).find((failure) => failure !== undefined && !isFinal(failure))
    }
  })

  const sendBatch = Effect.fnUntraced(function* (batch: ReadonlyArray<Entry>) {
    const failures = new Map<number, SinkError>()
    const placed: Array<Placed> = []
    const topics = new Map<string, Topic | KafkaTrouble>()
    turn += 1
    for (const [index, entry] of batch.entries()) {
      const made = rendered(() => encode(entry))
      if (Result.isFailure(made)) {
        failures.set(index, made.failure)
        continue
      }
      const encoded = made.success
      const { topic: name, key } = encoded
      let topic = topics.get(name)
      if (topic === undefined) {
        topic = yield* Effect.catch(topicOf(name), (trouble) =>
          KafkaTroubles.isTopics(trouble) ? Effect.succeed(trouble) : Effect.fail(trouble),
        )
        topics.set(name, topic)
      }
      if (topic instanceof KafkaTrouble) {
        failures.set(index, fault(topic, encoded))
        continue
      }
      // Without a key a batch stays together, and the next goes elsewhere.
      const partition = key === "" ? turn % topic.partitions : partitionOf(key, topic.partitions)
      placed.push({ index, record: { ...encoded, partition } })
    }
    if (placed.length > 0) yield* deliver(placed, failures)
    return failures
  })

  const send = (batch: ReadonlyArray<Entry>): Effect.Effect<Failures, SinkError> => {
    if (batch.length === 0) return Effect.succeed(allSent)
    const wait = client.throttled()
    if (wait > shortThrottle) {
      return Effect.fail(new SinkError({ reason: KafkaTroubles.throttledFor(wait, brokers, config.clientId) }))
    }
    const sending = Effect.mapError(within(sendBatch(batch)), (trouble) => fault(trouble))
    return wait > 0 ? Effect.delay(sending, wait) : sending
  }

  // --- check ---------------------------------------------------------------

  const missing = (trouble: KafkaTrouble) => trouble.code === "UNKNOWN_TOPIC_OR_PARTITION" && createTopics !== undefined

  const checkTopic = Effect.fnUntraced(function* (name: string) {
    if (!isTopicName(name)) return yield* new KafkaTrouble({ code: "INVALID_TOPIC_EXCEPTION", detail: "" })
    yield* client.topic(name)
    if ((yield* client.mayWrite(name)) === false) {
      return yield* new KafkaTrouble({ code: "TOPIC_AUTHORIZATION_FAILED", detail: "" })
    }
  })

  const check = Effect.gen(function* () {
    yield* client.brokers
    if (!isTemplated) yield* Effect.catchIf(checkTopic(config.topic), missing, () => Effect.void)
  }).pipe(
    within,
    Effect.mapError((trouble) => fault(trouble)),
  )

  const advise = ({ maxBody }: Limits) =>
    Effect.gen(function* () {
      const advice: Array<string> = []
      for (const topic of isTemplated ? foreseeableTopics(config.topic) : [config.topic]) {
        const found = yield* Effect.result(Effect.andThen(checkTopic(topic), client.largestBatch(topic)))
        if (found._tag === "Failure") {
          // Whoever may write need not be one who may look at limits.
          const isSilent = missing(found.failure) || found.failure.code === "CLUSTER_AUTHORIZATION_FAILED"
          if (!isSilent) advice.push(fault(found.failure, { topic, value: new Uint8Array() }).message)
        } else if (found.success < maxBody + overhead) {
          advice.push(
            `topic ${topic} takes ${found.success} bytes at most, and a delivery of ${maxBody} needs ${maxBody + overhead} with what stands around it: such an event becomes a dead letter; raise max.message.bytes, or lower the webhook's maxBody`,
          )
        }
      }
      return advice
    }).pipe(
      within,
      Effect.mapError((trouble) => fault(trouble)),
    )

  const { maxEvents, maxBytes, linger } = config.batch
  return {
    batch: { maxEvents, maxBytes, linger: Duration.toMillis(linger) },
    send,
    check,
    advise,
  }
})

/** A rejection is the event's own end: what comes after it may go. */
const isFinal = ({ reason }: SinkError): boolean => reason._tag === "DeliveryRejected"

/** Milliseconds of a throttle that are waited out without a word. */
const shortThrottle = 1_000

/** Bytes around a body, in a batch of one: headers, key, and the batch's own. */
const overhead = 1_024

/** The topics that the known event types lead to; none where the template needs more than a type. */
const foreseeableTopics = (template: string): ReadonlyArray<string> => {
  if (/\{\{(?!\s*(type|resource)\s*\}\})/.test(template)) return []
  const topic = Template.compile(template, "topic")
  return [...new Set(eventTypes.map((type) => topic.render(sampleOf(type))))]
}

const sampleOf = (type: string): Entry => ({
  sequence: 0,
  event: {
    id: "",
    type,
    accountId: "",
    webhook: "",
    webhookId: "",
    signature: "",
    secret: "",
    receivedAt: 0,
    body: new Uint8Array(),
  },
  sinks: [],
  replayed: false,
})

export const Kafka: SinkType<KafkaConfig> = {
  type: "kafka",
  config: KafkaConfig,
  concurrency: 1,
  open: (_, config) => make(config),
  // The partition is left out: it depends on how many the topic has.
  preview: (config, batch) =>
    batch.map(encoder(config)).map(({ topic, key, headers, value }) => ({
      topic,
      ...(key !== "" && { key }),
      headers: Object.fromEntries(headers),
      value: Shown.show(value),
    })),
}
