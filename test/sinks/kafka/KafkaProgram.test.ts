/**
 * The whole program with Kafka sinks, as a process: RELAY_UNDER chooses the
 * runtime, or the binary, which must find what it needs inside itself.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect } from "effect"
import { relay, startRelay } from "../../lib/relay.ts"
import { type Broker, makeBroker, user } from "../../parts/Kafka.ts"
import { follow, makeTopic } from "../../parts/Topics.ts"
import { bodies, deliver, writeConfig } from "../program.ts"
import { withBroker } from "./kafkaSink.ts"

withBroker("relay run with Kafka sinks", (shared) => {
  const cwd = mkdtempSync(join(tmpdir(), "relay-kafka-run-"))
  let late: Broker
  beforeAll(async () => {
    late = await makeBroker()
  }, 60_000)
  afterAll(async () => {
    await late.stop()
    rmSync(cwd, { recursive: true })
  })

  const read = (broker: string, topic: string, count: number): Promise<ReadonlyArray<string>> =>
    Effect.runPromise(
      Effect.scoped(
        Effect.flatMap(follow(broker, [topic]), (received) =>
          Effect.promise(async () => (await received(count)).map(({ value }) => value.toString())),
        ),
      ),
    )

  test("delivers in every compression of the default client, and by kafkajs over TLS with a login", async () => {
    const { plain, sasl, certificates } = shared()
    const createTopics = { partitions: 1, replication: 1 }
    const packed = ["none", "gzip", "snappy", "lz4", "zstd"].map((compression) => [
      `by-${compression}`,
      { type: "kafka", brokers: [plain], topic: `run-${compression}.{{resource}}`, compression, createTopics },
    ])
    const sinks = {
      ...Object.fromEntries(packed),
      other: {
        type: "kafka",
        client: "kafkajs",
        brokers: [sasl],
        topic: "run-kafkajs.{{resource}}",
        tls: { ca: certificates.ca },
        sasl: { mechanism: "SCRAM-SHA-512", username: user.name, password: user.password },
        createTopics,
      },
    }
    const { config, url } = await writeConfig(cwd, sinks)
    const validated = await relay(["validate", "-c", config], { cwd })
    expect([validated.code, validated.stderr]).toEqual([0, expect.any(String)])
    const running = await startRelay(config, { cwd })
    const sent = bodies(20)
    for (const one of sent) expect(await deliver(url, one)).toBe(202)
    for (const name of ["none", "gzip", "snappy", "lz4", "zstd", "kafkajs"]) {
      expect((await read(plain, `run-${name}.appointment`, 20)).toSorted()).toEqual(sent.toSorted())
    }
    expect(await running.kill()).toBe(0)
    expect(running.stdout() + running.stderr()).not.toContain(user.password)
  }, 60_000)

  test("validate says which topic takes less than a delivery may have", async () => {
    const topic = await makeTopic(shared().plain, 1, { "max.message.bytes": "50000" })
    const { config } = await writeConfig(cwd, { lake: { type: "kafka", brokers: [shared().plain], topic } })
    const validated = await relay(["validate", "-c", config], { cwd })
    expect(validated.code).toBe(0)
    expect(validated.stderr).toContain(`sink lake: topic ${topic} takes 50000 bytes at most`)
  })

  test("starts while its broker is away, accepts, says that it waits, and delivers when it comes", async () => {
    const { config, url } = await writeConfig(cwd, {
      lake: {
        type: "kafka",
        brokers: [late.plain],
        topic: "late",
        createTopics: { partitions: 1, replication: 1 },
        delivery: { retry: { initial: "200 millis", max: "1 second" } },
      },
    })
    const validated = await relay(["validate", "-c", config], { cwd })
    expect(validated.code).toBe(1)
    expect(validated.stdout).toContain(`kafka ${late.plain} can't be reached`)
    const running = await startRelay(config, { cwd })
    const sent = bodies(20)
    for (const one of sent) expect(await deliver(url, one)).toBe(202)
    await running.prints(`sink lake does not deliver: kafka ${late.plain} can't be reached`)
    await late.start()
    await running.prints("sink lake is resumed")
    expect((await read(late.plain, "late", 20)).toSorted()).toEqual(sent.toSorted())
    expect(await running.kill()).toBe(0)
  }, 60_000)
})
