/**
 * A Kafka error means something for the lane, and a person should do something about it: both are here;
 * the same for both clients.
 */
import * as HttpTransport from "../../runtime/HttpTransport.ts"
import * as Certificates from "../Certificates.ts"
import { failed, misconfigured, rejected, type SinkError, throttled, unacceptable, unavailable } from "../Sink.ts"
import {
  certificateRefused,
  closed,
  createDenied,
  type KafkaError,
  requestTooLarge,
  saslMissing,
  timedOut,
  tlsMissing,
  tlsUnwanted,
  unreachable,
  untrusted,
} from "./KafkaClient.ts"

/** A message names this. */
export interface Place {
  /** The brokers of the config. */
  readonly brokers: string
  /** The topic; empty if the error isn't about one. */
  readonly topic: string
  /** Whether the topic is a template: then an error about it concerns this event only. */
  readonly isTemplated: boolean
  /** The size of the record; 0 if the error isn't about one. */
  readonly bytes: number
  /** Whether the record has no key. */
  readonly isKeyless: boolean
}

/** Whether one record may be the reason that a batch was refused: split, the others are accepted. */
export const isOneRecords = ({ code }: KafkaError): boolean => refusedRecords.has(code)

const tooLarge = (code: string): boolean => code === "MESSAGE_TOO_LARGE" || code === "RECORD_LIST_TOO_LARGE"

/** Codes of records of which others in the batch may be accepted. */
const refusedRecords = new Set(["MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD"])

/** Codes that need a person, and what to do. */
const advice = new Map(
  Object.entries({
    [certificateRefused]:
      'the broker wants a client certificate of an authority that it trusts: set or correct "certificate" and "key" in "tls"',
    [tlsMissing]: 'the broker speaks TLS at this port: set "tls"',
    [tlsUnwanted]: 'the broker speaks no TLS at this port: name another, or take "tls" out',
    [saslMissing]: 'the broker wants a login at this port: set "sasl"',
    SASL_AUTHENTICATION_FAILED: 'the broker refused the user or its password: correct "sasl"',
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

/** Codes about the topic, and what to do; of a template they may concern this event only. */
const topicAdvice = new Map(
  Object.entries({
    UNKNOWN_TOPIC_OR_PARTITION: 'there is no such topic: make it, or let the relay do so with "createTopics"',
    [createDenied]: "the user lacks Create on the topic: grant it, or make the topic by hand",
    TOPIC_AUTHORIZATION_FAILED: "the user lacks Write (or Describe) on the topic: grant it",
  }),
)

/** Codes that pass without a person, and what to look at if they stay. */
const passing = new Map([
  [
    "NOT_ENOUGH_REPLICAS",
    "fewer copies are in sync than min.insync.replicas asks for; if that persists, look at the other brokers, and whether the topic has that many copies",
  ],
  ["LEADER_NOT_AVAILABLE", "a partition has no leader; if that persists, look at the brokers that have it"],
  ["KAFKA_STORAGE_ERROR", "a disk of the broker fails; if that persists, look at its log directories"],
])

/** Whether it is about the topic: records of other topics may be accepted. */
export const isTopics = ({ code }: KafkaError): boolean => topicAdvice.has(code) || code === "INVALID_TOPIC_EXCEPTION"

const seconds = 1_000

/** A broker throttles the client for so many milliseconds. */
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
  const { code } = error
  const { brokers, topic, isTemplated, bytes, isKeyless } = place
  // A template may render any text: one that is too long for a name is cut.
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
      `${at}: the broker closed the connection at an event of ${bytes} bytes, and answers smaller requests: it is probably larger than socket.request.max.bytes; raise that, or lower the webhook's maxBody`,
    )
  }
  if (tooLarge(code)) {
    return unacceptable(
      `${at}: an event of ${bytes} bytes is larger than the broker takes: raise the topic's max.message.bytes, or lower the webhook's maxBody`,
    )
  }
  if (refusedRecords.has(code)) return refusedRecord(error, at, isKeyless)
  if (code === "CORRUPT_MESSAGE" && isKeyless) return keyless(error, at, false)
  if (code === "INVALID_TOPIC_EXCEPTION") {
    const message = `${at}: this is no name for a topic: at most 249 letters, digits, ".", "_" and "-"`
    return isTemplated ? rejected(message) : misconfigured(message)
  }
  const forTopic = topicAdvice.get(code)
  if (forTopic !== undefined) {
    const message = `${at}: ${forTopic}`
    return isTemplated ? failed(message) : misconfigured(message)
  }
  const todo = advice.get(code)
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
