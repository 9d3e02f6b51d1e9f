/**
 * A lane to Kafka under load, and the losses, reorderings and duplicates in its topic. Events carry numbers that rise
 * within a key.
 */
import { Clock, Duration, Effect, Layer } from "effect"
import { Lanes } from "../../../src/delivery/Lanes.ts"
import { RelayEvents } from "../../../src/delivery/RelayEvents.ts"
import * as MemoryJournal from "../../journal/MemoryJournal.ts"
import { whole } from "../../journal/whole.ts"
import { activeConfig } from "../../lib/activeConfig.ts"
import { follow, sizeOf } from "../../parts/Topics.ts"
import { entry, envelope } from "../samples.ts"
import { openKafka } from "./kafkaSink.ts"

const keys = 50

const delivery = {
  timeout: Duration.seconds(10),
  retry: { maxAge: Duration.hours(72), initial: Duration.millis(200), max: Duration.seconds(1) },
  pauseAfter: 5,
  maxRetrying: 10_000,
  maxDeadLetters: 1_000_000_000,
}

/** A lane to Kafka over a journal in memory. */
export const lanes = (client: string, config: () => Record<string, unknown>) =>
  Lanes.layer({
    specs: [
      {
        config: {
          name: "lake",
          type: "kafka",
          delivery,
          concurrency: 1,
          order: "key",
          key: "{{account_id}}",
          config: undefined,
        },
        open: openKafka(() => ({ client, requestTimeout: "3 seconds", ...config() })),
        key: ({ event }) => event.accountId,
      },
    ],
    grace: () => Duration.seconds(5),
  }).pipe(Layer.provide(Layer.provide(RelayEvents.layer, activeConfig())), Layer.provideMerge(MemoryJournal.layer))

/** Appends events `from` to `to`. */
export const append = Effect.fnUntraced(function* (from: number, to: number, filling = "") {
  const journal = yield* whole
  const receivedAt = yield* Clock.currentTimeMillis
  for (let n = from; n < to; n++) {
    const body = Buffer.from(JSON.stringify(envelope(n, { n, filling })))
    const { event } = entry(n, { accountId: `acct_${n % keys}`, receivedAt, body })
    yield* journal.append(event, ["lake"])
  }
})

export const lake = Effect.map(
  Effect.flatMap(Lanes, ({ status }) => status),
  (all) => all.find(({ name }) => name === "lake"),
)

export const settled = Effect.gen(function* () {
  while ((yield* lake)?.backlog !== 0) yield* Effect.sleep("50 millis")
})

export const numberOf = (value: Buffer): number => JSON.parse(value.toString()).data.object.n

/**
 * Compares a topic with the events from 0 to `sent`. Counts lost events, those that arrived after a later event of
 * their key, and duplicates.
 */
export const accounts = Effect.fnUntraced(function* (broker: string, topic: string, sent: number) {
  const received = yield* follow(broker, [topic])
  const all = yield* Effect.promise(async () => received(await sizeOf(broker, topic)))
  const numbers = all.map(({ value }) => numberOf(value))
  const first = new Set(numbers)
  const last = new Map<number, number>()
  let overtaken = 0
  for (const n of first) {
    if (n < (last.get(n % keys) ?? -1)) overtaken += 1
    last.set(n % keys, n)
  }
  return { lost: sent - first.size, overtaken, twice: numbers.length - first.size }
})
