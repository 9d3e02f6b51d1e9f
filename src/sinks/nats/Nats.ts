/**
 * The NATS sink: one message an event, to a JetStream stream, acknowledged when
 * the stream has stored it.
 *
 * **Guarantee.** Events of one key are delivered in order, also across retries
 * where the lane keeps `order: key`: of each key one message waits for its
 * acknowledgement at a time, and nothing overtakes one that failed. A message
 * that comes twice within the stream's duplicate window is stored once.
 *
 * **Gotcha.** Messages of one key go at the pace of the acknowledgements: for
 * speed take a key with many values.
 */
import { Effect, RcRef, Result, type Scope } from "effect"
import type { Entry } from "../../event/Entry.ts"
import * as DisplayBytes from "../../formats/DisplayBytes.ts"
import * as Template from "../../formats/Template.ts"
import * as Certificates from "../Certificates.ts"
import { foreseeable } from "../Foreseeable.ts"
import { rendered } from "../Rendered.ts"
import { type Failures, isFinal, type Limits, passed, rejected, type Sink, SinkError, type SinkType } from "../Sink.ts"
import { NatsConfig } from "./NatsConfig.ts"
import type { Connection } from "./NatsConnection.ts"
import { NatsError } from "./NatsError.ts"
import { encoder, type Message } from "./NatsMessage.ts"
import * as NatsReasons from "./NatsReasons.ts"
import { isSubject } from "./Subject.ts"

/** A message, and its event's index in the lane's batch. */
interface Placed {
  readonly index: number
  readonly message: Message
}

/** The size of a message in bytes, as the server counts them. */
const sizeOf = ({ body, headers, id }: Message): number => {
  let bytes = body.length + "NATS/1.0\r\nNats-Msg-Id: \r\n\r\n".length + id.length
  for (const [name, value] of headers) bytes += name.length + value.length + ": \r\n".length
  return bytes
}

const make = Effect.fnUntraced(function* (config: NatsConfig): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const tls = config.tls && (yield* Certificates.read(config.tls))
  const { open } = yield* Effect.promise(() => import("./NatsConnection.ts"))
  const { auth, inboxPrefix } = config
  const shared = yield* RcRef.make({
    acquire: open({ servers: config.servers, tls, auth, inboxPrefix }),
    idleTimeToLive: "Infinity",
  })
  const servers = config.servers.join(", ")
  const isTemplated = Template.hasPlaceholder(config.subject)
  const encode = encoder(config)

  const fault = (error: NatsError, message?: Message): SinkError =>
    new SinkError({
      reason: NatsReasons.reasonOf(error, {
        servers,
        subject: message?.subject ?? (isTemplated ? "" : config.subject),
        isTemplated,
        bytes: message === undefined ? 0 : sizeOf(message),
      }),
    })

  /** Uses the connection; what failed or was interrupted leaves none behind for the next. */
  const withConnection = <A>(
    use: (connection: Connection) => Effect.Effect<A, NatsError>,
    isWhole: (value: A) => boolean = () => true,
  ): Effect.Effect<A, NatsError> =>
    Effect.scoped(
      Effect.gen(function* () {
        let connection = yield* RcRef.get(shared)
        while (!connection.isOpen()) {
          yield* RcRef.invalidate(shared)
          connection = yield* RcRef.get(shared)
        }
        return yield* Effect.onExit(use(connection), (exit) =>
          exit._tag === "Success" && isWhole(exit.value) ? Effect.void : RcRef.invalidate(shared),
        )
      }),
    )

  /** Publishes messages of one key, one after the other. */
  const inOrder = Effect.fnUntraced(function* (
    connection: Connection,
    placed: ReadonlyArray<Placed>,
    failures: Map<number, SinkError>,
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

  const place = (batch: ReadonlyArray<Entry>, failures: Map<number, SinkError>): ReadonlyArray<Placed> =>
    batch.flatMap((entry, index) => {
      const message = Result.flatMap(
        rendered(() => encode(entry)),
        (one) => (isSubject(one.subject) ? Result.succeed(one) : Result.fail(noSubject)),
      )
      if (Result.isFailure(message)) failures.set(index, message.failure)
      return Result.isFailure(message) ? [] : [{ index, message: message.success }]
    })

  const send = (batch: ReadonlyArray<Entry>): Effect.Effect<Failures, SinkError> => {
    const failures = new Map<number, SinkError>()
    const placed = place(batch, failures)
    if (placed.length === 0) return failures.size === 0 ? passed : Effect.succeed(failures)
    // An event without a key has an order of its own.
    const groups = [...Map.groupBy(placed, ({ index, message }) => message.key || index).values()]
    return withConnection(
      (connection) =>
        Effect.as(
          Effect.forEach(groups, (group) => inOrder(connection, group, failures), {
            concurrency: "unbounded",
            discard: true,
          }),
          failures,
        ),
      // One that does not acknowledge in time may be one that hangs.
      (all) => ![...all.values()].some(({ reason }) => reason._tag === "SinkUnavailable"),
    ).pipe(Effect.mapError((error) => fault(error)))
  }

  // --- check ---------------------------------------------------------------

  /** The stream that takes a subject; fails as a message to it would. */
  const streamOf = Effect.fnUntraced(function* (connection: Connection, subject: string) {
    const stream = yield* connection.streamOf(subject)
    if (stream?.acknowledges === false) return yield* new NatsError({ kind: "noAck", code: 0, detail: stream.name })
    if ((yield* connection.mayPublish(subject)) === false) {
      return yield* new NatsError({ kind: "publishDenied", code: 0, detail: subject })
    }
    return stream
  })

  const check = withConnection((connection) =>
    isTemplated ? connection.ping : Effect.asVoid(streamOf(connection, config.subject)),
  ).pipe(Effect.mapError((error) => fault(error)))

  const adviseOn = (connection: Connection, subject: string, needed: number) =>
    Effect.match(streamOf(connection, subject), {
      onSuccess: (stream): ReadonlyArray<string> => {
        if (stream?.largest === undefined || stream.largest >= needed) return []
        return [smaller(`the stream ${stream.name}`, stream.largest, needed, "max_msg_size")]
      },
      // A fixed subject needs no advice, because `check` reports it.
      onFailure: (error) => [
        new SinkError({ reason: NatsReasons.reasonOf(error, { servers, subject, isTemplated, bytes: 0 }) }).message,
      ],
    })

  const advise = ({ maxBody }: Limits) =>
    withConnection((connection) =>
      Effect.gen(function* () {
        const needed = maxBody + overhead
        const { largest } = connection
        const subjects = isTemplated ? foreseeable(config.subject) : [config.subject]
        const all = yield* Effect.forEach(subjects, (subject) => adviseOn(connection, subject, needed), {
          concurrency: "unbounded",
        })
        const own = largest < needed ? [smaller(`NATS ${servers}`, largest, needed, "max_payload")] : []
        return [...new Set([...own, ...all.flat()])]
      }),
    ).pipe(Effect.mapError((error) => fault(error)))

  return { batch: { maxEvents: 256, maxBytes: 1024 * 1024 }, send, check, advise }
})

/** An estimate of the bytes of headers. */
const overhead = 1_024

const smaller = (taker: string, largest: number, needed: number, limit: string): string =>
  `${taker} takes ${largest} bytes at most, headers included, and a delivery may need ${needed}: such an event becomes a dead letter; raise ${limit}, or lower the webhook's maxBody`

const noSubject = rejected(
  "NATS: no message can have the subject that this event makes: one of its words is empty, or it is longer than 1,000 characters",
)

export const Nats: SinkType<NatsConfig> = {
  config: NatsConfig,
  libraries: ["@nats-io/"],
  // All of a batch are in flight at the same time; a second would let one event overtake another of its key.
  concurrency: 1,
  open: make,
  preview: (config, batch) =>
    batch.map(encoder(config)).map(({ subject, id, headers, body }) => ({
      subject,
      headers: { ...Object.fromEntries(headers), "Nats-Msg-Id": id },
      payload: DisplayBytes.show(body),
    })),
}
