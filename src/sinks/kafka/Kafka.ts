/**
 * The Kafka sink: one record per event, in batches, acknowledged by every in-sync
 * replica.
 *
 * **Guarantee.** Events of one key are delivered in order, also across retries
 * where the lane keeps `order: key`: a key has one partition, and nothing
 * overtakes a failed record of its partition. A record that the broker will never
 * accept, such as one over its limit, fails alone; the rest of its batch is sent.
 *
 * **Gotcha.** When a topic gets more partitions, keys move to other partitions,
 * as with every Kafka producer.
 */
import { Duration, Effect, Redacted, type Scope } from "effect"
import type { Entry } from "../../event/Entry.ts"
import * as DisplayBytes from "../../formats/DisplayBytes.ts"
import * as Template from "../../formats/Template.ts"
import * as Certificates from "../Certificates.ts"
import { foreseeable } from "../Foreseeable.ts"
import { type Failures, type Limits, passed, type Sink, type SinkError, type SinkType } from "../Sink.ts"
import * as Diagnosis from "./Diagnosis.ts"
import * as KafkaAdvice from "./KafkaAdvice.ts"
import * as KafkaBatch from "./KafkaBatch.ts"
import type { ClientOptions, KafkaError } from "./KafkaClient.ts"
import { doubts, KafkaConfig } from "./KafkaConfig.ts"
import * as KafkaErrors from "./KafkaErrors.ts"
import { encoder } from "./KafkaMessage.ts"
import * as KafkaTopics from "./KafkaTopics.ts"

const clientOptions = Effect.fnUntraced(function* (config: KafkaConfig): Effect.fn.Return<ClientOptions, SinkError> {
  const { clientId, brokers, tls, sasl, compression, requestTimeout } = config
  const certificates = tls && (yield* Certificates.read(tls))
  return {
    clientId,
    brokers,
    ...(certificates !== undefined && { tls: certificates }),
    ...(sasl !== undefined && { sasl: { ...sasl, password: Redacted.value(sasl.password) } }),
    compression,
    requestTimeout: Duration.toMillis(requestTimeout),
  }
})

const loadClient = (client: KafkaConfig["client"], options: ClientOptions) =>
  Effect.flatMap(
    Effect.promise(() => (client === "kafkajs" ? import("./KafkaJs.ts") : import("./Platformatic.ts"))),
    ({ make }) => make(options),
  )

/** Throttling up to this is waited for in silence, in milliseconds. */
const shortThrottle = 1_000

const make = Effect.fnUntraced(function* (config: KafkaConfig): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const options = yield* clientOptions(config)
  const client = yield* loadClient(config.client, options)
  const topics = KafkaTopics.make(client, config.createTopics)
  const brokers = config.brokers.join(", ")
  const isTemplated = Template.hasPlaceholder(config.topic)

  const place = { brokers, topic: isTemplated ? "" : config.topic, isTemplated, bytes: 0, isKeyless: false }
  const fault = (error: KafkaError, more: Partial<KafkaErrors.Place> = {}): SinkError =>
    KafkaErrors.sinkErrorOf(error, { ...place, ...more })
  const within = <A>(call: Effect.Effect<A, KafkaError>): Effect.Effect<A, SinkError> =>
    Effect.mapError(Diagnosis.within(call, options.requestTimeout, options), (error) => fault(error))

  const sendBatch = KafkaBatch.make(client, topics, encoder(config), (error, { topic, key, value }) =>
    fault(error, { topic, bytes: value.length, isKeyless: key === "" }),
  )
  /** The address of the config may lead to another cluster by now, while the old one lives on without the topic. */
  const restartIf = (isWrong: boolean) => (isWrong ? client.restart : Effect.void)
  const isMisconfigured = ({ reason }: SinkError) => reason._tag === "SinkMisconfigured"
  const send = (batch: ReadonlyArray<Entry>): Effect.Effect<Failures, SinkError> => {
    if (batch.length === 0) return passed
    const wait = client.throttled()
    if (wait > shortThrottle) return Effect.fail(KafkaErrors.throttledFor(wait, brokers, config.clientId))
    const sending = within(sendBatch(batch)).pipe(
      Effect.tap((failures) => restartIf(failures.values().some(isMisconfigured))),
      Effect.tapError((error) => restartIf(isMisconfigured(error))),
    )
    return wait > 0 ? Effect.delay(sending, wait) : sending
  }

  const checked = Effect.catchIf(topics.check(config.topic), topics.willBeMade, () => Effect.void)
  const check = within(isTemplated ? Effect.asVoid(client.brokers) : Effect.andThen(client.brokers, checked))

  const cluster: KafkaAdvice.Cluster = {
    client,
    topics,
    brokers: config.brokers,
    reach: (broker) => {
      const own = { ...options, brokers: [broker] }
      const reaching = Effect.flatMap(loadClient(config.client, own), (one) => one.brokers)
      return Diagnosis.within(reaching, options.requestTimeout / 2, own)
    },
    aboutBroker: (error, broker) => fault(error, { brokers: broker, topic: "", isTemplated: false }).message,
    aboutTopic: (error, topic) => fault(error, { topic }).message,
  }
  const names = (types: Limits["eventTypes"]) => (isTemplated ? foreseeable(config.topic, types) : [config.topic])
  const advise = ({ maxBody, eventTypes }: Limits) =>
    Effect.all([KafkaAdvice.onBrokers(cluster), KafkaAdvice.onTopics(cluster, names(eventTypes), maxBody)], {
      concurrency: "unbounded",
    }).pipe(
      Effect.map((advice) => advice.flat()),
      within,
    )

  const { maxEvents, maxBytes, linger } = config.batch
  return { batch: { maxEvents, maxBytes, linger: Duration.toMillis(linger) }, send, check, advise }
})

export const Kafka: SinkType<KafkaConfig> = {
  config: KafkaConfig,
  doubts,
  libraries: ["@platformatic/", "kafkajs", "fastq"],
  concurrency: 1,
  open: make,
  // Without the partition, which depends on the topic.
  preview: (config, batch) =>
    batch.map(encoder(config)).map(({ topic, key, headers, value }) => ({
      topic,
      ...(key !== "" && { key }),
      headers: Object.fromEntries(headers),
      value: DisplayBytes.show(value),
    })),
}
