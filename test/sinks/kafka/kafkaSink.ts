/** Kafka sinks to the broker of the tests, and the tests that need one. */
import { afterAll } from "bun:test"
import { Kafka } from "../../../src/sinks/kafka/Kafka.ts"
import { type Broker, makeBroker, reasonToSkip, sharedBroker } from "../../parts/Kafka.ts"
import { openThere, suitesWith } from "../thereSink.ts"

export const clients = ["platformatic", "kafkajs"] as const

export const openKafka = (config: () => Record<string, unknown>) => openThere("kafka", Kafka, config)

/** Tests against a real broker. */
export const withBroker = suitesWith(reasonToSkip, sharedBroker)

const ownBroker = async (): Promise<Broker> => {
  const broker = await makeBroker()
  await broker.start()
  return broker
}

/** Tests that kill or freeze a broker, which they don't share. */
export const withOwnBroker: typeof withBroker = (title, body) =>
  suitesWith(reasonToSkip, ownBroker)(title, (broker) => {
    afterAll(() => broker().stop())
    body(broker)
  })
