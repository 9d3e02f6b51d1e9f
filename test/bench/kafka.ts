/**
 * `bun test/bench/kafka.ts [--rate 10000] [--seconds 10] [--command "bun src/main.ts"]`: signed deliveries in by
 * HTTP, out to Apache Kafka with acks all through the durable journal, beside a
 * bare producer of the same client as the ceiling, and a handler that verifies
 * and parses at the same pace. Broker, load and relay share the machine. Needs
 * Java 17.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { Producer } from "@platformatic/kafka"
import { Effect } from "effect"
import { makeBroker } from "../parts/Kafka.ts"
import { makeTopic, sizeOf } from "../parts/Topics.ts"
import { cpuMicros } from "./Child.ts"
import * as Paced from "./Paced.ts"
import * as Requests from "./Requests.ts"
import * as Target from "./Target.ts"

const { values } = parseArgs({
  options: {
    rate: { type: "string", default: "10000" },
    seconds: { type: "string", default: "10" },
    command: { type: "string", default: `${process.execPath} src/main.ts` },
  },
})
const pace = { rate: Number(values.rate), seconds: Number(values.seconds) }
const budget = 50

const directory = mkdtempSync(join(tmpdir(), "relay-bench-kafka-"))
const setup: Target.Setup = { directory, command: values.command.split(" ") }
const broker = await makeBroker()

/** The same client, batches of the same size, nothing else. */
const bare = async (events: number): Promise<string> => {
  const topic = await makeTopic(broker.plain, 6)
  const producer = new Producer<Buffer, Buffer, Buffer, Buffer>({
    clientId: "bare",
    bootstrapBrokers: [broker.plain],
    idempotent: true,
  })
  const messages = Array.from({ length: 500 }, (_, number) => ({
    topic,
    partition: number % 6,
    key: Buffer.from(`acct_${number}`),
    value: Buffer.from(Requests.body("0123456789", { number, sentAt: 0 })),
  }))
  const cpu = process.cpuUsage()
  const from = performance.now()
  for (let sent = 0; sent < events; sent += 500) await producer.send({ messages: messages.map((one) => ({ ...one })) })
  const { user, system } = process.cpuUsage(cpu)
  await producer.close()
  const rate = events / ((performance.now() - from) / 1_000)
  return `${Math.round(rate)} events/s, ${((user + system) / events).toFixed(1)} µs CPU an event`
}

/** What a relay costs in its first seconds, for compiling, is not what an event costs. */
const warmUp = { ...pace, seconds: 15 }

/** What any receiver must do at the least. */
const handler = Effect.gen(function* () {
  const { pid, port } = yield* Target.server(setup, "ceiling")
  yield* Paced.paced(port, { ...pace, seconds: 2 })
  const cpu = cpuMicros(pid)
  const load = yield* Paced.paced(port, pace)
  return `${((cpuMicros(pid) - cpu) / load.requests).toFixed(1)} µs CPU a request`
})

const relay = Effect.gen(function* () {
  const topic = yield* Effect.promise(() => makeTopic(broker.plain, 6))
  const target = yield* Target.relay(setup, "relay to kafka", {
    sinks: { lake: { type: "kafka", brokers: [broker.plain], topic } },
    routes: [{ name: "everything", match: "**", to: ["lake"] }],
  })
  const delivered = Effect.promise(() => sizeOf(broker.plain, topic))
  const warm = yield* Paced.paced(target.port, warmUp)
  const before = yield* Target.awaitDelivered({ ...target, delivered }, warm.requests)
  const cpu = cpuMicros(target.pid)
  const load = yield* Paced.paced(target.port, pace)
  const behind = load.requests - ((yield* delivered) - before)
  const total = (yield* Target.awaitDelivered({ ...target, delivered }, before + load.requests)) - before
  const cost = (cpuMicros(target.pid) - cpu) / load.requests
  console.log(
    `relay: ${load.requests} accepted at ${Math.round(load.rate)}/s (p50 ${load.p50.toFixed(1)} ms, p99 ${load.p99.toFixed(1)} ms), ${total} delivered, ${behind} behind at the end, ${load.refused} refused, ${cost.toFixed(1)} µs CPU an event (required: ${budget})`,
  )
  return total === load.requests && load.refused === 0 && behind <= pace.rate / 2 && cost <= budget
})

try {
  await broker.start()
  await bare(20_000)
  console.log(`bare producer: ${await bare(pace.rate * pace.seconds)}`)
  console.log(`verify and parse alone: ${await Effect.runPromise(Effect.scoped(handler))}`)
  if (!(await Effect.runPromise(Effect.scoped(relay)))) process.exitCode = 1
} finally {
  await broker.stop()
  rmSync(directory, { recursive: true, force: true })
}
