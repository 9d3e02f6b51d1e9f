/** Kafka sinks to the broker of the tests, and the tests that need one. */
import { beforeAll, describe, test } from "bun:test"
import { Effect, Schema } from "effect"
import { Kafka, KafkaConfig } from "../../src/sinks/Kafka.ts"
import { type Broker, reasonToSkip, sharedBroker } from "../parts/Kafka.ts"

export const clients = ["platformatic", "kafkajs"] as const

/** Opens a sink from its config as it is written in the file. */
export const openKafka = (config: () => Record<string, unknown>) =>
  Effect.suspend(() => Kafka.open("kafka", Schema.decodeUnknownSync(KafkaConfig)(config())))

/** Tests against a real broker, or one that says why it was skipped and how to have it. */
export const withBroker = (title: string, body: (broker: () => Broker) => void): void => {
  const skipped = reasonToSkip()
  describe(title, () => {
    if (skipped !== undefined) {
      console.warn(`skipped: ${title}: ${skipped}`)
      test.skip(skipped, () => {})
      return
    }
    let broker: Broker
    beforeAll(async () => {
      broker = await sharedBroker()
    }, 120_000)
    body(() => broker)
  })
}
