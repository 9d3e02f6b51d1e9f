/** Finds what will fail for some events although the server can be reached: subjects without a stream, rights, limits. */
import { Effect } from "effect"
import type { SinkError } from "../Sink.ts"
import type { Connection } from "./NatsConnection.ts"
import { NatsError } from "./NatsError.ts"

/** An estimate of the bytes of headers. */
const overhead = 1_024

/** The stream that takes a subject; fails as a message to it would. */
export const streamOf = Effect.fnUntraced(function* (connection: Connection, subject: string) {
  const stream = yield* connection.streamOf(subject)
  if (stream?.acknowledges === false) return yield* new NatsError({ kind: "noAck", code: 0, detail: stream.name })
  if ((yield* connection.mayPublish(subject)) === false) {
    return yield* new NatsError({ kind: "publishDenied", code: 0, detail: subject })
  }
  return stream
})

const smaller = (taker: string, largest: number, needed: number, limit: string): string =>
  `${taker} takes ${largest} bytes at most, headers included, and a delivery may need ${needed}: such an event becomes a dead letter; raise ${limit}, or lower the webhook's maxBody`

export interface About {
  /** The servers of the config. */
  readonly servers: string
  /** The subjects that events are foreseen to have. */
  readonly subjects: ReadonlyArray<string>
  readonly fault: (error: NatsError, subject: string) => SinkError
}

/** Advice for deliveries of up to `maxBody` bytes. */
export const on = Effect.fnUntraced(function* (
  connection: Connection,
  { servers, subjects, fault }: About,
  maxBody: number,
): Effect.fn.Return<ReadonlyArray<string>> {
  const needed = maxBody + overhead
  const onSubject = (subject: string) =>
    Effect.match(streamOf(connection, subject), {
      onSuccess: (stream) =>
        stream?.largest === undefined || stream.largest >= needed
          ? []
          : [smaller(`the stream ${stream.name}`, stream.largest, needed, "max_msg_size")],
      onFailure: (error) => [fault(error, subject).message],
    })
  const all = yield* Effect.forEach(subjects, onSubject, { concurrency: "unbounded" })
  const { largest } = connection
  const own = largest < needed ? [smaller(`NATS ${servers}`, largest, needed, "max_payload")] : []
  return [...new Set([...own, ...all.flat()])]
})
