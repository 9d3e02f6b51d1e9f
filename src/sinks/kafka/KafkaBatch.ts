/**
 * Sends a lane's batch as records: gives each its partition, and takes apart what
 * a broker refuses for one record.
 */
import { Effect } from "effect"
import type { Entry } from "../../event/Entry.ts"
import { type Placed, renderEach } from "../Rendered.ts"
import { type Failures, isFinal, type SinkError } from "../Sink.ts"
import {
  closed,
  type KafkaClient,
  KafkaError,
  type KafkaRecord,
  kafkaError,
  place,
  requestTooLarge,
  type Topic,
} from "./KafkaClient.ts"
import * as KafkaErrors from "./KafkaErrors.ts"
import type { Encoded } from "./KafkaMessage.ts"
import type { KafkaTopics } from "./KafkaTopics.ts"
import { partitionOf } from "./Partition.ts"

type PlacedRecord = Placed<KafkaRecord>

/** Bytes. No broker is told to close the connection for a smaller request. */
const largeRequest = 64 * 1024

/**
 * Makes a function that sends batches. It fails with an error that concerns all events of a batch; `fault` says what
 * an error of one record means.
 */
export const make = (
  client: KafkaClient,
  topics: KafkaTopics,
  encode: (entry: Entry) => Encoded,
  fault: (error: KafkaError, record: Encoded) => SinkError,
) => {
  let turn = 0

  /** Sends records. A closed connection is an error of each record. */
  const sendAll = (records: ReadonlyArray<PlacedRecord>): ReturnType<KafkaClient["send"]> =>
    Effect.catchIf(
      client.send(records.map(({ message }) => message)),
      ({ code }) => code === closed,
      (error) => Effect.succeed(new Map(records.map((_, at) => [at, error]))),
    )

  /** Sends records and adds their failures. */
  const deliver = (
    records: ReadonlyArray<PlacedRecord>,
    failures: Map<number, SinkError>,
  ): Effect.Effect<void, KafkaError> =>
    Effect.gen(function* () {
      const refused: Array<PlacedRecord> = []
      const cutOff: Array<PlacedRecord> = []
      for (const [at, error] of yield* sendAll(records)) {
        const one = records[at] as PlacedRecord
        if (KafkaErrors.isOneRecords(error)) refused.push(one)
        if (error.code === closed) cutOff.push(one)
        failures.set(one.index, fault(error, one.message))
      }
      for (const some of Map.groupBy(refused, ({ message }) => place(message)).values()) {
        if (some.length > 1) yield* takeApart(some, failures)
      }
      if (cutOff.length > 0 && (yield* isTooLarge(cutOff))) yield* sendInParts(cutOff, failures)
      else if (cutOff.length === records.length) yield* Effect.fail(kafkaError(closed))
    })

  /** Whether a closed connection is probably due to the size of the request: the brokers answer a small request. */
  const isTooLarge = (records: ReadonlyArray<PlacedRecord>): Effect.Effect<boolean> =>
    records.reduce((sum, { message }) => sum + message.value.length, 0) < largeRequest
      ? Effect.succeed(false)
      : Effect.match(client.brokers, { onSuccess: () => true, onFailure: () => false })

  /** Sends each partition by itself, or the halves of one. A single record is too large. */
  const sendInParts = Effect.fnUntraced(function* (
    records: ReadonlyArray<PlacedRecord>,
    failures: Map<number, SinkError>,
  ) {
    const places = [...Map.groupBy(records, ({ message }) => place(message)).values()]
    if (places.length > 1) {
      for (const { index } of records) failures.delete(index)
      for (const some of places) yield* deliver(some, failures)
    } else if (records.length > 1) yield* takeApart(records, failures)
    else for (const { index, message } of records) failures.set(index, fault(kafkaError(requestTooLarge), message))
  })

  /** Sends the halves of what a partition refused, one after the other. */
  const takeApart = Effect.fnUntraced(function* (
    records: ReadonlyArray<PlacedRecord>,
    failures: Map<number, SinkError>,
  ) {
    const middle = records.length >> 1
    let stop: SinkError | undefined
    const isOrdered = ({ message }: PlacedRecord) => message.key !== ""
    for (const half of [records.slice(0, middle), records.slice(middle)]) {
      const free = stop === undefined ? half : half.filter((one) => !isOrdered(one))
      if (stop !== undefined) for (const { index } of half) failures.set(index, stop)
      for (const { index } of free) failures.delete(index)
      if (free.length > 0) yield* deliver(free, failures)
      // Later records of a key must not overtake one that is retried.
      stop ??= half
        .filter(isOrdered)
        .map(({ index }) => failures.get(index))
        .find((failure) => failure !== undefined && !isFinal(failure))
    }
  })

  /** The topics of some events by name. An error that is about one topic stands in its place. */
  const topicsOf = Effect.fnUntraced(function* (encoded: ReadonlyArray<Placed<Encoded>>) {
    const found = new Map<string, Topic | KafkaError>()
    for (const { message } of encoded) {
      if (found.has(message.topic)) continue
      const topic = Effect.catchIf(topics.find(message.topic), KafkaErrors.isTopics, (error) => Effect.succeed(error))
      found.set(message.topic, yield* topic)
    }
    return found
  })

  return Effect.fnUntraced(function* (batch: ReadonlyArray<Entry>): Effect.fn.Return<Failures, KafkaError> {
    const failures = new Map<number, SinkError>()
    const encoded = renderEach(batch, encode, failures)
    const found = yield* topicsOf(encoded)
    turn += 1
    const records: Array<PlacedRecord> = []
    for (const { index, message } of encoded) {
      const topic = found.get(message.topic) as Topic | KafkaError
      if (topic instanceof KafkaError) {
        failures.set(index, fault(topic, message))
        continue
      }
      // Without a key the whole batch has one partition, and the next batch another.
      const { key } = message
      const partition = key === "" ? turn % topic.partitions : partitionOf(key, topic.partitions)
      records.push({ index, message: { ...message, partition } })
    }
    if (records.length > 0) yield* deliver(records, failures)
    return failures
  })
}
