/** Both client libraries are the oracle: the relay must choose the same partition for a key as any Kafka producer. */
import { expect, test } from "bun:test"
import { murmur2 as theirs } from "@platformatic/kafka"
import { Partitioners } from "kafkajs"
import { murmur2, partitionOf } from "../../../src/sinks/kafka/Kafka.ts"
import { seeded } from "../../lib/seeded.ts"
import { tries } from "../../lib/tries.ts"

const random = seeded(5)
const bytes = (length: number) => Buffer.from(Array.from({ length }, () => Math.floor(random() * 256)))

test("the hash of a Kafka partition is murmur2, for keys of any length", () => {
  for (let round = 0; round < tries(1_000); round++) {
    const key = bytes(round % 45)
    expect(murmur2(key)).toBe(theirs(key) | 0)
  }
})

test("a key goes into the partition that kafkajs, made after the Java producer, puts it into", () => {
  const place = Partitioners.DefaultPartitioner()
  for (const partitions of [1, 2, 3, 6, 12, 100]) {
    const partitionMetadata = Array.from({ length: partitions }, (_, partitionId) => ({
      partitionId,
      partitionErrorCode: 0,
      leader: 1,
      replicas: [],
      isr: [],
    }))
    for (let round = 0; round < 100; round++) {
      const key = `acct_${bytes(round % 20).toString("base64")}🙂`
      for (const one of [key, Buffer.from(`\0${key}`)]) {
        expect(partitionOf(one, partitions)).toBe(
          place({ topic: "t", partitionMetadata, message: { key: one, value: null } }),
        )
      }
    }
  }
})
