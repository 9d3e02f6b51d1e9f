/** The whole program with Kafka sinks. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { Effect } from "effect"
import { writeConfig } from "../../lib/kit.ts"
import { relay } from "../../lib/relay.ts"
import { temporaryDirectory } from "../../lib/temporaryRoot.ts"
import { type Broker, makeBroker, user } from "../../parts/Kafka.ts"
import { follow, makeTopic } from "../../parts/Topics.ts"
import { programContract } from "../programContract.ts"
import { withBroker } from "./kafkaSink.ts"

withBroker("the whole program with Kafka sinks", (shared) => {
  const cwd = temporaryDirectory("kafka-run-")

  let late: Broker
  beforeAll(async () => {
    late = await makeBroker()
  }, 60_000)
  afterAll(() => late.stop())

  const createTopics = { partitions: 1, replication: 1 }
  const read =
    (broker: string, topic: string) =>
    ({ length }: ReadonlyArray<string>): Promise<ReadonlyArray<string>> =>
      Effect.runPromise(
        Effect.scoped(
          Effect.flatMap(follow(broker, [topic]), (received) =>
            Effect.promise(async () => (await received(length)).map(({ value }) => value.toString())),
          ),
        ),
      )

  programContract({
    service: "Kafka",
    delivers: {
      how: "in every compression of the default client, and by kafkajs over TLS with a login",
      make: async () => {
        const { plain, sasl, certificates } = shared()
        const compressions = ["none", "gzip", "snappy", "lz4", "zstd"]
        const packed = compressions.map((compression) => [
          compression,
          { type: "kafka", brokers: [plain], topic: `run-${compression}.{{resource}}`, compression, createTopics },
        ])
        const kafkajs = {
          type: "kafka",
          client: "kafkajs",
          brokers: [sasl],
          topic: "run-kafkajs.{{resource}}",
          tls: { ca: certificates.ca },
          sasl: { mechanism: "SCRAM-SHA-512", username: user.name, password: user.password },
          createTopics,
        }
        const names = [...compressions, "kafkajs"]
        return {
          sinks: { ...Object.fromEntries(packed), kafkajs },
          received: Object.fromEntries(names.map((name) => [name, read(plain, `run-${name}.appointment`)])),
          secrets: [user.password],
        }
      },
    },
    waits: async () => ({
      sink: { type: "kafka", brokers: [late.plain], topic: "late", createTopics },
      failure: `kafka ${late.plain} can't be reached`,
      start: late.start,
      received: read(late.plain, "late"),
    }),
  })

  test("relay validate names the Kafka topic whose limit is below a delivery's", async () => {
    const topic = await makeTopic(shared().plain, 1, { "max.message.bytes": "50000" })
    const { config } = await writeConfig(cwd, { lake: { type: "kafka", brokers: [shared().plain], topic } })
    const validated = await relay(["validate", "-c", config], { cwd })
    expect(validated.code).toBe(0)
    expect(validated.stderr).toContain(`sink lake: topic ${topic} takes 50000 bytes at most`)
  })
})
