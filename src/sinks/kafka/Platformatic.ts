/**
 * The port over `@platformatic/kafka`, the default client: its connections, metadata
 * and identity. `Produce.ts` writes the records.
 *
 * **Gotcha.** With idempotence the library retries for ever unless `retries` is at
 * least two. An error is a tree, and its leaves say what happened.
 */
import {
  Admin,
  ConfigResourceTypes,
  Connection,
  GenericError,
  instancesChannel,
  MultipleErrors,
  metadataV12,
  Producer,
  type SASLOptions,
} from "@platformatic/kafka"
import { Effect, type Scope, Semaphore } from "effect"
import { hasProperty } from "effect/Predicate"
import { oneLine } from "../ServiceWords.ts"
import {
  below,
  type ClientOptions,
  ignoreErrors,
  type KafkaClient,
  KafkaError,
  kafkaError,
  leave,
  loginRefused,
  makeThrottle,
  textOf,
  tokenRefusal,
  unreachable,
  watchSocket,
  worst,
} from "./KafkaClient.ts"
import * as Produce from "./Produce.ts"

/** The lifetime of cached metadata, which is also the longest time until a new partition is used. */
const metadataMaxAge = 30_000

/**
 * The library's pool listens only for the first error of a connection. A connection that is closed during its login
 * emits a second error: `#onClose` fails the pending request, and the login continues with the next one. Closing also
 * removes the listeners of the socket. github.com/platformatic/kafka/pull/171 fixed another case of this.
 */
instancesChannel.subscribe((created) => {
  if (!hasProperty(created, "instance") || !(created.instance instanceof Connection)) return
  const connection = created.instance
  connection.on("error", ignoreErrors)
  // Its socket is made right after this event.
  connection.on("connecting", () => queueMicrotask(() => watchSocket(connection.socket)))
  connection.on("closing", () => connection.socket.on("error", ignoreErrors))
  // If the broker closed the connection, its timer for the next login would log in on a closed socket.
  connection.once("close", () => void connection.close())
})

/** It logs in again after 80 % of the session that the broker grants, and holds other requests back meanwhile. */
const loginOf = (sasl: NonNullable<ClientOptions["sasl"]>): SASLOptions => {
  if (sasl.mechanism !== "OAUTHBEARER") return sasl
  const { mechanism, token, extensions } = sasl
  return {
    mechanism,
    token,
    oauthBearerExtensions: { ...extensions },
    authBytesValidator: (answer, callback) => callback(tokenRefusal(answer) ?? null, answer),
  }
}

const settings = (options: ClientOptions) => ({
  clientId: options.clientId,
  bootstrapBrokers: [...options.brokers],
  ...(options.tls !== undefined && { tls: options.tls }),
  ...(options.sasl !== undefined && { sasl: loginOf(options.sasl) }),
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
  new Producer<Buffer, Buffer, Buffer, Buffer>({ ...settings(options), idempotent: true })

type Made = ReturnType<typeof makeProducer>

export const make = Effect.fnUntraced(function* (
  options: ClientOptions,
): Effect.fn.Return<KafkaClient, never, Scope.Scope> {
  const throttle = makeThrottle()
  const oneAtATime = yield* Semaphore.make(1)
  const open = () => {
    const producer = makeProducer(options)
    return { producer, send: Produce.make(producer, { ...options, errorOf: kafkaErrorOf, throttled: throttle.note }) }
  }
  let opened: ReturnType<typeof open> | undefined
  const current = () => {
    opened ??= open()
    return opened
  }
  const close = Effect.suspend(() => {
    const closing = opened
    opened = undefined
    return closing === undefined ? Effect.void : leave(() => closing.producer.close(true))
  })
  yield* Effect.addFinalizer(() => close)

  const call = <A>(use: (producer: Made) => Promise<A>): Effect.Effect<A, KafkaError> =>
    Effect.tryPromise({ try: () => use(current().producer), catch: kafkaErrorOf })

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
    createTopic: (name, { partitions, replication, configs }) =>
      asAdmin((admin) =>
        admin.createTopics({ topics: [name], partitions, replicas: replication, configs: [...configs] }),
      ).pipe(
        Effect.asVoid,
        Effect.catch((error) => (error.code === "TOPIC_ALREADY_EXISTS" ? Effect.void : Effect.fail(error))),
      ),
    settings: (topic, names) =>
      Effect.map(
        asAdmin((admin) => {
          const resource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: topic }
          return admin.describeConfigs({ resources: [{ ...resource, configurationKeys: [...names] }] })
        }),
        ([one]) => new Map(one?.configs.map(({ name, value }) => [name, value ?? ""])),
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
    restart: close,
    throttled: throttle.left,
    send: (records) =>
      oneAtATime.withPermit(
        Effect.onInterrupt(
          Effect.suspend(() => current().send(records)),
          () => close,
        ),
      ),
  }
})

// --- reading an error tree -----------------------------------------------------

/** All errors of a tree, the root first. */
const walk = (error: unknown): ReadonlyArray<Error> => {
  if (!(error instanceof Error)) return []
  const inner = error instanceof AggregateError ? error.errors : [error.cause]
  return [error, ...inner.flatMap(walk)]
}

const leaf = (error: Error): ReadonlyArray<KafkaError> => {
  if (error instanceof KafkaError) return [error]
  const protocol = textOf(error, "apiId")
  if (protocol !== "") return [kafkaError(protocol, oneLine(textOf(error, "serverErrorMessage")))]
  const code = textOf(error, "code")
  if (/^Unknown topic/.test(error.message)) return [kafkaError("UNKNOWN_TOPIC_OR_PARTITION")]
  // The error only wraps its causes: the reason of a failed login is inside, such as a closed connection.
  if (error instanceof MultipleErrors || (error.cause instanceof Error && GenericError.isGenericError(error))) return []
  if (code === "PLT_KFK_AUTHENTICATION") return [kafkaError(loginRefused)]
  if (code === "PLT_KFK_UNSUPPORTED_COMPRESSION") return [kafkaError("UNSUPPORTED_COMPRESSION_TYPE")]
  return [below(error, code.startsWith("PLT_KFK") ? "" : code)]
}

const kafkaErrorOf = (error: unknown): KafkaError => {
  const errors = walk(error).flatMap(leaf)
  return errors.length === 0 ? kafkaError(unreachable) : worst(errors)
}
