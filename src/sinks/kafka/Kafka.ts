/**
 * The Kafka sink: one record per event, in batches, acknowledged by every in-sync
 * replica.
 *
 * **Guarantee.** Events of one key are delivered in order, also across retries if
 * the lane keeps `order: key`: a key has one partition, and nothing overtakes a
 * failed record of its partition. A record that the broker will never accept, such
 * as one over its limit, fails alone; the rest of its batch is sent.
 *
 * **Gotcha.** When a topic gets more partitions, keys move to other partitions, as
 * with every Kafka producer.
 */
import { Clock, Duration, Effect, Schedule, type Scope } from "effect"
import type { Entry } from "../../event/Event.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import { displayBytes } from "../../formats/Rendering.ts"
import * as Template from "../../formats/Template.ts"
import * as Pattern from "../../routing/Pattern.ts"
import * as Certificates from "../Certificates.ts"
import * as MessageKeys from "../MessageKeys.ts"
import { type Placed, renderEach } from "../Rendered.ts"
import {
  type Failures,
  isFinal,
  type Limits,
  passed,
  type Sink,
  SinkError,
  type SinkType,
  unacceptable,
} from "../Sink.ts"
import {
  type ClientOptions,
  closed,
  createDenied,
  type KafkaClient,
  KafkaError,
  type KafkaRecord,
  kafkaError,
  place,
  requestTooLarge,
  type Topic,
} from "./KafkaClient.ts"
import { doubts, isKeyedByAccount, isTopicName, KafkaConfig, keepsOne, objectKey, topicConfigs } from "./KafkaConfig.ts"
import * as KafkaErrors from "./KafkaErrors.ts"
import * as KafkaLogin from "./KafkaLogin.ts"
import * as SchemaRegistry from "./SchemaRegistry.ts"

/**
 * The partition of a key, by murmur2 as in Kafka's own producer: the relay and a
 * Java producer choose the same partition.
 *
 * It serves both clients without loading either. One client exports no hash. The
 * other client's hash, over BigInt, takes 2.4 to 2.9 µs a key; this one takes 0.1 to
 * 0.3.
 */
const seed = 0x9747b28c
const multiplier = 0x5bd1e995

const mix = (k: number): number => {
  const h = Math.imul(k, multiplier)
  return Math.imul(h ^ (h >>> 24), multiplier)
}

/** murmur2 of the bytes of a key, 32 bits, signed. */
export const murmur2 = (key: Uint8Array): number => {
  const { length } = key
  const byte = (index: number) => (index < length ? (key[index] ?? 0) : 0)
  let h = seed ^ length
  const words = length & ~3
  for (let i = 0; i < words; i += 4) {
    const k = byte(i) | (byte(i + 1) << 8) | (byte(i + 2) << 16) | (byte(i + 3) << 24)
    h = Math.imul(h, multiplier) ^ mix(k)
  }
  if (words < length) {
    // The remaining bytes, little-endian, padded with zeros.
    h = Math.imul(h ^ byte(words) ^ (byte(words + 1) << 8) ^ (byte(words + 2) << 16), multiplier)
  }
  h = Math.imul(h ^ (h >>> 13), multiplier)
  return h ^ (h >>> 15)
}

/** The partition of a key in a topic that has `partitions`. */
export const partitionOf = (key: KafkaRecord["key"], partitions: number): number =>
  (murmur2(typeof key === "string" ? Buffer.from(key) : key) & 0x7fffffff) % partitions

// Encodes events as Kafka records, without their partitions.

interface Encoded extends Omit<KafkaRecord, "partition"> {
  readonly key: string
  /** The key with the frame of a schema registry, if keys are framed. */
  readonly framedKey?: Uint8Array
  /** Why it can't be sent. */
  readonly failure?: SinkError
}

/** Returns a function that reports whether an event is sent without a value. */
const tombstones = ({ tombstone }: KafkaConfig): ((entry: Entry) => boolean) => {
  const patterns = tombstone.map(Pattern.make)
  return ({ event }) => patterns.some(({ matches }) => matches(event.type))
}

type Frame = SchemaRegistry.Schemas["frame"]

/**
 * Returns a function that makes records. That function throws if a template throws. `now` is as for `sentHeaders`.
 * `frame` frames values, and `frameKey` keys as JSON.
 */
export const encoder = (
  config: KafkaConfig,
  now?: () => number,
  frame: Frame | undefined = config.schema && SchemaRegistry.unframed,
  frameKey?: Frame,
): ((entry: Entry) => Encoded) => {
  const topic = Template.compile(config.topic, "topic", "topic")
  const key = Template.compile(config.key, "key")
  const body = MessageKeys.bodyOf(config)
  const isTombstone = tombstones(config)
  const headers = MessageKeys.sentHeaders(
    config,
    {
      values: "text",
      raw: [MessageKeys.jsonHeader],
      cloudEvent: (entry) => CloudEvents.binary(entry, CloudEvents.kafka),
    },
    now,
  )
  const made = (entry: Entry): Uint8Array | SinkError | null => {
    if (isTombstone(entry)) return null
    const value = body(entry)
    return frame === undefined ? value : frame(entry, value)
  }
  return (entry) => {
    const value = made(entry)
    const place = { topic: topic.render(entry), key: key.render(entry) }
    const framedKey = place.key === "" ? undefined : frameKey?.(entry, Buffer.from(JSON.stringify(place.key)))
    if (value instanceof SinkError) return { ...place, value: null, headers: [], failure: value }
    if (framedKey instanceof SinkError) return { ...place, value: null, headers: [], failure: framedKey }
    const record = { topic: place.topic, key: place.key, value, headers: headers(entry, value) }
    return framedKey === undefined ? record : { ...record, framedKey }
  }
}

const keyless = unacceptable(
  'this event is a tombstone and has no key, so no record would be removed: set "key" to a text that every event of "tombstone" has',
)
const unfit = ({ key, value, failure }: Encoded) => failure ?? (value === null && key === "" ? keyless : undefined)

/** As `unfit`, for the records of a batch: a record must not overtake an earlier record of its key that is retried. */
const unfitInOrder = (): typeof unfit => {
  const held = new Map<string, SinkError>()
  return (record) => {
    const own = unfit(record)
    if (own === undefined && held.size === 0) return undefined
    const at = `${record.topic} ${record.key}`
    const failure = own ?? held.get(at)
    if (failure !== undefined && record.key !== "" && !isFinal(failure)) held.set(at, failure)
    return failure
  }
}

// The topics of events: found, created if the config allows it, and checked.

/** Kafka's name for a topic that does not exist. */
const unknown = "UNKNOWN_TOPIC_OR_PARTITION"
/** Kafka's names for a missing right. After an attempt to create a topic, it is the right to create it. */
const denials = new Set(["TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"])
const noName = Effect.fail(kafkaError("INVALID_TOPIC_EXCEPTION"))

/** It takes a moment until every broker knows a new topic. */
const untilKnown = Schedule.max([Schedule.spaced("100 millis"), Schedule.recurs(20)])

interface KafkaTopics {
  /** Returns the topic of this name. Creates it if it is missing and the config allows it. */
  readonly find: (name: string) => Effect.Effect<Topic, KafkaError>
  /** Fails as a record to the topic would. Doesn't create the topic. */
  readonly check: (name: string) => Effect.Effect<void, KafkaError>
  /** Whether an error of `check` ends by itself, because `find` creates the topic. */
  readonly willBeMade: (error: KafkaError) => boolean
}

const topicsOf = (client: KafkaClient, createTopics: KafkaConfig["createTopics"]): KafkaTopics => ({
  find: (name) => {
    if (!isTopicName(name)) return noName
    if (createTopics === undefined) return client.topic(name)
    return Effect.catchIf(
      client.topic(name),
      ({ code }) => code === unknown,
      () =>
        client.createTopic(name, { ...createTopics, configs: topicConfigs(createTopics) }).pipe(
          Effect.mapError((error) => (denials.has(error.code) ? kafkaError(createDenied, error.detail) : error)),
          Effect.andThen(Effect.retry(client.topic(name), untilKnown)),
        ),
    )
  },
  check: Effect.fnUntraced(function* (name) {
    if (!isTopicName(name)) return yield* noName
    yield* client.topic(name)
    if ((yield* client.mayWrite(name)) === false) return yield* kafkaError("TOPIC_AUTHORIZATION_FAILED")
  }),
  willBeMade: ({ code }) => code === unknown && createTopics !== undefined,
})

// Finds causes that will make some events fail although the cluster can be reached: unreachable brokers, topics,
// limits.

type Advice = ReadonlyArray<string>

/** An estimate of the bytes around the body in a batch of one record. */
const overhead = 1_024

/** A cluster, and the wording of advice about it. */
interface Cluster {
  readonly client: KafkaClient
  readonly topics: KafkaTopics
  /** The brokers of the config. */
  readonly brokers: ReadonlyArray<string>
  /** Connects to one broker. */
  readonly reach: (broker: string) => Effect.Effect<unknown, KafkaError, Scope.Scope>
  readonly aboutBroker: (error: KafkaError, broker: string) => string
  readonly aboutTopic: (error: KafkaError, topic: string) => string
}

/** `check` needs only a single broker of the config. Events go to the brokers that the cluster names. */
const adviceOnBrokers = Effect.fnUntraced(function* ({ client, brokers, reach, aboutBroker }: Cluster) {
  const named = yield* client.brokers
  const all = [...new Set([...brokers, ...named])]
  if (all.length === 1) return []
  const whatFollows = (broker: string): string =>
    named.includes(broker)
      ? "events for its partitions wait: check the address that the cluster names for it (advertised.listeners)"
      : 'the others of "brokers" are used: correct it, or take it out'
  const advice = (broker: string): Effect.Effect<Advice> =>
    Effect.match(Effect.scoped(reach(broker)), {
      onSuccess: () => [],
      onFailure: (error) => [`${aboutBroker(error, broker)}; ${whatFollows(broker)}`],
    })
  return (yield* Effect.forEach(all, advice, { concurrency: "unbounded" })).flat()
})

const limit = "max.message.bytes"
const policy = "cleanup.policy"

/**
 * Advice on topics that can't be written to, whose limit is below the largest body of a delivery, in bytes, or that
 * compaction would empty.
 */
const adviceOnTopics = (
  { client, topics, aboutTopic }: Cluster,
  config: KafkaConfig,
  names: ReadonlyArray<string>,
  maxBody: number,
): Effect.Effect<Advice> => {
  const needed = maxBody + overhead
  // A user with the right to write may lack the right to read settings.
  const settingsOf = (topic: string) =>
    Effect.orElseSucceed(client.settings(topic, [limit, policy]), () => new Map<string, string>())
  const ofSettings = (topic: string, settings: ReadonlyMap<string, string>): Advice => {
    const largest = Number(settings.get(limit) ?? Number.POSITIVE_INFINITY)
    const isCompacted = settings.get(policy)?.includes("compact") === true
    return [
      ...(largest >= needed
        ? []
        : [
            `topic ${topic} takes ${largest} bytes at most, and a delivery of ${maxBody} needs ${needed} with what stands around it: such an event becomes a dead letter; raise max.message.bytes, or lower the webhook's maxBody`,
          ]),
      ...(isCompacted && isKeyedByAccount(config)
        ? [`topic ${topic} is compacted (cleanup.policy): it ${keepsOne}; ${objectKey}`]
        : []),
    ]
  }
  const advice = (topic: string): Effect.Effect<Advice> =>
    Effect.match(Effect.andThen(topics.check(topic), settingsOf(topic)), {
      onSuccess: (settings) => ofSettings(topic, settings),
      onFailure: (error) => (topics.willBeMade(error) ? [] : [aboutTopic(error, topic)]),
    })
  return Effect.map(Effect.forEach(names, advice), (advice) => advice.flat())
}

// Sends a lane's batch as records: gives each its partition, and splits batches that a broker
// refuses because of one record.

type PlacedRecord = Placed<KafkaRecord>

const sizeOf = ({ value }: Pick<Encoded, "value">): number => value?.length ?? 0

/** Bytes. No broker is configured to close the connection for a smaller request. */
const largeRequest = 64 * 1024

/**
 * Returns a function that sends batches. It fails with errors that concern all events of a batch; `fault` decides the
 * meaning of an error of one record.
 */
const batchSender = (
  client: KafkaClient,
  topics: KafkaTopics,
  encode: (entry: Entry) => Encoded,
  fault: (error: KafkaError, record: Omit<KafkaRecord, "partition">) => SinkError,
) => {
  let turn = 0

  /** Sends records. A closed connection is an error of each record. */
  const sendAll = (records: ReadonlyArray<PlacedRecord>): ReturnType<KafkaClient["send"]> =>
    Effect.catchIf(
      client.send(records.map(({ message }) => message)),
      ({ code }) => code === closed,
      (error) => Effect.succeed(new Map(records.map((_, at) => [at, error]))),
    )

  /** Sends records and adds their failures. */
  const deliver = (
    records: ReadonlyArray<PlacedRecord>,
    failures: Map<number, SinkError>,
  ): Effect.Effect<void, KafkaError> =>
    Effect.gen(function* () {
      const refused: Array<PlacedRecord> = []
      const cutOff: Array<PlacedRecord> = []
      for (const [at, error] of yield* sendAll(records)) {
        const record = records[at] as PlacedRecord
        if (KafkaErrors.isOneRecords(error)) refused.push(record)
        if (error.code === closed) cutOff.push(record)
        failures.set(record.index, fault(error, record.message))
      }
      for (const some of Map.groupBy(refused, ({ message }) => place(message)).values()) {
        if (some.length > 1) yield* takeApart(some, failures)
      }
      if (cutOff.length > 0 && (yield* isTooLarge(cutOff))) yield* sendInParts(cutOff, failures)
      else if (cutOff.length === records.length) yield* Effect.fail(kafkaError(closed))
    })

  /** Reports whether the size of the request probably closed the connection: the brokers answer a small request. */
  const isTooLarge = (records: ReadonlyArray<PlacedRecord>): Effect.Effect<boolean> =>
    records.reduce((sum, { message }) => sum + sizeOf(message), 0) < largeRequest
      ? Effect.succeed(false)
      : Effect.match(client.brokers, { onSuccess: () => true, onFailure: () => false })

  /** Sends each partition by itself, or the halves of one. A single record is too large. */
  const sendInParts = Effect.fnUntraced(function* (
    records: ReadonlyArray<PlacedRecord>,
    failures: Map<number, SinkError>,
  ) {
    const places = [...Map.groupBy(records, ({ message }) => place(message)).values()]
    if (places.length > 1) {
      for (const { index } of records) failures.delete(index)
      for (const some of places) yield* deliver(some, failures)
    } else if (records.length > 1) yield* takeApart(records, failures)
    else for (const { index, message } of records) failures.set(index, fault(kafkaError(requestTooLarge), message))
  })

  /** Sends the halves of a batch that a partition refused, one after the other. */
  const takeApart = Effect.fnUntraced(function* (
    records: ReadonlyArray<PlacedRecord>,
    failures: Map<number, SinkError>,
  ) {
    const middle = records.length >> 1
    let stop: SinkError | undefined
    const isOrdered = ({ message }: PlacedRecord) => message.key !== ""
    for (const half of [records.slice(0, middle), records.slice(middle)]) {
      const free = stop === undefined ? half : half.filter((one) => !isOrdered(one))
      if (stop !== undefined) for (const { index } of half) failures.set(index, stop)
      for (const { index } of free) failures.delete(index)
      if (free.length > 0) yield* deliver(free, failures)
      // Later records of a key must not overtake a record that is retried.
      stop ??= half
        .filter(isOrdered)
        .map(({ index }) => failures.get(index))
        .find((failure) => failure !== undefined && !isFinal(failure))
    }
  })

  /** The topics of some events by name. An error about one topic takes the place of that topic. */
  const topicsOf = Effect.fnUntraced(function* (encoded: ReadonlyArray<Placed<Encoded>>) {
    const found = new Map<string, Topic | KafkaError>()
    for (const { message } of encoded) {
      if (found.has(message.topic)) continue
      const topic = Effect.catchIf(topics.find(message.topic), KafkaErrors.isTopics, (error) => Effect.succeed(error))
      found.set(message.topic, yield* topic)
    }
    return found
  })

  return Effect.fnUntraced(function* (batch: ReadonlyArray<Entry>): Effect.fn.Return<Failures, KafkaError> {
    const failures = new Map<number, SinkError>()
    const encoded = renderEach(batch, encode, failures, unfitInOrder())
    const found = yield* topicsOf(encoded)
    turn += 1
    const records: Array<PlacedRecord> = []
    for (const { index, message } of encoded) {
      const topic = found.get(message.topic) as Topic | KafkaError
      if (topic instanceof KafkaError) {
        failures.set(index, fault(topic, message))
        continue
      }
      // Without a key the whole batch has one partition, and the next batch another.
      const { framedKey: key = message.key } = message
      const partition = key === "" ? turn % topic.partitions : partitionOf(key, topic.partitions)
      records.push({ index, message: { ...message, key, partition } })
    }
    if (records.length > 0) yield* deliver(records, failures)
    return failures
  })
}

const clientOptions = Effect.fnUntraced(function* (
  config: KafkaConfig,
): Effect.fn.Return<ClientOptions, SinkError, Scope.Scope> {
  const { clientId, brokers, tls, sasl, compression, requestTimeout } = config
  const certificates = tls && (yield* Certificates.read(tls))
  return {
    clientId,
    brokers,
    ...(certificates !== undefined && { tls: certificates }),
    ...(sasl !== undefined && { sasl: yield* KafkaLogin.open(sasl) }),
    compression,
    requestTimeout: Duration.toMillis(requestTimeout),
  }
})

const loadClient = (client: KafkaConfig["client"], options: ClientOptions) =>
  Effect.flatMap(
    Effect.promise(() => (client === "kafkajs" ? import("./KafkaJs.ts") : import("./Platformatic.ts"))),
    ({ make }) => make(options),
  )

/** Throttling up to this long is waited for without a report, in milliseconds. */
const shortThrottle = 1_000

const make = Effect.fnUntraced(function* (config: KafkaConfig): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const options = yield* clientOptions(config)
  const client = yield* loadClient(config.client, options)
  const topics = topicsOf(client, config.createTopics)
  const brokers = config.brokers.join(", ")
  /** The topic of all events, if there is one. */
  const only = Template.isConstant(config.topic) ? config.topic : undefined
  const isTemplated = only === undefined

  const whyRefused = options.sasl?.mechanism === "OAUTHBEARER" ? options.sasl.whyRefused : undefined
  const smaller = MessageKeys.smaller(config)
  const place = { brokers, topic: only ?? "", isTemplated, bytes: 0, smaller, isKeyless: false, whyRefused }
  const fault = (error: KafkaError, more: Partial<KafkaErrors.Place> = {}): SinkError =>
    KafkaErrors.sinkErrorOf(error, { ...place, ...more })
  const within = <A>(call: Effect.Effect<A, KafkaError>): Effect.Effect<A, SinkError> =>
    Effect.mapError(KafkaErrors.callWithin(call, options.requestTimeout, options), (error) => fault(error))

  const clock = yield* Clock.Clock
  const { schema } = config
  const schemas = schema && (yield* SchemaRegistry.make({ schema, topic: config.topic }))
  const ofKeys = schema && SchemaRegistry.ofKeys(schema)
  const keySchemas = ofKeys && (yield* SchemaRegistry.make({ schema: ofKeys, topic: config.topic }))
  const isTombstone = tombstones(config)
  const prepared = (batch: ReadonlyArray<Entry>) =>
    Effect.andThen(
      schemas?.prepare(batch.filter((entry) => !isTombstone(entry))) ?? Effect.void,
      keySchemas?.prepare(batch) ?? Effect.void,
    )
  const encode = encoder(config, () => clock.currentTimeMillisUnsafe(), schemas?.frame, keySchemas?.frame)
  const sendBatch = batchSender(client, topics, encode, (error, record) =>
    fault(error, { topic: record.topic, bytes: sizeOf(record), isKeyless: record.key === "" }),
  )
  /**
   * The address in the config may lead to another cluster by now, while the old cluster still runs without the topic.
   */
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
    return Effect.andThen(prepared(batch), wait > 0 ? Effect.delay(sending, wait) : sending)
  }

  const checked =
    only === undefined ? Effect.void : Effect.catchIf(topics.check(only), topics.willBeMade, () => Effect.void)
  const reached = within(Effect.andThen(client.brokers, checked))
  const all = [schemas, keySchemas].filter((one) => one !== undefined)
  const check = Effect.all([reached, ...all.map((one) => one.check)], { discard: true })

  const cluster: Cluster = {
    client,
    topics,
    brokers: config.brokers,
    reach: (broker) => {
      const own = { ...options, brokers: [broker] }
      const reaching = Effect.flatMap(loadClient(config.client, own), (one) => one.brokers)
      return KafkaErrors.callWithin(reaching, options.requestTimeout / 2, own)
    },
    aboutBroker: (error, broker) => fault(error, { brokers: broker, topic: "", isTemplated: false }).message,
    aboutTopic: (error, topic) => fault(error, { topic }).message,
  }
  const names = (types: Limits["eventTypes"]) =>
    only === undefined ? MessageKeys.possibleValues(config.topic, types) : [only]
  const advise = ({ maxBody, eventTypes }: Limits) =>
    Effect.all([adviceOnBrokers(cluster), adviceOnTopics(cluster, config, names(eventTypes), maxBody)], {
      concurrency: "unbounded",
    }).pipe(
      Effect.map((advice) => advice.flat()),
      within,
      Effect.zipWith(
        Effect.forEach(all, (one) => one.advise(eventTypes)),
        (advice, more) => [...advice, ...more.flat()],
      ),
    )

  const { maxEvents, maxBytes, linger } = config.batch
  return { batch: { maxEvents, maxBytes, linger: Duration.toMillis(linger) }, send, check, advise }
})

export const Kafka: SinkType<KafkaConfig> = {
  config: KafkaConfig,
  doubts,
  libraries: ["@platformatic/", "kafkajs", "fastq", "ajv", "avsc"],
  concurrency: 1,
  open: make,
  // Without the partition, which depends on the topic.
  preview: (config, batch) => {
    const subjectOf = config.schema && SchemaRegistry.subjectsOf({ schema: config.schema, topic: config.topic })
    const encode = encoder(config)
    return batch.map((entry) => {
      const { topic, key, headers, value } = encode(entry)
      return {
        topic,
        ...(key !== "" && { key }),
        headers: Object.fromEntries(headers),
        ...(subjectOf !== undefined && value !== null && { subject: subjectOf(entry).name }),
        value: value && displayBytes(value),
      }
    })
  },
}
