/**
 * Resent batches and their sequences, against a scripted broker, and each version of the request against Apache Kafka.
 */
import { describe, expect } from "bun:test"
import { NetworkError, Producer, Reader, readRecordsBatch, type Writer } from "@platformatic/kafka"
import { Effect, Result } from "effect"
import { type KafkaRecord, kafkaError } from "../../../src/sinks/kafka/KafkaClient.ts"
import * as Produce from "../../../src/sinks/kafka/Produce.ts"
import { it } from "../../lib/effect.ts"
import { asAdmin, follow, forgetProducersAfter, makeTopic, producersOf } from "../../parts/Topics.ts"
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

/** A batch sent to a broker for one partition. */
interface Sent {
  /** The id of the broker. */
  readonly to: number
  readonly by: bigint
  readonly partition: number
  readonly sequence: number
  readonly values: ReadonlyArray<string>
}

/** Parses the batches of a version 3 request, which has no compact lengths. */
const read = (payload: Buffer, to: number): ReadonlyArray<Sent> => {
  const reader = Reader.from(payload)
  reader.readInt16()
  expect([reader.readInt16(), reader.readInt32(), reader.readInt32()]).toEqual([-1, options.requestTimeout, 1])
  expect(reader.readString(false)).toBe("events")
  return Array.from({ length: reader.readInt32() }, () => {
    const partition = reader.readInt32()
    reader.readInt32()
    const { producerId: by, firstSequence: sequence, records } = readRecordsBatch(reader)
    return { to, by, partition, sequence, values: records.map(({ value }) => String(value)) }
  })
}

interface Cluster {
  /** The broker that leads both partitions, for a client that refreshes its metadata (default: 1). */
  readonly leader?: () => number
  /** Milliseconds of throttling. */
  readonly throttle?: number
}

/** A broker's texts next to an error code. */
const words = { errorMessage: "One record is refused", recordErrors: [{ batchIndexErrorMessage: "no\nkey" }] }

/**
 * A producer to brokers that answer each batch with the result of `answer`: an error code, or an error for a lost
 * answer.
 */
const to = (answer: (sent: Sent) => number | Error, { leader = () => 1, throttle = 0 }: Cluster = {}) => {
  const sent: Array<Sent> = []
  const throttled: Array<number> = []
  let identities = 0n
  let known = leader()
  const client = {
    listApis: async () => [{ apiKey: 0, name: "Produce", minVersion: 0, maxVersion: 3 }],
    initIdempotentProducer: async () => ({ producerId: ++identities, producerEpoch: 0 }),
    metadata: async ({ forceUpdate = false }: { readonly forceUpdate?: boolean }) => {
      if (forceUpdate) known = leader()
      const partitions = [{ leader: known }, { leader: known }]
      return {
        brokers: new Map([1, 2].map((id) => [id, { host: "broker", port: id }])),
        topics: new Map([["events", { partitions, partitionsCount: 2 }]]),
      }
    },
    connections: {
      get: async ({ port }: { readonly port: number }) => ({
        send: (...[, , payload, , , , answered]: Send) => {
          const batches = read((payload() as Writer).buffer, port)
          sent.push(...batches)
          const answers = batches.map((batch) => [batch.partition, answer(batch)] as const)
          const lost = answers.find(([, code]) => code instanceof Error)?.[1]
          if (lost instanceof Error) return answered(lost)
          const partitionResponses = answers.map(([index, errorCode]) => ({ index, errorCode, ...words }))
          answered(null, { responses: [{ name: "events", partitionResponses }], throttleTimeMs: throttle })
        },
      }),
    },
  }
  const send = Produce.make(client as unknown as Client, { ...options, throttled: (millis) => throttled.push(millis) })
  return { sent, send, throttled }
}

const notLeader = 6
const tooLarge = 10
const notEnoughReplicasAfterAppend = 20
const outOfOrder = 45
const duplicate = 46
/** Codes of a broker that has lost its state of a producer, or has another producer's. */
const lost = { outOfOrder, invalidEpoch: 47, unknownMapping: 49, unknownProducer: 59, fenced: 90 }

describe("producing", () => {
  it.live("sends an unanswered batch again under the same sequence, and the next batch continues it", function* () {
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
  })

  it.live("of several partitions only the unwritten one is sent again", function* () {
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
  })

  it.live("a refused partition fails its own records, and sequences restart with another identity", function* () {
    const { sent, send } = to(({ values }) => (values.includes("large") ? tooLarge : 0))
    const errors = yield* send([record(0, "a"), record(1, "large"), record(1, "b")])
    expect([...errors].map(([index, { code }]) => [index, code])).toEqual([
      [1, "MESSAGE_TOO_LARGE"],
      [2, "MESSAGE_TOO_LARGE"],
    ])
    expect(errors.get(1)?.detail).toBe("no\\nkey")
    expect((yield* send([record(0, "c")])).size).toBe(0)
    expect(sent.map(({ by, partition, sequence }) => [by, partition, sequence])).toEqual([
      [1n, 0, 0],
      [1n, 1, 0],
      [2n, 0, 0],
    ])
  })

  it.live("a batch goes again under a new identity if the broker lost count or gave it to another", function* () {
    for (const code of Object.values(lost)) {
      const { sent, send } = to(({ by }) => (by === 1n ? code : 0))
      expect((yield* send([record(0, "a")])).size).toBe(0)
      expect([code, ...sent.map(({ by, sequence }) => [by, sequence])]).toEqual([code, [1n, 0], [2n, 0]])
    }
  })

  it.live(
    "if the broker lost count of one partition, another one without an answer is still written once",
    function* () {
      const refused = new Map([
        ["c", notEnoughReplicasAfterAppend],
        ["d", outOfOrder],
      ])
      const { sent, send } = to(({ values: [value = ""] }) => {
        const code = refused.get(value) ?? 0
        refused.delete(value)
        return code
      })
      expect((yield* send([record(0, "a"), record(1, "b")])).size).toBe(0)
      expect((yield* send([record(0, "c"), record(1, "d")])).size).toBe(0)
      expect((yield* send([record(0, "e"), record(1, "f")])).size).toBe(0)
      expect(sent.map(({ by, sequence, values }) => [by, sequence, ...values])).toEqual([
        [1n, 0, "a"],
        [1n, 0, "b"],
        [1n, 1, "c"],
        [1n, 1, "d"],
        // A record that may have been written keeps its identity. A refused record gets another.
        [1n, 1, "c"],
        [2n, 0, "d"],
        [2n, 0, "e"],
        [2n, 1, "f"],
      ])
    },
  )

  it.live("records with too few replicas are sent again with the same sequence, and fail alone", function* () {
    let left = 2
    const { sent, send } = to(({ partition }) => (partition === 1 && left-- > 0 ? notEnoughReplicasAfterAppend : 0))
    expect((yield* send([record(0, "a"), record(1, "b")])).size).toBe(0)
    expect(sent.map(({ by, partition, sequence }) => [by, partition, sequence])).toEqual([
      [1n, 0, 0],
      [1n, 1, 0],
      [1n, 1, 0],
      [1n, 1, 0],
    ])
    left = 3
    const errors = yield* send([record(0, "c"), record(1, "d")])
    expect([...errors].map(([index, { code }]) => [index, code])).toEqual([[1, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"]])
  })

  it.live("counts a batch as written if the broker says that it was written before", function* () {
    const { sent, send } = to(() => duplicate)
    expect((yield* send([record(0, "a")])).size).toBe(0)
    expect(sent).toHaveLength(1)
  })

  it.live("a batch that a former leader refused, or did not answer, goes once to the new leader", function* () {
    for (const end of [notLeader, new NetworkError("closed")]) {
      let leads = 1
      const { sent, send } = to(
        ({ to }) => {
          if (to === 2) return 0
          leads = 2
          return end
        },
        { leader: () => leads },
      )
      expect((yield* send([record(0, "a"), record(1, "b")])).size).toBe(0)
      expect(sent.map(({ to, by, partition, sequence }) => [to, by, partition, sequence])).toEqual([
        [1, 1n, 0, 0],
        [1, 1n, 1, 0],
        [2, 1n, 0, 0],
        [2, 1n, 1, 0],
      ])
    }
  })

  it.live("records a broker's throttling along with its answer", function* () {
    const { send, throttled } = to(() => 0, { throttle: 1_500 })
    expect((yield* send([record(0, "a")])).size).toBe(0)
    expect(throttled).toEqual([1_500])
  })

  it.live("without any answer the whole send fails, after three attempts", function* () {
    const { sent, send } = to(() => new NetworkError("closed"))
    const failed = yield* Effect.result(send([record(0, "a"), record(1, "b")]))
    expect(Result.isFailure(failed) && failed.failure.code).toBe("UNREACHABLE")
    expect(sent.map(({ partition }) => partition)).toEqual([0, 1, 0, 1, 0, 1])
  })
})

/** The library's producer at a broker. It is closed with the scope. */
const clientOf = (broker: string) =>
  Effect.acquireRelease(
    Effect.sync(
      () =>
        new Producer<Buffer, Buffer, Buffer, Buffer>({
          clientId: "producing",
          bootstrapBrokers: [broker],
          idempotent: true,
          retries: 2,
        }),
    ),
    (producer) => Effect.promise(() => producer.close(true)),
  ).pipe(
    Effect.map(
      (producer): Client => ({
        connections: producer.connections,
        initIdempotentProducer: producer.initIdempotentProducer.bind(producer),
        metadata: producer.metadata.bind(producer),
        listApis: producer.listApis.bind(producer),
      }),
    ),
  )

/**
 * A client whose first identity belongs to another producer, with this epoch. `asked` counts the identities it
 * requested itself.
 */
const withIdentity = (client: Client, producerId: bigint, producerEpoch: number) => {
  let asked = -1
  const initIdempotentProducer = (options: object) => {
    asked += 1
    return asked === 0 ? Promise.resolve({ producerId, producerEpoch }) : client.initIdempotentProducer(options)
  }
  return {
    client: { ...client, initIdempotentProducer: initIdempotentProducer as Client["initIdempotentProducer"] },
    asked: () => asked,
  }
}

withBroker("producing to a real broker", (broker) => {
  const on = (topic: string, text: string, partition = 0): KafkaRecord => ({ ...record(partition, text), topic })
  const valuesOf = (topic: string, count: number) =>
    Effect.flatMap(follow(broker().plain, [topic]), (received) =>
      Effect.promise(async () => (await received(count)).map(({ value }) => value.toString())),
    )

  it.live("each version of the request is understood", function* () {
    const topic = yield* Effect.promise(() => makeTopic(broker().plain))
    const client = yield* clientOf(broker().plain)
    const all = [3, 4, 5, 6, 7, 8, 9, 10, 11]
    for (const version of all) {
      const only = { apiKey: 0, name: "Produce" as const, minVersion: version, maxVersion: version }
      const one = { ...on(topic, `by ${version}`), headers: [["version", String(version)]] as const }
      const listApis = (() => Promise.resolve([only])) as Client["listApis"]
      expect((yield* Produce.make({ ...client, listApis }, options)([one])).size).toBe(0)
    }
    expect(yield* valuesOf(topic, all.length)).toEqual(all.map((version) => `by ${version}`))
  })

  it.live("an identity whose epoch another took over is replaced, and nothing is lost or twice", function* () {
    const topic = yield* Effect.promise(() => makeTopic(broker().plain))
    const client = yield* clientOf(broker().plain)
    const { producerId } = yield* Effect.promise(() => client.initIdempotentProducer({}))
    const older = withIdentity(client, producerId, 0)
    const newer = withIdentity(client, producerId, 1)
    const [one, two] = [Produce.make(older.client, options), Produce.make(newer.client, options)]
    expect((yield* one([on(topic, "a")])).size).toBe(0)
    expect((yield* two([on(topic, "b")])).size).toBe(0)
    expect((yield* one([on(topic, "c")])).size).toBe(0)
    expect([older.asked(), newer.asked()]).toEqual([1, 0])
    expect(yield* valuesOf(topic, 3)).toEqual(["a", "b", "c"])
  })

  it.live("a sequence that the broker does not expect needs a new identity; nothing is lost or twice", function* () {
    const topic = yield* Effect.promise(() => makeTopic(broker().plain))
    const client = yield* clientOf(broker().plain)
    const { producerId } = yield* Effect.promise(() => client.initIdempotentProducer({}))
    const first = withIdentity(client, producerId, 0)
    const again = withIdentity(client, producerId, 0)
    expect((yield* Produce.make(first.client, options)([on(topic, "a"), on(topic, "b")])).size).toBe(0)
    // The second producer also starts at sequence zero, with a batch that the broker has not seen.
    expect((yield* Produce.make(again.client, options)([on(topic, "c")])).size).toBe(0)
    expect([first.asked(), again.asked()]).toEqual([0, 1])
    expect(yield* valuesOf(topic, 3)).toEqual(["a", "b", "c"])
  })

  it.live("an identity that the broker has forgotten by retention causes no loss and no duplicate", function* () {
    const topic = yield* Effect.promise(() => makeTopic(broker().plain))
    const send = Produce.make(yield* clientOf(broker().plain), options)
    const knows = Effect.promise(() => producersOf(broker().plain, topic))
    expect((yield* send([on(topic, "a"), on(topic, "b")])).size).toBe(0)
    expect(yield* knows).toBe(1)
    yield* Effect.promise(() => forgetProducersAfter(broker().plain, 1))
    while ((yield* knows) > 0) yield* Effect.sleep("20 millis")
    yield* Effect.promise(() => forgetProducersAfter(broker().plain))
    expect((yield* send([on(topic, "c")])).size).toBe(0)
    expect((yield* send([on(topic, "d")])).size).toBe(0)
    expect(yield* valuesOf(topic, 4)).toEqual(["a", "b", "c", "d"])
  })

  it.live("an added partition is found, and a topic that was deleted and recreated is another", function* () {
    const topic = yield* Effect.promise(() => makeTopic(broker().plain))
    const send = Produce.make(yield* clientOf(broker().plain), options)
    const passes = (one: KafkaRecord) =>
      Effect.map(Effect.result(send([one])), (sent) => Result.isSuccess(sent) && sent.success.size === 0)
    expect(yield* passes(on(topic, "a"))).toBe(true)
    expect(yield* passes(on(topic, "b"))).toBe(true)
    yield* Effect.promise(() =>
      asAdmin(broker().plain, (admin) =>
        admin.createPartitions({ topics: [{ name: topic, count: 2, assignments: null }], validateOnly: false }),
      ),
    )
    while (!(yield* passes(on(topic, "c", 1)))) yield* Effect.sleep("20 millis")
    yield* Effect.promise(() => asAdmin(broker().plain, (admin) => admin.deleteTopics({ topics: [topic] })))
    while (yield* passes(on(topic, "d"))) yield* Effect.sleep("20 millis")
    yield* Effect.promise(() =>
      asAdmin(broker().plain, (admin) => admin.createTopics({ topics: [topic], partitions: 1, replicas: 1 })),
    )
    while (!(yield* passes(on(topic, "e")))) yield* Effect.sleep("20 millis")
    expect(yield* passes(on(topic, "f"))).toBe(true)
    expect(yield* valuesOf(topic, 2)).toEqual(["e", "f"])
  })
})
