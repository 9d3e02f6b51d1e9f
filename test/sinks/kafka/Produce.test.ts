/**
 * What is sent again, and as what: against a broker that answers as it is told
 * to, and each version of the request against Apache Kafka.
 */
import { describe, expect } from "bun:test"
import { NetworkError, Producer, Reader, readRecordsBatch, type Writer } from "@platformatic/kafka"
import { Effect, Result } from "effect"
import { type KafkaRecord, kafkaError } from "../../../src/sinks/kafka/KafkaClient.ts"
import * as Produce from "../../../src/sinks/kafka/Produce.ts"
import { it } from "../../lib/effect.ts"
import { follow, makeTopic } from "../../parts/Topics.ts"
import { withBroker } from "./kafkaSink.ts"

type Client = Parameters<typeof Produce.make>[0]
type Send = Parameters<Awaited<ReturnType<Client["connections"]["get"]>>["send"]>

const options = {
  compression: "none",
  requestTimeout: 1_000,
  errorOf: (error: unknown) => kafkaError("UNREACHABLE", error instanceof Error ? error.message : ""),
  throttled: () => {},
} as const

const record = (partition: number, text: string): KafkaRecord => ({
  topic: "events",
  partition,
  key: "",
  value: Buffer.from(text),
  headers: [],
})

/** What a broker was sent for one partition. */
interface Sent {
  readonly by: bigint
  readonly partition: number
  readonly sequence: number
  readonly values: ReadonlyArray<string>
}

/** The batches of a request of version 3, which has no compact lengths. */
const read = (payload: Buffer): ReadonlyArray<Sent> => {
  const reader = Reader.from(payload)
  reader.readInt16()
  expect([reader.readInt16(), reader.readInt32(), reader.readInt32()]).toEqual([-1, options.requestTimeout, 1])
  expect(reader.readString(false)).toBe("events")
  return Array.from({ length: reader.readInt32() }, () => {
    const partition = reader.readInt32()
    reader.readInt32()
    const { producerId: by, firstSequence: sequence, records } = readRecordsBatch(reader)
    return { by, partition, sequence, values: records.map(({ value }) => String(value)) }
  })
}

/** A producer to one broker, which answers each batch with what `answer` gives: an error code, or no answer at all. */
const to = (answer: (sent: Sent) => number | Error) => {
  const sent: Array<Sent> = []
  let identities = 0n
  const partitions = [0, 1].map(() => ({ leader: 1 }))
  const client = {
    listApis: async () => [{ apiKey: 0, name: "Produce", minVersion: 0, maxVersion: 3 }],
    initIdempotentProducer: async () => ({ producerId: ++identities, producerEpoch: 0 }),
    metadata: async () => ({
      brokers: new Map([[1, { host: "broker", port: 9092 }]]),
      topics: new Map([["events", { partitions, partitionsCount: 2 }]]),
    }),
    connections: {
      get: async () => ({
        send: (...[, , payload, , , , answered]: Send) => {
          const batches = read((payload() as Writer).buffer)
          sent.push(...batches)
          const answers = batches.map((batch) => [batch.partition, answer(batch)] as const)
          const lost = answers.find(([, code]) => code instanceof Error)?.[1]
          if (lost instanceof Error) return answered(lost)
          const partitionResponses = answers.map(([index, errorCode]) => ({ index, errorCode }))
          answered(null, { responses: [{ name: "events", partitionResponses }], throttleTimeMs: 0 })
        },
      }),
    },
  }
  return { sent, send: Produce.make(client as unknown as Client, options) }
}

const notLeader = 6
const tooLarge = 10
const outOfOrder = 45

describe("producing", () => {
  it.live("what got no answer goes again under the same sequence, and the next batch continues it", () =>
    Effect.gen(function* () {
      let calls = 0
      const { sent, send } = to(() => (++calls === 2 ? new NetworkError("closed") : 0))
      yield* send([record(0, "a"), record(0, "b")])
      expect((yield* send([record(0, "c")])).size).toBe(0)
      expect((yield* send([record(0, "d")])).size).toBe(0)
      expect(sent.map(({ by, sequence, values }) => [by, sequence, ...values])).toEqual([
        [1n, 0, "a", "b"],
        [1n, 2, "c"],
        [1n, 2, "c"],
        [1n, 3, "d"],
      ])
    }),
  )

  it.live("of several partitions only the one that was not written goes again", () =>
    Effect.gen(function* () {
      let moved = false
      const { sent, send } = to(({ partition }) => {
        if (partition === 0 || moved) return 0
        moved = true
        return notLeader
      })
      expect((yield* send([record(0, "a"), record(1, "b"), record(0, "c")])).size).toBe(0)
      expect(sent.map(({ partition, values }) => [partition, ...values])).toEqual([
        [0, "a", "c"],
        [1, "b"],
        [1, "b"],
      ])
    }),
  )

  it.live(
    "a partition that is refused fails its own records, and the sequences begin anew under another identity",
    () =>
      Effect.gen(function* () {
        const { sent, send } = to(({ values }) => (values.includes("large") ? tooLarge : 0))
        const errors = yield* send([record(0, "a"), record(1, "large"), record(1, "b")])
        expect([...errors].map(([index, { code }]) => [index, code])).toEqual([
          [1, "MESSAGE_TOO_LARGE"],
          [2, "MESSAGE_TOO_LARGE"],
        ])
        expect((yield* send([record(0, "c")])).size).toBe(0)
        expect(sent.map(({ by, partition, sequence }) => [by, partition, sequence])).toEqual([
          [1n, 0, 0],
          [1n, 1, 0],
          [2n, 0, 0],
        ])
      }),
  )

  it.live("where the broker lost count, the batch goes again under another identity", () =>
    Effect.gen(function* () {
      const { sent, send } = to(({ by }) => (by === 1n ? outOfOrder : 0))
      expect((yield* send([record(0, "a")])).size).toBe(0)
      expect(sent.map(({ by, sequence }) => [by, sequence])).toEqual([
        [1n, 0],
        [2n, 0],
      ])
    }),
  )

  it.live("without any answer the whole send fails, after three attempts", () =>
    Effect.gen(function* () {
      const { sent, send } = to(() => new NetworkError("closed"))
      const failed = yield* Effect.result(send([record(0, "a"), record(1, "b")]))
      expect(Result.isFailure(failed) && failed.failure.code).toBe("UNREACHABLE")
      expect(sent.map(({ partition }) => partition)).toEqual([0, 1, 0, 1, 0, 1])
    }),
  )
})

withBroker("producing to a real broker", (broker) => {
  it.live("each version of the request is understood", () =>
    Effect.gen(function* () {
      const topic = yield* Effect.promise(() => makeTopic(broker().plain))
      const producer = yield* Effect.acquireRelease(
        Effect.sync(() => {
          return new Producer<Buffer, Buffer, Buffer, Buffer>({
            clientId: "versions",
            bootstrapBrokers: [broker().plain],
            idempotent: true,
            retries: 2,
          })
        }),
        (producer) => Effect.promise(() => producer.close(true)),
      )
      const all = [3, 4, 5, 6, 7, 8, 9, 10, 11]
      for (const version of all) {
        const only = { apiKey: 0, name: "Produce" as const, minVersion: version, maxVersion: version }
        const client: Client = {
          connections: producer.connections,
          initIdempotentProducer: producer.initIdempotentProducer.bind(producer),
          metadata: producer.metadata.bind(producer),
          listApis: (() => Promise.resolve([only])) as Client["listApis"],
        }
        const one = { ...record(0, `by ${version}`), topic, headers: [["version", String(version)]] as const }
        expect((yield* Produce.make(client, options)([one])).size).toBe(0)
      }
      const received = yield* follow(broker().plain, [topic])
      const values = (yield* Effect.promise(() => received(all.length))).map(({ value }) => value.toString())
      expect(values).toEqual(all.map((version) => `by ${version}`))
    }),
  )
})
