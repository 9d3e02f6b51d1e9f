/** Kafka sinks to the broker of the tests, and the tests that need one. */
import { Kafka } from "../../src/sinks/Kafka.ts"
import { reasonToSkip, sharedBroker } from "../parts/Kafka.ts"
import { openThere, suitesWith } from "./thereSink.ts"

export const clients = ["platformatic", "kafkajs"] as const

export const openKafka = (config: () => Record<string, unknown>) => openThere(Kafka, config)

/** Tests against a real broker. */
export const withBroker = suitesWith(reasonToSkip, sharedBroker)
