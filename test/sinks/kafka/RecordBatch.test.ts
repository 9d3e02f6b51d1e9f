/** The client library is the oracle: its batches have the same bytes, and it can read ours. */
import { expect, test } from "bun:test"
import { compressionsAlgorithms, createRecordsBatch, NumericMap, Reader, readRecordsBatch } from "@platformatic/kafka"
import type { KafkaRecord } from "../../../src/sinks/kafka/KafkaClient.ts"
import { compressed, RecordBatches } from "../../../src/sinks/kafka/Produce.ts"
import { seeded } from "../../lib/seeded.ts"
import { tries } from "../../lib/tries.ts"

const random = seeded(18)
const upTo = (most: number): number => Math.floor(random() * (most + 1))
const letters = ["a", "Z", "9", "é", "€", "🙂", "\u0000"]
const text = (most: number): string =>
  Array.from({ length: upTo(most) }, () => letters[random() < 0.8 ? upTo(2) : upTo(letters.length - 1)]).join("")
/** Lengths around the limits at which a varint grows by a byte. */
const size = (): number => [0, 1, 40, 63, 64, 65, 8_000, 8_191, 8_192, 70_000][upTo(9)] ?? 0

const records = (count: number): ReadonlyArray<KafkaRecord> =>
  Array.from({ length: count }, () => ({
    topic: "events",
    partition: 3,
    key: random() < 0.2 ? Buffer.from(`\0${text(80)}`) : text(80),
    value: random() < 0.1 ? null : Buffer.alloc(size(), text(10) || "x"),
    headers: Array.from(
      { length: upTo(6) },
      (_, n) => [`h${n}${text(70)}`, text(random() < 0.1 ? 3_000 : 70)] as const,
    ),
  }))

const identity = { producerId: 2n ** 40n + 7n, producerEpoch: 5 }
const now = 1_795_000_000_000

const theirs = (records: ReadonlyArray<KafkaRecord>, sequence: number): Buffer =>
  createRecordsBatch(
    records.map(({ topic, partition, key, value, headers }) => ({
      topic,
      partition,
      timestamp: BigInt(now),
      ...(key !== "" && { key: Buffer.from(key) }),
      value: (value && Buffer.from(value)) as Buffer,
      headers: new Map(headers.map(([name, text]) => [Buffer.from(name), Buffer.from(text)])),
    })),
    {
      ...identity,
      partitionLeaderEpoch: -1,
      sequences: new NumericMap([["events:3", sequence]]),
    },
  ).buffer

test("record batches have the bytes that the client library makes, however long their parts are", () => {
  const written = new RecordBatches()
  for (let round = 0; round < tries(20); round++) {
    written.reset()
    // Several batches share the buffer until the next reset.
    const both = [records(1 + upTo(40)), records(1 + upTo(200))].map((some) => ({
      some,
      batch: written.write(some, identity, round * 1_000, now),
    }))
    for (const { some, batch } of both) expect(batch.equals(theirs(some, round * 1_000))).toBe(true)
  }
})

test("a compressed batch is read back, and is its own although the memory is used again", async () => {
  const written = new RecordBatches()
  for (const name of ["gzip", "snappy", "lz4", "zstd"] as const) {
    const { bitmask, compressSync: compress } = compressionsAlgorithms[name]
    const some = records(50)
    const packing = compressed(written.write(some, identity, 9, now), {
      bitmask,
      compress: async (all) => compress(all),
    })
    written.reset()
    written.write(records(50), identity, 10, now)
    const { attributes, firstSequence, records: read } = readRecordsBatch(Reader.from(await packing))
    expect({ attributes, firstSequence }).toEqual({ attributes: bitmask, firstSequence: 9 })
    expect(read.map(({ value }) => value ?? null)).toEqual(some.map(({ value }) => value as Buffer | null))
  }
})
