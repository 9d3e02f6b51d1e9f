/**
 * The port over `@platformatic/kafka`, the default client: idempotent, one
 * request in flight per connection, everything for a broker in one request.
 *
 * **Gotcha.** With idempotence the library retries for ever unless `retries` is at
 * least two; the caller sets the timeout. An error is a tree: the `response` of
 * its leaves has the results of all attempts by partition, and a partition that
 * any attempt wrote is written.
 */
import {
  Admin,
  ConfigResourceTypes,
  connectionsApiChannel,
  GenericError,
  MultipleErrors,
  metadataV12,
  type ProduceResult,
  Producer,
  protocolErrorsCodesById,
} from "@platformatic/kafka"
import { Effect, type Scope } from "effect"
import { hasProperty, isObject } from "effect/Predicate"
import {
  below,
  type ClientOptions,
  type KafkaClient,
  type KafkaError,
  type KafkaRecord,
  kafkaError,
  leave,
  makeThrottle,
  place,
  textOf,
  unreachable,
  worst,
} from "./KafkaClient.ts"

/** How long metadata is cached: it bounds how long a new partition stays unused. */
const metadataMaxAge = 30_000

const settings = (options: ClientOptions) => ({
  clientId: options.clientId,
  bootstrapBrokers: [...options.brokers],
  ...(options.tls !== undefined && { tls: options.tls }),
  ...(options.sasl !== undefined && { sasl: options.sasl }),
  // Fewer would mean endless retries.
  retries: 2,
  retryDelay: 100,
  timeout: options.requestTimeout,
  requestTimeout: options.requestTimeout,
  connectTimeout: options.requestTimeout,
  metadataMaxAge,
  autocreateTopics: false,
})

const makeProducer = (options: ClientOptions) =>
  new Producer<Buffer, Buffer, Buffer, Buffer>({
    ...settings(options),
    idempotent: true,
    ...(options.compression !== "none" && { compression: options.compression }),
  })

type Made = ReturnType<typeof makeProducer>

export const make = Effect.fnUntraced(function* (
  options: ClientOptions,
): Effect.fn.Return<KafkaClient, never, Scope.Scope> {
  let producer: Made | undefined
  const current = (): Made => {
    producer ??= makeProducer(options)
    return producer
  }
  const close = Effect.suspend(() => {
    const closing = producer
    producer = undefined
    return closing === undefined ? Effect.void : leave(() => closing.close(true))
  })
  yield* Effect.addFinalizer(() => close)

  const throttle = makeThrottle()
  // The library reports throttling only on a channel for the connections of the whole process.
  const heard = (told: unknown): void => {
    if (!isAnswer(told) || told.connection.ownerId !== producer?.instanceId) return
    if (told.result.throttleTimeMs > 0) throttle.note(told.result.throttleTimeMs)
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => connectionsApiChannel.asyncStart.subscribe(heard)),
    () => Effect.sync(() => connectionsApiChannel.asyncStart.unsubscribe(heard)),
  )

  const call = <A>(use: (producer: Made) => Promise<A>): Effect.Effect<A, KafkaError> =>
    Effect.tryPromise({ try: () => use(current()), catch: kafkaErrorOf })

  const asAdmin = <A>(use: (admin: Admin) => Promise<A>): Effect.Effect<A, KafkaError> =>
    Effect.acquireUseRelease(
      Effect.sync(() => new Admin(settings(options))),
      (admin) => Effect.tryPromise({ try: () => use(admin), catch: kafkaErrorOf }),
      (admin) => leave(() => admin.close()),
    )

  const topic = (name: string) =>
    Effect.flatMap(
      // Without retries, so that a missing topic doesn't delay the others.
      call((producer) => producer.metadata({ topics: [name], retries: 0 })),
      ({ topics }) => {
        const partitions = topics.get(name)?.partitionsCount ?? 0
        return partitions > 0 ? Effect.succeed({ partitions }) : Effect.fail(kafkaError("UNKNOWN_TOPIC_OR_PARTITION"))
      },
    )

  return {
    brokers: Effect.map(
      call((producer) => producer.metadata({ topics: [], forceUpdate: true })),
      ({ brokers }) => [...brokers.values()].map(({ host, port }) => `${host}:${port}`),
    ),
    topic,
    createTopic: (name, { partitions, replication }) =>
      asAdmin((admin) => admin.createTopics({ topics: [name], partitions, replicas: replication })).pipe(
        Effect.asVoid,
        Effect.catch((error) => (error.code === "TOPIC_ALREADY_EXISTS" ? Effect.void : Effect.fail(error))),
      ),
    largestBatch: (name) =>
      Effect.map(
        asAdmin((admin) =>
          admin.describeConfigs({
            resources: [
              {
                resourceType: ConfigResourceTypes.TOPIC,
                resourceName: name,
                configurationKeys: ["max.message.bytes"],
              },
            ],
          }),
        ),
        ([one]) => Number(one?.configs[0]?.value ?? Number.POSITIVE_INFINITY),
      ),
    mayWrite: (name) =>
      Effect.gen(function* () {
        const { brokers } = yield* call((producer) => producer.metadata({ topics: [name] }))
        const [broker] = brokers.values()
        if (broker === undefined) return undefined
        return yield* call(async (producer) => {
          const connection = await producer.connections.get(broker)
          const { topics } = await metadataV12.api.async(connection, [name], false, true)
          const allowed = topics[0]?.topicAuthorizedOperations ?? 0
          // A bit set of operations; 4 is WRITE (Kafka's AclOperation).
          return (allowed & (1 << 4)) !== 0
        })
      }),
    throttled: throttle.left,
    send: (records) =>
      Effect.callback((resume) => {
        current()
          .send({ messages: records.map(toMessage), idempotent: true, acks: -1 })
          .then(
            () => resume(Effect.succeed(new Map())),
            (error) => resume(outcomes(records, error)),
          )
        return close
      }),
  }
})

interface Answer {
  readonly connection: { readonly ownerId?: number }
  readonly result: { readonly throttleTimeMs: number }
}

const isAnswer = (told: unknown): told is Answer =>
  hasProperty(told, "connection") &&
  isObject(told.connection) &&
  hasProperty(told, "result") &&
  hasProperty(told.result, "throttleTimeMs") &&
  typeof told.result.throttleTimeMs === "number"

/** Header names as bytes, cached: they are few, and in every record. */
const names = new Map<string, Buffer>()
const nameOf = (name: string): Buffer => {
  const known = names.get(name)
  if (known !== undefined) return known
  const bytes = Buffer.from(name)
  names.set(name, bytes)
  return bytes
}

const toMessage = ({ topic, partition, key, value, headers }: KafkaRecord) => ({
  topic,
  partition,
  ...(key !== "" && { key: Buffer.from(key) }),
  value: Buffer.from(value.buffer, value.byteOffset, value.byteLength),
  headers: new Map(headers.map(([name, value]) => [nameOf(name), Buffer.from(value)])),
})

// --- what an error tree says ---------------------------------------------------

interface PartitionResponses {
  readonly responses: ReadonlyArray<{
    readonly name: string
    readonly partitionResponses: ReadonlyArray<{ readonly index: number; readonly errorCode: number }>
  }>
}

const hasResponses = (error: object): error is { readonly response: PartitionResponses } =>
  hasProperty(error, "response") && hasProperty(error.response, "responses") && Array.isArray(error.response.responses)

const hasProduced = (error: object): error is { readonly produced: ProduceResult } =>
  hasProperty(error, "produced") && isObject(error.produced)

/** All errors of a tree, the root first. */
const walk = (error: unknown): ReadonlyArray<Error> => {
  if (!(error instanceof Error)) return []
  const inner = error instanceof AggregateError ? error.errors : [error.cause]
  return [error, ...inner.flatMap(walk)]
}

const outcomes = (
  records: ReadonlyArray<KafkaRecord>,
  error: unknown,
): Effect.Effect<ReadonlyMap<number, KafkaError>, KafkaError> => {
  const written = new Set<string>()
  const refused = new Map<string, KafkaError>()
  for (const one of walk(error)) {
    if (hasProduced(one)) for (const offset of one.produced.offsets ?? []) written.add(place(offset))
    if (!hasResponses(one)) continue
    for (const { name, partitionResponses } of one.response.responses) {
      for (const { index, errorCode } of partitionResponses) {
        const where = place({ topic: name, partition: index })
        if (errorCode === 0) written.add(where)
        else refused.set(where, kafkaError(protocolErrorsCodesById[errorCode] ?? String(errorCode)))
      }
    }
  }
  const rest = kafkaErrorOf(error)
  if (written.size === 0 && refused.size === 0) return Effect.fail(rest)
  const errors = new Map<number, KafkaError>()
  records.forEach((record, index) => {
    const where = place(record)
    if (!written.has(where)) errors.set(index, refused.get(where) ?? rest)
  })
  return Effect.succeed(errors)
}

const leaf = (error: Error): ReadonlyArray<KafkaError> => {
  const protocol = textOf(error, "apiId")
  if (protocol !== "") return [kafkaError(protocol, textOf(error, "serverErrorMessage"))]
  const code = textOf(error, "code")
  if (code === "PLT_KFK_AUTHENTICATION") return [kafkaError("SASL_AUTHENTICATION_FAILED")]
  if (/^Unknown topic/.test(error.message)) return [kafkaError("UNKNOWN_TOPIC_OR_PARTITION")]
  // Only a wrapper of its causes.
  if (error instanceof MultipleErrors || (error.cause instanceof Error && GenericError.isGenericError(error))) return []
  if (code === "PLT_KFK_UNSUPPORTED_COMPRESSION") return [kafkaError("UNSUPPORTED_COMPRESSION_TYPE")]
  return [below(error, code.startsWith("PLT_KFK") ? "" : code)]
}

const kafkaErrorOf = (error: unknown): KafkaError => {
  const errors = walk(error).flatMap(leaf)
  return errors.length === 0 ? kafkaError(unreachable) : worst(errors)
}
