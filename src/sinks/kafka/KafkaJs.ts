/**
 * The port over `kafkajs`: not idempotent and one send at a time, because concurrent
 * idempotent sends have lost acknowledged records.
 *
 * **Gotcha.** The innermost of its errors is the real one; `retriable` is a guess.
 * It doesn't say which partition was refused. So after a refusal each partition is
 * sent by itself, and a partition that was written gets its records twice.
 */
import { connect, isIP, type Socket } from "node:net"
import { connect as connectTls } from "node:tls"
import { Effect, type Scope, Semaphore } from "effect"
// CommonJS: Deno knows only its default export.
import kafkajs, {
  type Admin,
  type KafkaConfig,
  type Mechanism,
  type Message,
  type Producer,
  type RecordMetadata,
  type SASLOptions,
} from "kafkajs"
import {
  below,
  type ClientOptions,
  isOurs,
  type KafkaClient,
  KafkaError,
  type KafkaRecord,
  kafkaError,
  leave,
  loginRefused,
  makeThrottle,
  place,
  type Topic,
  textOf,
  timedOut,
  tokenRefusal,
  unreachable,
  watchSocket,
} from "./KafkaClient.ts"

/** How long a topic's metadata is cached, in milliseconds. */
const topicAge = 30_000

/**
 * A connection logs in again with the first request in the last milliseconds of its session. The library's default, 10
 * seconds, would repeat the login of a short token before each request, and brokers allow one login a second.
 */
const reauthenticationThreshold = 3_000

interface Connected {
  readonly producer: Producer
  readonly admin: Admin
  readonly topics: Map<string, Topic & { readonly until: number }>
  readonly disconnect: () => Promise<void>
}

/** The bytes with their length in front. */
const framed = (bytes: Buffer): Buffer => {
  const length = Buffer.alloc(4)
  length.writeInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}

/** Replaces the library's own login, which does not read the answer to the token. */
const loginOf = (sasl: NonNullable<ClientOptions["sasl"]>): SASLOptions | Mechanism => {
  // The library has the names in small letters.
  if (sasl.mechanism !== "OAUTHBEARER") return { ...sasl, mechanism: sasl.mechanism.toLowerCase() } as SASLOptions
  const { mechanism, token, extensions } = sasl
  return {
    mechanism,
    authenticationProvider: ({ saslAuthenticate }) => ({
      authenticate: async () => {
        const lines = [`auth=Bearer ${await token()}`, ...Object.entries(extensions).map((pair) => pair.join("="))]
        const message = Buffer.from(`n,,\x01${lines.join("\x01")}\x01\x01`)
        const refusal = await saslAuthenticate({
          request: { encode: () => framed(message) },
          response: { decode: (answer) => answer.subarray(4), parse: tokenRefusal },
        })
        if (refusal !== undefined) throw refusal
      },
    }),
  }
}

const settings = (options: ClientOptions): KafkaConfig => ({
  clientId: options.clientId,
  brokers: [...options.brokers],
  ...(options.tls !== undefined && { ssl: options.tls }),
  ...(options.sasl !== undefined && { sasl: loginOf(options.sasl) }),
  reauthenticationThreshold,
  requestTimeout: options.requestTimeout,
  connectionTimeout: options.requestTimeout,
  authenticationTimeout: options.requestTimeout,
  retry: { retries: 1, initialRetryTime: 100 },
})

/** Connects, until the signal aborts it. `throttled` is called with the milliseconds of each throttling. */
const open = async (
  options: ClientOptions,
  throttled: (millis: number) => void,
  signal: AbortSignal,
): Promise<Connected> => {
  const sockets = new Set<Socket>()
  const kafka = new kafkajs.Kafka({
    ...settings(options),
    // Its log isn't printed. Throttling is reported nowhere else.
    logLevel: kafkajs.logLevel.DEBUG,
    logCreator:
      () =>
      ({ log }) => {
        const found = /^Client side throttling in effect for (\d+)ms$/.exec(log.message)
        if (found !== null) throttled(Number(found[1]))
      },
    // Disconnecting only half-closes its sockets, and an abandoned send may still go out.
    socketFactory: ({ host, port, ssl, onConnect }) => {
      const socket: Socket = ssl
        ? connectTls({ host, port, ...(isIP(host) === 0 && { servername: host }), ...ssl }, onConnect)
        : connect({ host, port }, onConnect)
      watchSocket(socket)
      sockets.add(socket)
      socket.once("close", () => sockets.delete(socket))
      // It retries although nobody waits.
      if (signal.aborted) socket.destroy()
      return socket.setKeepAlive(true, 60_000)
    },
  })
  const producer = kafka.producer({
    idempotent: false,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
  })
  const admin = kafka.admin()
  const disconnect = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy()
    await Promise.allSettled([producer.disconnect(), admin.disconnect()])
  }
  signal.addEventListener("abort", disconnect)
  try {
    await Promise.all([producer.connect(), admin.connect()])
    signal.throwIfAborted()
    signal.removeEventListener("abort", disconnect)
    return { producer, admin, topics: new Map(), disconnect }
  } catch (error) {
    // It waits for answers that won't come; under Deno for as long as the request timeout.
    void disconnect()
    throw error
  }
}

export const make = Effect.fnUntraced(function* (
  options: ClientOptions,
): Effect.fn.Return<KafkaClient, never, Scope.Scope> {
  const throttle = makeThrottle()
  const compression = options.compression === "gzip" ? kafkajs.CompressionTypes.GZIP : kafkajs.CompressionTypes.None
  const oneAtATime = yield* Semaphore.make(1)
  const connecting = yield* Semaphore.make(1)
  let connected: Connected | undefined

  const close = Effect.suspend(() => {
    const closing = connected
    connected = undefined
    return closing === undefined ? Effect.void : leave(closing.disconnect)
  })
  yield* Effect.addFinalizer(() => close)

  const current: Effect.Effect<Connected, KafkaError> = connecting.withPermit(
    Effect.suspend(() => {
      if (connected !== undefined) return Effect.succeed(connected)
      return Effect.map(
        Effect.tryPromise({ try: (signal) => open(options, throttle.note, signal), catch: kafkaErrorOf }),
        (made) => {
          connected = made
          return made
        },
      )
    }),
  )
  /**
   * The library keeps a connection on which it got no answer, or only bytes that it couldn't read. Answers on that
   * connection may be lost for good: each batch would be written and would seem to fail.
   */
  const call = <A>(use: (connected: Connected) => Promise<A>): Effect.Effect<A, KafkaError> =>
    Effect.flatMap(current, (connected) => Effect.tryPromise({ try: () => use(connected), catch: kafkaErrorOf })).pipe(
      Effect.tapError((error) => (isOurs(error) ? close : Effect.void)),
      Effect.onInterrupt(() => close),
    )

  const sendAll: KafkaClient["send"] = (records) =>
    call(({ producer }) =>
      producer.sendBatch({
        acks: -1,
        timeout: options.requestTimeout,
        compression,
        topicMessages: [...Map.groupBy(records, ({ topic }) => topic)].map(([topic, some]) => ({
          topic,
          messages: some.map(toMessage),
        })),
      }),
    ).pipe(Effect.map((answers) => leftOut(records, answers)))

  return {
    brokers: Effect.map(
      call(({ admin }) => admin.describeCluster()),
      ({ brokers }) => brokers.map(({ host, port }) => `${host}:${port}`),
    ),
    topic: (name) =>
      Effect.suspend(() => {
        const known = connected?.topics.get(name)
        if (known !== undefined && known.until > performance.now()) return Effect.succeed(known)
        return call(async ({ admin, topics }) => {
          const found = await admin.fetchTopicMetadata({ topics: [name] })
          const topic = {
            partitions: found.topics[0]?.partitions.length ?? 0,
            until: performance.now() + topicAge,
          }
          topics.set(name, topic)
          return topic
        })
      }),
    createTopic: (name, { partitions, replication, configs }) =>
      Effect.asVoid(
        // Returns false when the topic exists already.
        call(({ admin }) =>
          admin.createTopics({
            topics: [
              { topic: name, numPartitions: partitions, replicationFactor: replication, configEntries: [...configs] },
            ],
          }),
        ),
      ),
    settings: (name, configNames) =>
      Effect.map(
        call(({ admin }) =>
          admin.describeConfigs({
            includeSynonyms: false,
            resources: [{ type: kafkajs.ConfigResourceTypes.TOPIC, name, configNames: [...configNames] }],
          }),
        ),
        ({ resources }) =>
          new Map(resources[0]?.configEntries.map(({ configName, configValue }) => [configName, configValue])),
      ),
    // This client can't ask, so the other one does; for the events themselves it isn't used.
    mayWrite: (name) =>
      Effect.promise(() => import("./Platformatic.ts")).pipe(
        Effect.flatMap(({ make }) => make(options)),
        Effect.flatMap((other) => other.mayWrite(name)),
        Effect.scoped,
        Effect.orElseSucceed(() => undefined),
      ),
    restart: close,
    throttled: throttle.left,
    send: (records) => oneAtATime.withPermit(sendOrSplit(sendAll, records)),
  }
})

/** Sends all records. If a broker refused some, sends each partition's records by themselves. */
const sendOrSplit = (sendAll: KafkaClient["send"], records: ReadonlyArray<KafkaRecord>): ReturnType<typeof sendAll> =>
  Effect.catchIf(sendAll(records), isRefusal, (error) => {
    const places = Map.groupBy(records.keys(), (index) => place(records[index] as KafkaRecord))
    if (places.size === 1) return Effect.succeed(new Map(records.map((_, index) => [index, error])))
    return Effect.gen(function* () {
      const errors = new Map<number, KafkaError>()
      for (const indexes of places.values()) {
        const alone = yield* Effect.result(sendAll(indexes.map((index) => records[index] as KafkaRecord)))
        const failed = alone._tag === "Failure" ? alone.failure : alone.success.get(0)
        if (failed !== undefined) for (const index of indexes) errors.set(index, failed)
      }
      return errors
    })
  })

/**
 * The records of partitions that got no answer from a broker. When the library sends
 * again, it skips a partition that has moved to a broker that has already answered
 * for others, and reports success for the whole.
 */
const leftOut = (
  records: ReadonlyArray<KafkaRecord>,
  answers: ReadonlyArray<RecordMetadata>,
): ReadonlyMap<number, KafkaError> => {
  const answered = new Set(answers.map(({ topicName, partition }) => place({ topic: topicName, partition })))
  return new Map(
    [...records.entries()].flatMap(([index, record]) =>
      answered.has(place(record)) ? [] : [[index, kafkaError("NOT_LEADER_OR_FOLLOWER")] as const],
    ),
  )
}

const bufferOf = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer => Buffer.from(buffer, byteOffset, byteLength)

const toMessage = ({ partition, key, value, headers }: KafkaRecord): Message => ({
  partition,
  key: typeof key === "string" ? key || null : bufferOf(key),
  value: value && bufferOf(value),
  headers: Object.fromEntries(headers),
})

// --- reading an error ------------------------------------------------------------

/** Reports whether a broker has answered. If it has, it wrote nothing of the batch that the error names. */
const isRefusal = ({ code }: KafkaError): boolean =>
  /^[A-Z][A-Z_]+$/.test(code) && !code.includes("SASL") && !isOurs({ code })

/** The innermost cause of an error; of several causes the first. */
const innermost = (error: unknown): unknown => {
  let one = error
  for (let depth = 0; depth < 10 && one instanceof Error; depth++) {
    const inner: unknown = one instanceof kafkajs.KafkaJSAggregateError ? one.errors[0] : one.cause
    if (!(inner instanceof Error)) break
    one = inner
  }
  return one
}

/** The library reports any end of a login as a failed login, with the reason after a colon. */
const ofLogin = (error: Error): KafkaError => {
  if (/mechanism is not supported/.test(error.message)) return kafkaError("UNSUPPORTED_SASL_MECHANISM")
  return /: (?:Closed connection|Connection |Not connected|Request .* timed out)/.test(error.message)
    ? below(error, "")
    : kafkaError(loginRefused)
}

const kafkaErrorOf = (error: unknown): KafkaError => {
  const inner = innermost(error)
  if (inner instanceof KafkaError) return inner
  if (inner instanceof kafkajs.KafkaJSProtocolError) return kafkaError(inner.type)
  if (inner instanceof kafkajs.KafkaJSSASLAuthenticationError) return ofLogin(inner)
  if (inner instanceof kafkajs.KafkaJSRequestTimeoutError) return kafkaError(timedOut)
  return inner instanceof Error ? below(inner, textOf(inner, "code")) : kafkaError(unreachable)
}
