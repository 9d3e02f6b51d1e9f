/** Decides how a Kafka error affects the lane, and how an operator can fix it. Both clients share it. */
import { connect, isIP, type Socket } from "node:net"
import { connect as connectTls } from "node:tls"
import { Effect } from "effect"
import * as Address from "../../config/Address.ts"
import * as HttpTransport from "../../runtime/HttpTransport.ts"
import * as Certificates from "../Certificates.ts"
import { failed, misconfigured, rejected, type SinkError, throttled, unacceptable, unavailable } from "../Sink.ts"
import {
  below,
  type ClientOptions,
  certificateRefused,
  closed,
  createDenied,
  type KafkaError,
  kafkaError,
  loginRefused,
  requestTooLarge,
  saslMissing,
  textOf,
  timedOut,
  tlsMissing,
  tlsUnwanted,
  unreachable,
  untrusted,
} from "./KafkaClient.ts"

/** The facts that a message names. */
export interface Place {
  /** The brokers of the config. */
  readonly brokers: string
  /** The topic; empty if the error isn't about one. */
  readonly topic: string
  /** Whether the topic is a template. If it is, an error about it concerns only this event. */
  readonly isTemplated: boolean
  /** The size of the record; 0 if the error isn't about one. */
  readonly bytes: number
  /** Advice for an event that is too large. */
  readonly smaller: string
  /** Whether the record has no key. */
  readonly isKeyless: boolean
  /** Advises about a token that the broker refuses. Absent if the relay logs in without one. */
  readonly whyRefused?: (() => string) | undefined
}

/**
 * Whether a single record may be the reason for refusing the batch. If so, the batch
 * is split, and the other records are accepted.
 */
export const isOneRecords = ({ code }: KafkaError): boolean => refusedRecords.has(code)

const tooLarge = (code: string): boolean => code === "MESSAGE_TOO_LARGE" || code === "RECORD_LIST_TOO_LARGE"

/** Codes of refused records. Others in the batch may be accepted. */
const refusedRecords = new Set(["MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD"])

/** Codes that need a person, each with advice. */
const advice = new Map(
  Object.entries({
    [certificateRefused]:
      'the broker wants a client certificate of an authority that it trusts: set or correct "certificate" and "key" in "tls"',
    [tlsMissing]: 'the broker speaks TLS at this port: set "tls"',
    [tlsUnwanted]: 'the broker speaks no TLS at this port: name another, or take "tls" out',
    [saslMissing]: 'the broker wants a login at this port: set "sasl"',
    [loginRefused]: 'the broker refused the user or its password: correct "sasl"',
    UNSUPPORTED_SASL_MECHANISM: 'the broker does not allow this mechanism at this port: change "sasl.mechanism"',
    ILLEGAL_SASL_STATE: 'the broker wants no login at this port: name another, or take "sasl" out',
    CLUSTER_AUTHORIZATION_FAILED: "the user lacks IdempotentWrite on the cluster: grant it",
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the user lacks Write on the transactional id: grant it",
    UNSUPPORTED_COMPRESSION_TYPE: 'the broker does not know this compression: change "compression"',
    UNSUPPORTED_VERSION: "the broker is too old for this client",
    INVALID_TIMESTAMP:
      "the broker refuses the time of this machine: correct the clock that is wrong, or raise the topic's message.timestamp limits",
    UNSUPPORTED_FOR_MESSAGE_FORMAT: "the topic has a message format without headers: raise its message.format.version",
    POLICY_VIOLATION: 'the broker has a rule against such topics: change "createTopics", or make the topic by hand',
    INVALID_REPLICATION_FACTOR: 'there are too few brokers for this many copies: lower "createTopics.replication"',
    INVALID_PARTITIONS: 'the broker refuses this number of partitions: change "createTopics.partitions"',
  }),
)

/** Codes about the topic, each with advice. If the topic is a template, they may concern this event only. */
const topicAdvice = new Map(
  Object.entries({
    UNKNOWN_TOPIC_OR_PARTITION: 'there is no such topic: make it, or let the relay do so with "createTopics"',
    [createDenied]: "the user lacks Create on the topic: grant it, or make the topic by hand",
    TOPIC_AUTHORIZATION_FAILED: "the user lacks Write (or Describe) on the topic: grant it",
  }),
)

/** Codes that usually pass without a person, each with advice in case they don't. */
const passing = new Map([
  [
    "NOT_ENOUGH_REPLICAS",
    "fewer copies are in sync than min.insync.replicas asks for; if that persists, look at the other brokers, and whether the topic has that many copies",
  ],
  ["LEADER_NOT_AVAILABLE", "a partition has no leader; if that persists, look at the brokers that have it"],
  ["KAFKA_STORAGE_ERROR", "a disk of the broker fails; if that persists, look at its log directories"],
])

/** Whether the error is about the topic. Then records of other topics may be accepted. */
export const isTopics = ({ code }: KafkaError): boolean => topicAdvice.has(code) || code === "INVALID_TOPIC_EXCEPTION"

const seconds = 1_000

/** The error if a broker throttles the client for `millis` milliseconds. */
export const throttledFor = (millis: number, brokers: string, clientId: string): SinkError =>
  throttled(
    `kafka ${brokers} throttles the client "${clientId}": a quota of it, or of its user, is used up; nothing is sent for ${Math.ceil(millis / seconds)} s. If it falls behind, raise the quota (kafka-configs)`,
    millis,
  )

/** A compacted topic takes no record without a key. Not every client passes the broker's words on. */
const refusedRecord = (error: KafkaError, at: string, isKeyless: boolean): SinkError => {
  const isCompacted = /without key/i.test(error.detail)
  if (!isCompacted && !(isKeyless && error.detail === "")) {
    return rejected(`${at} refused the event: ${error.message}`)
  }
  return keyless(error, at, isCompacted)
}

/** A broker before Kafka 2.4 calls such a record corrupt. */
const keyless = (error: KafkaError, at: string, isCompacted: boolean): SinkError => {
  const why = isCompacted ? "the topic is compacted" : "the topic is probably compacted"
  return misconfigured(
    `${at}: ${why} (cleanup.policy) and takes no event without a key: set "key" to a text that every event has, or change the policy (${saidBy(error)})`,
  )
}

/** The broker's own words, or else its code. */
const saidBy = ({ code, detail }: KafkaError): string => (detail === "" ? code : detail)

export const sinkErrorOf = (error: KafkaError, place: Place): SinkError => {
  const { code, failure } = error
  if (failure !== undefined) return failure
  const { brokers, topic, isTemplated, bytes, smaller, isKeyless } = place
  // A template may render any text, so a name that is too long is cut.
  const name = topic.length > 249 ? `${topic.slice(0, 60)}…` : topic
  const at = name === "" ? `kafka ${brokers}` : `kafka ${brokers}, topic ${name}`
  if (code === unreachable) {
    const why = error.detail === "" ? "" : ` (${error.detail})`
    return unavailable(`kafka ${brokers} can't be reached${why}`)
  }
  if (code === closed) {
    return unavailable(
      `kafka ${brokers} can't be reached: it closed the connection without an answer; if that persists, check whether a broker listens at this port`,
    )
  }
  if (code === untrusted) {
    const failure = HttpTransport.failureOf(new Error(error.detail))
    const named = failure === "certificate of another host" ? "; brokers are named by advertised.listeners too" : ""
    return misconfigured(`kafka ${brokers}: ${Certificates.untrusted(failure, "brokers")}${named} (${error.detail})`)
  }
  if (code === timedOut) return unavailable(`kafka ${brokers} does not answer`)
  if (code === requestTooLarge) {
    return failed(
      `${at}: the broker closed the connection at an event of ${bytes} bytes, and answers smaller requests: it is probably larger than socket.request.max.bytes; raise that, or ${smaller}`,
    )
  }
  if (tooLarge(code)) {
    return unacceptable(
      `${at}: an event of ${bytes} bytes is larger than the broker takes: raise the topic's max.message.bytes, or ${smaller}`,
    )
  }
  if (refusedRecords.has(code)) return refusedRecord(error, at, isKeyless)
  if (code === "CORRUPT_MESSAGE" && isKeyless) return keyless(error, at, false)
  if (code === "INVALID_TOPIC_EXCEPTION") {
    const message = `${at}: this is not a name for a topic: at most 249 letters, digits, ".", "_" and "-"`
    return isTemplated ? rejected(message) : misconfigured(message)
  }
  const forTopic = topicAdvice.get(code)
  if (forTopic !== undefined) {
    const message = `${at}: ${forTopic}`
    return isTemplated ? failed(message) : misconfigured(message)
  }
  const todo = (code === loginRefused ? place.whyRefused?.() : undefined) ?? advice.get(code)
  if (todo !== undefined) {
    return misconfigured(`${at}: ${todo} (${saidBy(error)})`)
  }
  if (code === "THROTTLING_QUOTA_EXCEEDED")
    return throttled(`${at}: a quota is used up (${saidBy(error)})`, 5 * seconds)
  // The rest is transient: an election, too few in-sync replicas, a disk that fails over.
  const words = error.detail === "" ? "" : `: ${error.detail}`
  const hint = passing.get(code.replace(/_AFTER_APPEND$/, ""))
  return unavailable(`${at} can't take events now (${code}${words})${hint === undefined ? "" : `: ${hint}`}`)
}

// Finds why a broker closes its connections without an answer. The libraries report only the closing, but a listener
// that requires TLS, a login or a client certificate has no other way to refuse.
// **Guarantee.** It sends two requests without a credential, which a broker answers for anybody who may connect. If the
// cause isn't certain it names none.

/** How a conversation ended. */
type Ending = "answered" | "closed" | "closed after the greeting" | "alert of TLS" | KafkaError

const request = (apiKey: number, version: number, body: ReadonlyArray<number>): Buffer => {
  // Key, version and correlation id, and no client id.
  const bytes = [0, apiKey, 0, version, 0, 0, 0, 1, 0xff, 0xff, ...body]
  return Buffer.from([0, 0, 0, bytes.length, ...bytes])
}

/** ApiVersions, which is answered before a login. */
const greeting = request(18, 0, [])
/** Metadata of no topic, which is answered after a login only. */
const question = request(3, 1, [0, 0, 0, 0])

const alertOfTls = 0x15
/** An answer to the greeting has about 500 bytes: a length beyond this isn't a broker's. */
const longestAnswer = 65_536
const answerTimeout = "2 seconds"

/** Sends both requests, the second after the answer to the first. */
const converse = (open: (connected: () => void) => Socket): Effect.Effect<Ending> =>
  Effect.callback<Ending>((resume) => {
    let read: Buffer = Buffer.alloc(0)
    let isGreeted = false
    const socket = open(() => socket.write(greeting))
    const end = (ending: Ending): void => {
      socket.destroy()
      resume(Effect.succeed(ending))
    }
    socket.on("error", (error) => end(below(error, textOf(error, "code"))))
    socket.on("close", () => end(isGreeted ? "closed after the greeting" : "closed"))
    socket.on("data", (chunk: Buffer) => {
      if (isGreeted) return end("answered")
      read = Buffer.concat([read, chunk])
      if (read[0] === alertOfTls) return end("alert of TLS")
      if (read.length < 4) return
      const length = read.readInt32BE()
      if (length < 0 || length > longestAnswer) return end("closed")
      if (read.length < length + 4) return
      isGreeted = true
      socket.write(question)
    })
    return Effect.sync(() => socket.destroy())
  }).pipe(Effect.timeoutOrElse({ duration: answerTimeout, orElse: () => Effect.succeed<Ending>("closed") }))

/** A certificate was shown, or the broker answered. */
const isOverTls = (ending: Ending): boolean =>
  typeof ending === "string"
    ? ending === "answered" || ending === "closed after the greeting"
    : ending.code === untrusted || ending.code === certificateRefused

const ofBroker = Effect.fnUntraced(function* (
  { host, port }: Address.Address,
  { tls, sasl }: ClientOptions,
): Effect.fn.Return<KafkaError | undefined> {
  const plainly = converse((connected) => connect({ host, port }, connected))
  const overTls = converse((connected) =>
    connectTls({ host, port, ...(isIP(host) === 0 && { servername: host }), ...tls }, connected),
  )
  const ending = yield* tls === undefined ? plainly : overTls
  if (ending === "alert of TLS") return kafkaError(tlsMissing)
  // A broker that was restarted meanwhile would answer both.
  if (ending === "closed after the greeting") return sasl === undefined ? kafkaError(saslMissing) : undefined
  if (ending === "answered") return undefined
  if (typeof ending !== "string" && ending.code !== closed) return ending.code === unreachable ? undefined : ending
  if (tls === undefined) return isOverTls(yield* overTls) ? kafkaError(tlsMissing) : undefined
  const other = yield* plainly
  return other === "answered" || other === "closed after the greeting" ? kafkaError(tlsUnwanted) : undefined
})

/**
 * Runs a call with a timeout of `millis` milliseconds. If a broker closed its
 * connection, the call fails with the cause, if it is found.
 */
export const callWithin = <A, R>(
  call: Effect.Effect<A, KafkaError, R>,
  millis: number,
  options: ClientOptions,
): Effect.Effect<A, KafkaError, R> =>
  Effect.timeoutOrElse(call, { duration: millis, orElse: () => Effect.fail(kafkaError(timedOut)) }).pipe(
    Effect.catchIf(
      ({ code }) => code === closed,
      (error) => diagnose(error, options),
    ),
  )

/** Returns the cause from the first broker that shows one, or the error itself if none does. */
export const diagnose = Effect.fnUntraced(function* (
  error: KafkaError,
  options: ClientOptions,
): Effect.fn.Return<never, KafkaError> {
  for (const address of options.brokers.map(Address.parse)) {
    const found = address && (yield* ofBroker(address, options))
    if (found !== undefined) return yield* Effect.fail(found)
  }
  return yield* Effect.fail(error)
})
