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
import { Duration, Effect, Redacted, Result, Schedule, type Scope } from "effect"
import type { Entry } from "../../event/Entry.ts"
import * as DisplayBytes from "../../formats/DisplayBytes.ts"
import * as Template from "../../formats/Template.ts"
import * as Certificates from "../Certificates.ts"
import { foreseeable } from "../Foreseeable.ts"
import { rendered } from "../Rendered.ts"
import { type Failures, isFinal, type Limits, passed, type Sink, SinkError, type SinkType } from "../Sink.ts"
import * as Diagnosis from "./Diagnosis.ts"
import {
  type ClientOptions,
  closed,
  type KafkaClient,
  KafkaError,
  type KafkaRecord,
  kafkaError,
  place,
  type Topic,
  timedOut,
} from "./KafkaClient.ts"
import { KafkaConfig } from "./KafkaConfig.ts"
import * as KafkaErrors from "./KafkaErrors.ts"
import { encoder } from "./KafkaMessage.ts"
import { partitionOf } from "./Partition.ts"
import { isTopicName } from "./TopicName.ts"

/** A record, and its event's index in the lane's batch. */
interface Placed {
  readonly index: number
  readonly record: KafkaRecord
}

const loadClient = (client: KafkaConfig["client"], options: ClientOptions) =>
  Effect.flatMap(
    Effect.promise(() => (client === "kafkajs" ? import("./KafkaJs.ts") : import("./Platformatic.ts"))),
    ({ make }) => make(options),
  )

const make = Effect.fnUntraced(function* (config: KafkaConfig): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const certificates = config.tls && (yield* Certificates.read(config.tls))
  const options: ClientOptions = {
    clientId: config.clientId,
    brokers: config.brokers,
    ...(certificates !== undefined && { tls: certificates }),
    ...(config.sasl !== undefined && {
      sasl: { ...config.sasl, password: Redacted.value(config.sasl.password) },
    }),
    compression: config.compression,
    requestTimeout: Duration.toMillis(config.requestTimeout),
  }
  const client: KafkaClient = yield* loadClient(config.client, options)
  const encode = encoder(config)
  const brokers = config.brokers.join(", ")
  const isTemplated = Template.hasPlaceholder(config.topic)
  const { createTopics } = config
  let turn = 0

  const within = <A>(call: Effect.Effect<A, KafkaError>): Effect.Effect<A, KafkaError> =>
    Effect.timeoutOrElse(call, {
      duration: config.requestTimeout,
      orElse: () => Effect.fail(kafkaError(timedOut)),
    }).pipe(Effect.catchIf(isClosed, (error) => Diagnosis.of(error, options)))

  const fault = (error: KafkaError, record?: Pick<KafkaRecord, "topic" | "value">): SinkError =>
    new SinkError({
      reason: KafkaErrors.reasonOf(error, {
        brokers,
        topic: record?.topic ?? (isTemplated ? "" : config.topic),
        isTemplated,
        bytes: record?.value.length ?? 0,
      }),
    })

  /** The topic; created first if it is missing and the config allows it. */
  const topicOf = (name: string): Effect.Effect<Topic, KafkaError> => {
    if (!isTopicName(name)) return Effect.fail(kafkaError("INVALID_TOPIC_EXCEPTION"))
    if (createTopics === undefined) return client.topic(name)
    return Effect.catch(client.topic(name), (error) =>
      error.code === "UNKNOWN_TOPIC_OR_PARTITION"
        ? client.createTopic(name, createTopics).pipe(
            // It takes a moment until every broker knows the topic.
            Effect.andThen(
              Effect.retry(client.topic(name), Schedule.max([Schedule.spaced("100 millis"), Schedule.recurs(20)])),
            ),
          )
        : Effect.fail(error),
    )
  }

  /** Sends records and adds their failures. A batch that is refused for one of its records is split, in order. */
  const deliver = (placed: ReadonlyArray<Placed>, failures: Map<number, SinkError>): Effect.Effect<void, KafkaError> =>
    Effect.gen(function* () {
      const refused: Array<Placed> = []
      for (const [at, error] of yield* client.send(placed.map(({ record }) => record))) {
        const one = placed[at] as Placed
        if (KafkaErrors.isOneRecords(error)) refused.push(one)
        failures.set(one.index, fault(error, one.record))
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
      // Later records must not overtake one that is retried.
      stop = half.map(({ index }) => failures.get(index)).find((failure) => failure !== undefined && !isFinal(failure))
    }
  })

  const sendBatch = Effect.fnUntraced(function* (batch: ReadonlyArray<Entry>) {
    const failures = new Map<number, SinkError>()
    const placed: Array<Placed> = []
    const topics = new Map<string, Topic | KafkaError>()
    turn += 1
    for (const [index, entry] of batch.entries()) {
      const made = rendered(() => encode(entry))
      if (Result.isFailure(made)) {
        failures.set(index, made.failure)
        continue
      }
      const encoded = made.success
      const { topic: name, key, value, headers } = encoded
      let topic = topics.get(name)
      if (topic === undefined) {
        topic = yield* Effect.catch(topicOf(name), (error) =>
          KafkaErrors.isTopics(error) ? Effect.succeed(error) : Effect.fail(error),
        )
        topics.set(name, topic)
      }
      if (topic instanceof KafkaError) {
        failures.set(index, fault(topic, encoded))
        continue
      }
      // Without a key the whole batch has one partition, and the next batch another.
      const partition = key === "" ? turn % topic.partitions : partitionOf(key, topic.partitions)
      placed.push({ index, record: { topic: name, partition, key, value, headers } })
    }
    if (placed.length > 0) yield* deliver(placed, failures)
    return failures
  })

  const send = (batch: ReadonlyArray<Entry>): Effect.Effect<Failures, SinkError> => {
    if (batch.length === 0) return passed
    const wait = client.throttled()
    if (wait > shortThrottle) {
      return Effect.fail(new SinkError({ reason: KafkaErrors.throttledFor(wait, brokers, config.clientId) }))
    }
    const sending = Effect.mapError(within(sendBatch(batch)), (error) => fault(error))
    return wait > 0 ? Effect.delay(sending, wait) : sending
  }

  // --- check ---------------------------------------------------------------

  const missing = (error: KafkaError) => error.code === "UNKNOWN_TOPIC_OR_PARTITION" && createTopics !== undefined

  const checkTopic = Effect.fnUntraced(function* (name: string) {
    if (!isTopicName(name)) return yield* kafkaError("INVALID_TOPIC_EXCEPTION")
    yield* client.topic(name)
    if ((yield* client.mayWrite(name)) === false) {
      return yield* kafkaError("TOPIC_AUTHORIZATION_FAILED")
    }
  })

  const check = Effect.gen(function* () {
    yield* client.brokers
    if (!isTemplated) yield* Effect.catchIf(checkTopic(config.topic), missing, () => Effect.void)
  }).pipe(
    within,
    Effect.mapError((error) => fault(error)),
  )

  /** One of the config's brokers that answers is enough for `check`; events go to those that the cluster names. */
  const adviseOnBrokers = Effect.gen(function* () {
    const named = yield* client.brokers
    const all = [...new Set([...config.brokers, ...named])]
    if (all.length === 1) return []
    const reach = (broker: string) =>
      Effect.flatMap(loadClient(config.client, { ...options, brokers: [broker] }), ({ brokers }) => brokers).pipe(
        Effect.scoped,
        Effect.timeoutOrElse({
          duration: options.requestTimeout / 2,
          orElse: () => Effect.fail(kafkaError(timedOut)),
        }),
        Effect.catchIf(isClosed, (error) => Diagnosis.of(error, { ...options, brokers: [broker] })),
        Effect.match({
          onSuccess: (): ReadonlyArray<string> => [],
          onFailure: (error) => {
            const { message } = KafkaErrors.reasonOf(error, {
              brokers: broker,
              topic: "",
              isTemplated: false,
              bytes: 0,
            })
            const whose = named.includes(broker)
              ? "events for its partitions wait: check the address that the cluster names for it (advertised.listeners)"
              : 'the others of "brokers" are used: correct it, or take it out'
            return [`${message}; ${whose}`]
          },
        }),
      )
    return (yield* Effect.forEach(all, reach, { concurrency: "unbounded" })).flat()
  })

  const adviseOnTopics = ({ maxBody }: Limits) =>
    Effect.gen(function* () {
      const advice: Array<string> = []
      for (const topic of isTemplated ? foreseeable(config.topic) : [config.topic]) {
        const found = yield* Effect.result(Effect.andThen(checkTopic(topic), client.largestBatch(topic)))
        if (found._tag === "Failure") {
          // A user that may write may lack the right to read limits.
          const isSilent = missing(found.failure) || found.failure.code === "CLUSTER_AUTHORIZATION_FAILED"
          if (!isSilent) advice.push(fault(found.failure, { topic, value: new Uint8Array() }).message)
        } else if (found.success < maxBody + overhead) {
          advice.push(
            `topic ${topic} takes ${found.success} bytes at most, and a delivery of ${maxBody} needs ${maxBody + overhead} with what stands around it: such an event becomes a dead letter; raise max.message.bytes, or lower the webhook's maxBody`,
          )
        }
      }
      return advice
    })

  const advise = (limits: Limits) =>
    Effect.all([adviseOnBrokers, adviseOnTopics(limits)], { concurrency: "unbounded" }).pipe(
      Effect.map((advice) => advice.flat()),
      within,
      Effect.mapError((error) => fault(error)),
    )

  const { maxEvents, maxBytes, linger } = config.batch
  return {
    batch: { maxEvents, maxBytes, linger: Duration.toMillis(linger) },
    send,
    check,
    advise,
  }
})

const isClosed = ({ code }: KafkaError): boolean => code === closed

/** Throttling up to this is waited for in silence, in milliseconds. */
const shortThrottle = 1_000

/** An estimate of the bytes around the body in a batch of one record. */
const overhead = 1_024

export const Kafka: SinkType<KafkaConfig> = {
  config: KafkaConfig,
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
