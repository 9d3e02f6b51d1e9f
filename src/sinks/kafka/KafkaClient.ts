/**
 * The port to a Kafka client library; both clients implement it.
 *
 * **Guarantee.** A record without an error in the result of `send` is on every
 * in-sync replica. The records of a partition are one batch, written as a whole
 * or not at all, so nothing overtakes a failed record. An interrupted send closes
 * its connections, so that the library can't retry it later.
 */
import type { Socket } from "node:net"
import { Effect, Schema } from "effect"
import { oneLine } from "../ServiceWords.ts"
import { SinkError } from "../Sink.ts"

// A socket to a broker that always has an error listener. Both clients leave gaps in which an error has no listener and
// would end the process. **Guarantee.** Each of its errors has a listener. If a client throws because it can't read the
// bytes, only the connection ends; under Deno no other code could catch that. An answer that is too long for a broker
// ends the connection, so it can't fill the relay's memory.

/** The largest answer, in bytes. Metadata of 100,000 partitions takes about 10 MiB. */
const largestAnswer = 64 * 1024 * 1024

/** The bytes that arrived aren't a broker's answer. */
export class NotKafka extends Error {}

/** The client has its own listener while it uses the socket. */
export const ignoreErrors = (): void => {}

/** Must be called before the client adds its own listeners: it must see a chunk first. */
export const watchSocket = (socket: Socket): void => {
  socket.on("error", ignoreErrors)
  endingOnThrow(socket)
  /** The bytes of a length that have arrived. */
  const head: Array<number> = []
  /** Bytes of the answer that have not arrived yet. */
  let left = 0
  socket.on("data", (chunk: Buffer) => {
    for (let at = 0; at < chunk.length; ) {
      if (left > 0) {
        const taken = Math.min(left, chunk.length - at)
        left -= taken
        at += taken
        continue
      }
      head.push(chunk[at++] ?? 0)
      if (head.length < 4) continue
      left = Buffer.from(head.splice(0)).readInt32BE()
      // A TLS alert at a plain port isn't a length either: both clients recognize it by its first bytes.
      if (left < 4 || (left > largestAnswer && !isTls(left))) {
        socket.destroy(new NotKafka(`it does not speak Kafka's protocol: it announced an answer of ${left} bytes`))
        return
      }
    }
  })
}

/** Closes a socket if a listener throws an error while it reads data. */
const endingOnThrow = (socket: Socket): void => {
  const on = socket.on.bind(socket)
  const guarded = (event: string, listener: (...args: ReadonlyArray<unknown>) => void): Socket =>
    on(
      event,
      event !== "data"
        ? listener
        : (...args) => {
            try {
              listener.apply(socket, args)
            } catch (error) {
              socket.destroy(error instanceof Error ? error : new Error(String(error)))
            }
          },
    )
  Object.assign(socket, { on: guarded })
}

/** A record of TLS has its type and version where Kafka has the length. */
const isTls = (length: number): boolean => {
  const [type, major] = [length >>> 24, (length >>> 16) & 0xff]
  return type >= 0x14 && type <= 0x17 && major === 3
}

/**
 * An error of a broker or of the connection to it. It has Kafka's name (`MESSAGE_TOO_LARGE`), or one of ours below.
 */
export class KafkaError extends Schema.TaggedError<KafkaError>()("KafkaError", {
  code: Schema.String,
  /** The message of the library or the system; may be empty. Holds no payload. */
  detail: Schema.String,
  /** The failure to get a token for the login; only with {@link noToken}. */
  failure: Schema.optionalKey(SinkError),
}) {
  override get message(): string {
    return this.detail === "" ? this.code : `${this.code} (${this.detail})`
  }
}

export const kafkaError = (code: string, detail = "", failure?: SinkError) =>
  new KafkaError({ code, detail, ...(failure !== undefined && { failure }) })

/** The relay's own codes, for errors before a broker answers. */
export const unreachable = "UNREACHABLE"
/** A connection was opened and closed again without an answer. */
export const closed = "CLOSED"
/** A connection was closed for a large request, and a small one is answered. */
export const requestTooLarge = "REQUEST_TOO_LARGE"
/** The user may not create the topic. The broker uses the same code for a refused write. */
export const createDenied = "CREATE_DENIED"
export const untrusted = "TLS_UNTRUSTED"
/** The broker refuses the client certificate, or requires one. */
export const certificateRefused = "TLS_CERTIFICATE_REFUSED"
export const timedOut = "TIMED_OUT"
/** Only one side speaks TLS. */
export const tlsMissing = "TLS_MISSING"
export const tlsUnwanted = "TLS_UNWANTED"
/** The broker wants a login, and none is configured. */
export const saslMissing = "SASL_MISSING"
/** The relay could not get a token for its login. */
export const noToken = "SASL_TOKEN_MISSING"
/** The broker's answer to a user, a password or a token that it refuses. */
export const loginRefused = "SASL_AUTHENTICATION_FAILED"

const ours: ReadonlySet<string> = new Set([unreachable, untrusted, timedOut, tlsMissing, tlsUnwanted, noToken])

/** Whether an error is of the connection, and no broker's answer. */
export const isOurs = ({ code }: Pick<KafkaError, "code">): boolean => ours.has(code)

/** A record for a partition. Texts are sent as UTF-8. */
export interface KafkaRecord {
  readonly topic: string
  readonly partition: number
  /** Bytes if it has the frame of a schema registry. Empty: no key. */
  readonly key: string | Uint8Array
  /** `null` is a tombstone: a compacted topic removes the key. */
  readonly value: Uint8Array | null
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
}

export const compressions = ["none", "gzip", "snappy", "lz4", "zstd"] as const
export const passwordMechanisms = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] as const

interface PasswordLogin {
  readonly mechanism: (typeof passwordMechanisms)[number]
  readonly username: string
  readonly password: string
}

/** A login by OAUTHBEARER (RFC 7628). A client asks for the token at each login and each renewal of one. */
export interface TokenLogin {
  readonly mechanism: "OAUTHBEARER"
  /** Rejects with a `KafkaError`. */
  readonly token: () => Promise<string>
  readonly extensions: Readonly<Record<string, string>>
  /** Advises about the last token if the broker refuses it. */
  readonly whyRefused: () => string
}

/**
 * The error in a broker's answer to a token, or `undefined` if it accepts it. A refusal has no error code, so neither
 * client notices it: the broker describes it as JSON and waits for an acknowledgement.
 */
export const tokenRefusal = (answer: Uint8Array): KafkaError | undefined =>
  answer.length === 0 ? undefined : kafkaError(loginRefused, oneLine(Buffer.from(answer).toString()))

/** The options that a client library connects with. */
export interface ClientOptions {
  readonly clientId: string
  /** The address, such as `127.0.0.1:9092`. */
  readonly brokers: ReadonlyArray<string>
  /** PEM texts. Absent: no TLS. Empty: TLS with the system's authorities. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
  readonly sasl?: PasswordLogin | TokenLogin
  readonly compression: (typeof compressions)[number]
  /** The timeout of one request, in milliseconds. */
  readonly requestTimeout: number
}

/** The facts about a topic that exists. */
export interface Topic {
  readonly partitions: number
}

/** A setting of a topic, such as `cleanup.policy`. */
export interface TopicConfig {
  readonly name: string
  readonly value: string
}

/** A client library as the sink uses it. Each call fails with a `KafkaError`; none retries for longer than `requestTimeout`. */
export interface KafkaClient {
  /** Connects, and returns the brokers' addresses. */
  readonly brokers: Effect.Effect<ReadonlyArray<string>, KafkaError>
  /** Fails with `UNKNOWN_TOPIC_OR_PARTITION` when it doesn't exist. The answer may be some seconds old. */
  readonly topic: (name: string) => Effect.Effect<Topic, KafkaError>
  /** Succeeds when the topic exists already. */
  readonly createTopic: (
    name: string,
    shape: { readonly partitions: number; readonly replication: number; readonly configs: ReadonlyArray<TopicConfig> },
  ) => Effect.Effect<void, KafkaError>
  /** The values of these settings of a topic, by name. */
  readonly settings: (
    topic: string,
    names: ReadonlyArray<string>,
  ) => Effect.Effect<ReadonlyMap<string, string>, KafkaError>
  /** Whether the relay's user may write to the topic. `undefined` if the client can't ask. */
  readonly mayWrite: (topic: string) => Effect.Effect<boolean | undefined, KafkaError>
  /** Closes all connections. The next call begins with the brokers of the config again. */
  readonly restart: Effect.Effect<void>
  /**
   * Milliseconds left of a broker's throttling; 0 without one. The broker answers
   * at once and then stops reading from the connection, so requests sent
   * meanwhile seem to hang.
   */
  readonly throttled: () => number
  /** Returns errors by index of the record. After a failure any of the records may have been written. */
  readonly send: (records: ReadonlyArray<KafkaRecord>) => Effect.Effect<ReadonlyMap<number, KafkaError>, KafkaError>
}

/**
 * The maximum wait in milliseconds. A broker throttles for the length of its quota's
 * window, 11 seconds by default. A corrupted answer may say a month.
 */
const longestThrottle = 30_000

/** Remembers throttling by brokers; `note` takes milliseconds from now. */
export const makeThrottle = () => {
  let until = 0
  return {
    note: (millis: number): void => {
      until = Math.max(until, performance.now() + Math.min(millis, longestThrottle))
    },
    left: (): number => Math.max(0, until - performance.now()),
  }
}

/** Closes connections, within a second: a broker that hangs must not delay it. */
export const leave = (close: () => Promise<unknown>): Effect.Effect<void> =>
  Effect.promise(() => close().catch(() => undefined)).pipe(Effect.timeoutOption("1 second"), Effect.asVoid)

/** A partition as a key of maps. */
export const place = (record: { readonly topic: string; readonly partition: number }): string =>
  `${record.topic}:${record.partition}`

/** A property of an error, if it is a text. */
export const textOf = (error: object, key: string): string => {
  const value: unknown = Reflect.get(error, key)
  return typeof value === "string" ? value : ""
}

/** Other TLS codes, such as the code for a corrupted record, don't concern the certificate. */
const certificateCodes =
  /CERT|SELF_SIGNED|UNABLE_TO_(?:VERIFY|GET)|UnknownIssuer|invalid peer certificate|unable to (?:verify|get)|self.signed/i

/** The broker sends these alerts, so they are about the relay's own certificate. */
const refusal = /alert.*(?:certificate|unknown.?ca)/i

/** An error below Kafka's protocol, by the system's code or else by its message. */
export const below = (error: Error, code: string): KafkaError => {
  if (error instanceof NotKafka) return kafkaError(unreachable, error.message)
  const text = `${code} ${error.message}`.trim()
  if (/requires TLS/.test(text)) return kafkaError(tlsMissing)
  if (/wrong version number|ERR_SSL_WRONG_VERSION/i.test(text)) return kafkaError(tlsUnwanted)
  if (refusal.test(text)) return kafkaError(certificateRefused)
  if (certificateCodes.test(text)) return kafkaError(untrusted, oneLine(text))
  if (/timed? ?out|ETIMEDOUT/i.test(text)) return kafkaError(timedOut)
  return /closed|before secure TLS|write.after.end|ECONNRESET|EPIPE/i.test(text)
    ? kafkaError(closed)
    : kafkaError(unreachable, code)
}

/** The error to report: lasting ones before transient ones. */
export const worst = (errors: ReadonlyArray<KafkaError>): KafkaError => {
  const passing = [unreachable, closed, timedOut]
  return (
    errors.find(({ code }) => code.startsWith("TLS_") || code.includes("SASL")) ??
    errors.findLast(({ code }) => !passing.includes(code)) ??
    errors.at(-1) ??
    kafkaError(unreachable)
  )
}
