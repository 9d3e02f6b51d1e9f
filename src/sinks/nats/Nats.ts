/**
 * The NATS sink: one message an event, to a JetStream stream, acknowledged when the
 * stream has stored it.
 *
 * **Guarantee.** Events of one key are delivered in order, also across retries if
 * the lane keeps `order: key`: of each key one message waits for its acknowledgement
 * at a time, and nothing overtakes a failed message. A message that arrives twice
 * within the stream's duplicate window is stored once.
 *
 * **Gotcha.** Messages of one key go at the pace of the acknowledgements: for speed
 * take a key with many values.
 */
import { Clock, Effect, Result, type Scope } from "effect"
import type { Entry } from "../../event/Event.ts"
import { displayBytes } from "../../formats/Rendering.ts"
import * as Template from "../../formats/Template.ts"
import * as Certificates from "../Certificates.ts"
import * as Connections from "../Connections.ts"
import { possibleValues, smaller } from "../MessageKeys.ts"
import { type Placed, renderEach } from "../Rendered.ts"
import {
  type Failures,
  isFinal,
  type Limits,
  passed,
  rejected,
  type Sink,
  type SinkError,
  type SinkType,
} from "../Sink.ts"
import { doubts, encoder, isSubject, type Message, NatsConfig } from "./NatsConfig.ts"
import type { Connection } from "./NatsConnection.ts"
import * as NatsErrors from "./NatsErrors.ts"
import { NatsError } from "./NatsErrors.ts"

// Finds causes that will make some events fail although the server can be reached: subjects without a stream, rights,
// limits.

/** An estimate of the bytes of headers. */
const headersSize = 1_024

/** The stream that takes a subject. Fails as a message to it would. */
const streamOf = Effect.fnUntraced(function* (connection: Connection, subject: string) {
  const stream = yield* connection.streamOf(subject)
  if (stream?.acknowledges === false) return yield* new NatsError({ kind: "noAck", code: 0, detail: stream.name })
  if ((yield* connection.mayPublish(subject)) === false) {
    return yield* new NatsError({ kind: "publishDenied", code: 0, detail: subject })
  }
  return stream
})

const tooLarge = (taker: string, largest: number, needed: number, limit: string): string =>
  `${taker} takes ${largest} bytes at most, headers included, and a delivery may need ${needed}: such an event becomes a dead letter; raise ${limit}, or lower the webhook's maxBody`

interface About {
  /** The servers of the config. */
  readonly servers: string
  /** The subjects that events are foreseen to have. */
  readonly subjects: ReadonlyArray<string>
  readonly fault: (error: NatsError, subject: string) => SinkError
}

/** Advice for deliveries of up to `maxBody` bytes. */
const adviceOn = Effect.fnUntraced(function* (
  connection: Connection,
  { servers, subjects, fault }: About,
  maxBody: number,
): Effect.fn.Return<ReadonlyArray<string>> {
  const needed = maxBody + headersSize
  const onSubject = (subject: string) =>
    Effect.match(streamOf(connection, subject), {
      onSuccess: (stream) =>
        stream?.largest === undefined || stream.largest >= needed
          ? []
          : [tooLarge(`the stream ${stream.name}`, stream.largest, needed, "max_msg_size")],
      onFailure: (error) => [fault(error, subject).message],
    })
  const all = yield* Effect.forEach(subjects, onSubject, { concurrency: "unbounded" })
  const { largest } = connection
  const own = largest < needed ? [tooLarge(`NATS ${servers}`, largest, needed, "max_payload")] : []
  return [...new Set([...own, ...all.flat()])]
})

/** The size of a message in bytes, as the server counts them. */
const sizeOf = ({ body, headers, id }: Message): number => {
  let bytes = body.length + "NATS/1.0\r\nNats-Msg-Id: \r\n\r\n".length + id.length
  for (const [name, value] of headers) bytes += name.length + value.length + ": \r\n".length
  return bytes
}

const noSubject = rejected(
  "NATS: no message can have the subject that this event makes: one of its words is empty, or it is longer than 1,000 characters",
)

/** Publishes messages of one key, one after the other. If a message is retried, the messages after it fail too. */
const publishInOrder = Effect.fnUntraced(function* (
  connection: Connection,
  placed: ReadonlyArray<Placed<Message>>,
  failures: Map<number, SinkError>,
  fault: (error: NatsError, message: Message) => SinkError,
) {
  let stop: SinkError | undefined
  for (const { index, message } of placed) {
    if (stop === undefined) {
      const result = yield* Effect.result(connection.publish(message))
      if (Result.isSuccess(result)) continue
      const error = fault(result.failure, message)
      failures.set(index, error)
      if (!isFinal(error)) stop = error
    } else failures.set(index, stop)
  }
})

const make = Effect.fnUntraced(function* (config: NatsConfig): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const tls = config.tls && (yield* Certificates.read(config.tls))
  const { open } = yield* Effect.promise(() => import("./NatsConnection.ts"))
  const { auth, inboxPrefix, tlsFirst } = config
  const use = yield* Connections.shared(open({ servers: config.servers, tls, tlsFirst, auth, inboxPrefix }))
  const servers = config.servers.join(", ")
  /** The subject of all events, if there is one. */
  const only = Template.isConstant(config.subject) ? config.subject : undefined
  const isTemplated = only === undefined
  const clock = yield* Clock.Clock
  const encode = encoder(config, () => clock.currentTimeMillisUnsafe())

  const fault = (error: NatsError, subject = only ?? "", bytes = 0): SinkError =>
    NatsErrors.sinkErrorOf(error, { servers, subject, isTemplated, bytes, smaller: smaller(config) })
  const ofMessage = (error: NatsError, message: Message) => fault(error, message.subject, sizeOf(message))

  const send = (batch: ReadonlyArray<Entry>): Effect.Effect<Failures, SinkError> => {
    const failures = new Map<number, SinkError>()
    const placed = renderEach(batch, encode, failures, ({ subject }) => (isSubject(subject) ? undefined : noSubject))
    if (placed.length === 0) return failures.size === 0 ? passed : Effect.succeed(failures)
    // An event without a key has an order of its own.
    const groups = [...Map.groupBy(placed, ({ index, message }) => message.key || index).values()]
    return use(
      (connection) =>
        Effect.as(
          Effect.forEach(groups, (group) => publishInOrder(connection, group, failures, ofMessage), {
            concurrency: "unbounded",
            discard: true,
          }),
          failures,
        ),
      (all) => !all.values().some(Connections.mayHaveMoved),
    ).pipe(Effect.mapError((error) => fault(error)))
  }

  const check = use((connection) =>
    only === undefined ? connection.ping : Effect.asVoid(streamOf(connection, only)),
  ).pipe(Effect.mapError((error) => fault(error)))

  const advise = ({ maxBody, eventTypes }: Limits) => {
    const subjects = only === undefined ? possibleValues(config.subject, eventTypes) : [only]
    const about = { servers, subjects, fault: (error: NatsError, subject: string) => fault(error, subject) }
    return Effect.mapError(
      use((connection) => adviceOn(connection, about, maxBody)),
      (error) => fault(error),
    )
  }

  return { batch: { maxEvents: 256, maxBytes: 1024 * 1024 }, send, check, advise }
})

export const Nats: SinkType<NatsConfig> = {
  config: NatsConfig,
  doubts,
  libraries: ["@nats-io/"],
  // All of a batch are in flight at the same time; a second would let one event overtake another of its key.
  concurrency: 1,
  open: make,
  preview: (config, batch) =>
    batch.map(encoder(config)).map(({ subject, id, headers, body }) => ({
      subject,
      headers: { ...Object.fromEntries(headers), "Nats-Msg-Id": id },
      payload: displayBytes(body),
    })),
}
