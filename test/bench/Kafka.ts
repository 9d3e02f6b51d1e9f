/** Targets that send to Apache Kafka. The broker runs in its own process, started as in `test/parts`. */
import { Effect } from "effect"
import { type Broker, makeBroker } from "../parts/Kafka.ts"
import { makeTopic, sizeOf } from "../parts/Topics.ts"
import { BenchError } from "./BenchError.ts"
import * as Target from "./Target.ts"

/** One broker for all that need it, until the scope closes. */
export const broker = Effect.acquireRelease(
  Effect.tryPromise({
    try: async () => {
      const made = await makeBroker()
      await made.start()
      return made
    },
    catch: (error) => new BenchError({ message: `Apache Kafka does not start: ${String(error)}` }),
  }),
  (made) => Effect.promise(() => made.stop()),
)

const topicOf = Effect.fnUntraced(function* ({ plain }: Broker) {
  const topic = yield* Effect.promise(() => makeTopic(plain, 6))
  return { topic, delivered: Effect.promise(() => sizeOf(plain, topic)) }
})

/** A server that forwards each delivery to the broker and stores none. */
export const producer = Effect.fnUntraced(function* (setup: Target.Setup, name: string, kafka: Broker) {
  const { topic, delivered } = yield* topicOf(kafka)
  return { ...(yield* Target.server(setup, name, "producer", kafka.plain, topic)), delivered }
})

/** A relay whose only sink is a topic. */
export const relay = Effect.fnUntraced(function* (setup: Target.Setup, name: string, kafka: Broker) {
  const { topic, delivered } = yield* topicOf(kafka)
  const target = yield* Target.relay(setup, name, {
    sinks: { kafka: { type: "kafka", brokers: [kafka.plain], topic } },
    routes: [{ name: "everything", match: "**", to: ["kafka"] }],
  })
  return { ...target, delivered }
})
