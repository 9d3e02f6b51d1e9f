/** Finds what will fail for some events although the cluster can be reached: brokers that can't be, topics, their limits. */
import { Effect, type Scope } from "effect"
import type { KafkaClient, KafkaError } from "./KafkaClient.ts"
import type { KafkaTopics } from "./KafkaTopics.ts"

type Advice = ReadonlyArray<string>

/** An estimate of the bytes around the body in a batch of one record. */
const overhead = 1_024

/** A cluster, and what is to be said about it. */
export interface Cluster {
  readonly client: KafkaClient
  readonly topics: KafkaTopics
  /** The brokers of the config. */
  readonly brokers: ReadonlyArray<string>
  /** Connects to one broker. */
  readonly reach: (broker: string) => Effect.Effect<unknown, KafkaError, Scope.Scope>
  readonly aboutBroker: (error: KafkaError, broker: string) => string
  readonly aboutTopic: (error: KafkaError, topic: string) => string
}

/** One of the config's brokers that answers is enough for `check`; events go to those that the cluster names. */
export const onBrokers = Effect.fnUntraced(function* ({ client, brokers, reach, aboutBroker }: Cluster) {
  const named = yield* client.brokers
  const all = [...new Set([...brokers, ...named])]
  if (all.length === 1) return []
  const whatFollows = (broker: string): string =>
    named.includes(broker)
      ? "events for its partitions wait: check the address that the cluster names for it (advertised.listeners)"
      : 'the others of "brokers" are used: correct it, or take it out'
  const advice = (broker: string): Effect.Effect<Advice> =>
    Effect.match(Effect.scoped(reach(broker)), {
      onSuccess: () => [],
      onFailure: (error) => [`${aboutBroker(error, broker)}; ${whatFollows(broker)}`],
    })
  return (yield* Effect.forEach(all, advice, { concurrency: "unbounded" })).flat()
})

/** Topics that can't be written to, or that take less than the largest body of a delivery, in bytes. */
export const onTopics = (
  { client, topics, aboutTopic }: Cluster,
  names: ReadonlyArray<string>,
  maxBody: number,
): Effect.Effect<Advice> => {
  const needed = maxBody + overhead
  // A user that may write may lack the right to read limits.
  const largestOf = (topic: string) => Effect.orElseSucceed(client.largestBatch(topic), () => Number.POSITIVE_INFINITY)
  const advice = (topic: string): Effect.Effect<Advice> =>
    Effect.match(Effect.andThen(topics.check(topic), largestOf(topic)), {
      onSuccess: (largest) =>
        largest >= needed
          ? []
          : [
              `topic ${topic} takes ${largest} bytes at most, and a delivery of ${maxBody} needs ${needed} with what stands around it: such an event becomes a dead letter; raise max.message.bytes, or lower the webhook's maxBody`,
            ],
      onFailure: (error) => (topics.willBeMade(error) ? [] : [aboutTopic(error, topic)]),
    })
  return Effect.map(Effect.forEach(names, advice), (advice) => advice.flat())
}
