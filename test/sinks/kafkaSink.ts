/** Kafka sinks to the broker of the tests, and the tests that need one. */
import { beforeAll, describe, test } from "bun:test"
import { Effect, Schema, type Scope } from "effect"
import { Kafka, KafkaConfig } from "../../src/sinks/Kafka.ts"
import type { Sink, SinkError } from "../../src/sinks/Sink.ts"
import { type Broker, reasonToSkip, sharedBroker } from "../parts/Kafka.ts"
import { openElsewhere, startElsewhere } from "./elsewhereSink.ts"

export const clients = ["platformatic", "kafkajs"] as const

const under = process.env.RELAY_UNDER

/** Opens a sink from its config as it is written in the file; RELAY_UNDER says under which runtime, or in a binary. */
export const openKafka = (config: () => Record<string, unknown>): Effect.Effect<Sink, SinkError, Scope.Scope> =>
  Effect.suspend(() =>
    under === undefined
      ? Kafka.open("kafka", Schema.decodeUnknownSync(KafkaConfig)(config()))
      : openElsewhere(under, "kafka", config()),
  )

/** Starts what RELAY_UNDER names: before a suite, because it takes longer than a test may. */
export const startRuntime = (): Promise<void> => (under === undefined ? Promise.resolve() : startElsewhere(under))

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
      await startRuntime()
    }, 120_000)
    body(() => broker)
  })
}
