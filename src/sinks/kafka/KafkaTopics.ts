/** The topics that events go to: found, made where the config allows it, and checked. */
import { Effect, Schedule } from "effect"
import { createDenied, type KafkaClient, type KafkaError, kafkaError, type Topic } from "./KafkaClient.ts"
import type { KafkaConfig } from "./KafkaConfig.ts"
import { isTopicName } from "./TopicName.ts"

/** Kafka's name for a topic that does not exist. */
const unknown = "UNKNOWN_TOPIC_OR_PARTITION"
/** Kafka's names for a missing right, which of an attempt to create a topic is the right to do so. */
const denials = new Set(["TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"])
const noName = Effect.fail(kafkaError("INVALID_TOPIC_EXCEPTION"))

/** It takes a moment until every broker knows a new topic. */
const untilKnown = Schedule.max([Schedule.spaced("100 millis"), Schedule.recurs(20)])

export interface KafkaTopics {
  /** The topic of this name; it is made first if it is missing and the config allows it. */
  readonly find: (name: string) => Effect.Effect<Topic, KafkaError>
  /** Fails as a record to the topic would. Makes no topic. */
  readonly check: (name: string) => Effect.Effect<void, KafkaError>
  /** Whether an error of `check` ends by itself, because `find` makes the topic. */
  readonly willBeMade: (error: KafkaError) => boolean
}

export const make = (client: KafkaClient, createTopics: KafkaConfig["createTopics"]): KafkaTopics => ({
  find: (name) => {
    if (!isTopicName(name)) return noName
    if (createTopics === undefined) return client.topic(name)
    return Effect.catchIf(
      client.topic(name),
      ({ code }) => code === unknown,
      () =>
        client.createTopic(name, createTopics).pipe(
          Effect.mapError((error) => (denials.has(error.code) ? kafkaError(createDenied, error.detail) : error)),
          Effect.andThen(Effect.retry(client.topic(name), untilKnown)),
        ),
    )
  },
  check: Effect.fnUntraced(function* (name) {
    if (!isTopicName(name)) return yield* noName
    yield* client.topic(name)
    if ((yield* client.mayWrite(name)) === false) return yield* kafkaError("TOPIC_AUTHORIZATION_FAILED")
  }),
  willBeMade: ({ code }) => code === unknown && createTopics !== undefined,
})
