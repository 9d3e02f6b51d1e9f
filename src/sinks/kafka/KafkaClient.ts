/**
 * What the Kafka sink needs of a client library: the port that both stand
 * behind.
 *
 * **Guarantee.** A record that has no error in the answer of `send` is on every
 * in-sync replica. Records of one partition go as one batch: all of them passed
 * or none, so nothing overtakes a failed one. A send that is interrupted takes
 * its connections with it: nothing of it is retried behind the caller's back.
 */
import { Effect, Schema } from "effect"

/**
 * What a broker or the way to it said, in Kafka's own word for it
 * (`MESSAGE_TOO_LARGE`), or one of ours where it has none.
 */
export class KafkaError extends Schema.TaggedError<KafkaError>()("KafkaError", {
  code: Schema.String,
  /** What the library or the system said; empty when it adds nothing. Holds no payload. */
  detail: Schema.String,
}) {
  override get message(): string {
    return this.detail === "" ? this.code : `${this.code} (${this.detail})`
  }
}

/** Codes of ours, for what happens before a broker answers. */
export const unreachable = "UNREACHABLE"
export const untrusted = "TLS_UNTRUSTED"
export const timedOut = "TIMED_OUT"
/** The other side speaks TLS and this one does not, or the other way round. */
export const tlsMissing = "TLS_MISSING"
export const tlsUnwanted = "TLS_UNWANTED"

export interface KafkaRecord {
  readonly topic: string
  readonly partition: number
  /** Empty: no key. */
  readonly key: string
  readonly value: Uint8Array
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
}

export const compressions = ["none", "gzip", "snappy", "lz4", "zstd"] as const
export const mechanisms = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] as const

export interface ClientOptions {
  readonly clientId: string
  /** As in `127.0.0.1:9092`. */
  readonly brokers: ReadonlyArray<string>
  /** PEM texts; absent is no TLS, empty is TLS with the system's authorities. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
  readonly sasl?: {
    readonly mechanism: (typeof mechanisms)[number]
    readonly username: string
    readonly password: string
  }
  readonly compression: (typeof compressions)[number]
  /** Milliseconds that a broker may take to answer one request. */
  readonly requestTimeout: number
}

export interface Topic {
  readonly partitions: number
}

export interface KafkaClient {
  /** Reaches the brokers; their addresses. */
  readonly brokers: Effect.Effect<ReadonlyArray<string>, KafkaError>
  /** Fails with `UNKNOWN_TOPIC_OR_PARTITION` when there is none; never makes one. May be some seconds old. */
  readonly topic: (name: string) => Effect.Effect<Topic, KafkaError>
  /** Succeeds too when the topic is there already. */
  readonly createTopic: (
    name: string,
    shape: { readonly partitions: number; readonly replication: number },
  ) => Effect.Effect<void, KafkaError>
  /** Bytes of a batch of records that the topic takes at most. */
  readonly largestBatch: (topic: string) => Effect.Effect<number, KafkaError>
  /** Whether the relay's user may write to the topic; `undefined` where the client can't ask. */
  readonly mayWrite: (topic: string) => Effect.Effect<boolean | undefined, KafkaError>
  /**
   * Milliseconds for which a broker asked to be left alone, because a quota is
   * used up; 0 when none did. It answers at once and then reads nothing more from
   * the connection, so what is sent meanwhile seems to hang.
   */
  readonly throttled: () => number
  /** Errors by index of record. Failing means that nothing is known of any. */
  readonly send: (records: ReadonlyArray<KafkaRecord>) => Effect.Effect<ReadonlyMap<number, KafkaError>, KafkaError>
}

/** Remembers what brokers ask for: `note` takes milliseconds from now. */
export const makeThrottle = () => {
  let until = 0
  return {
    note: (millis: number): void => {
      until = Math.max(until, performance.now() + millis)
    },
    left: (): number => Math.max(0, until - performance.now()),
  }
}

/** Closes connections, and waits a second at most: a broker that hangs must not hold up whoever leaves it. */
export const leave = (close: () => Promise<unknown>): Effect.Effect<void> =>
  Effect.promise(() => close().catch(() => undefined)).pipe(Effect.timeoutOption("1 second"), Effect.asVoid)

export const place = (record: { readonly topic: string; readonly partition: number }): string =>
  `${record.topic}:${record.partition}`

/** A property of a library's error, where it is a text. */
export const textOf = (error: object, key: string): string => {
  const value: unknown = Reflect.get(error, key)
  return typeof value === "string" ? value : ""
}

/** All that a broker says to who speaks in the wrong way to it. */
const closed =
  'it closed the connection; if it goes on, see which port this is, and whether it wants "tls", a client certificate or "sasl"'

const certificateCodes =
  /CERT|SELF_SIGNED|UNABLE_TO_(?:VERIFY|GET)|ERR_TLS|ERR_SSL|UnknownIssuer|invalid peer certificate|unable to (?:verify|get)|self.signed/i

/** A failure below Kafka's protocol, by the system's code or, where there is none, its words. */
export const below = (error: Error, code: string): KafkaError => {
  const said = `${code} ${error.message}`
  if (/requires TLS/.test(said)) return new KafkaError({ code: tlsMissing, detail: "" })
  if (/wrong version number|ERR_SSL_WRONG_VERSION/i.test(said)) {
    return new KafkaError({ code: tlsUnwanted, detail: "" })
  }
  const certificate = certificateCodes.exec(said)
  if (certificate !== null) {
    return new KafkaError({ code: untrusted, detail: code === "" ? certificate[0] : code })
  }
  if (/timed? ?out|ETIMEDOUT/i.test(said)) return new KafkaError({ code: timedOut, detail: "" })
  return new KafkaError({ code: unreachable, detail: /closed|before secure TLS/i.test(said) ? closed : code })
}

/** Of several, what a person must hear: what stays wrong before what may pass by itself. */
export const worst = (errors: ReadonlyArray<KafkaError>): KafkaError => {
  const passing = [unreachable, timedOut]
  return (
    errors.find(({ code }) => code.startsWith("TLS_") || code.includes("SASL")) ??
    errors.findLast(({ code }) => !passing.includes(code)) ??
    errors.at(-1) ??
    new KafkaError({ code: unreachable, detail: "" })
  )
}
