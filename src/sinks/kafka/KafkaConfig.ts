/** The config of a Kafka sink. */
import { Effect, Schema } from "effect"
import * as Address from "../../config/Address.ts"
import { batch } from "../../config/schema/BatchKeys.ts"
import { countOr, oneOf, secret, template, templateOr, text } from "../../config/schema/Keys.ts"
import { Units } from "../../config/schema/Units.ts"
import * as Template from "../../formats/Template.ts"
import * as Certificates from "../Certificates.ts"
import { compressions, mechanisms } from "./KafkaClient.ts"
import { isTopicName } from "./TopicName.ts"

const brokerProblem = (text: string): string | undefined => {
  if (Address.parse(text) !== undefined) return undefined
  if (text.includes(",")) return 'each broker stands in its own quotes: ["one:9092", "two:9092"]'
  if (/^[a-z]+:\/\//i.test(text)) return 'a broker is host and port alone, such as "broker-1.example.com:9092"'
  return 'this is no broker: write host and port, such as "broker-1.example.com:9092"'
}

/** A broker that is written wrong may hold a password, so none is shown. */
const broker = Schema.String.annotate({ shown: false, examples: ["broker-1.example.com:9092"] }).check(
  Schema.makeFilter(brokerProblem, { toJsonSchema: () => ({ pattern: Address.pattern }) }),
)

/** Whether a topic of this template can have a legal name: what an event fills in is made legal. */
const topicProblem = (topic: string): string | undefined => {
  const fixed = Template.withoutPlaceholders(topic)
  if (Template.problem(topic) !== undefined || isTopicName(fixed)) return undefined
  return fixed.length > 249
    ? "a topic's name has 249 characters at most"
    : "no topic can have this name: it has letters, digits, `.`, `_` and `-`"
}

export const KafkaConfig = Schema.Struct({
  brokers: Schema.Array(broker)
    .annotate({ description: "Brokers to connect to first; they name the others", examples: [["127.0.0.1:9092"]] })
    .check(Schema.isMinLength(1, { message: "without a broker there is nowhere to begin" })),
  client: oneOf(
    "The client library: the faster one, or the one with the longest record",
    ["platformatic", "kafkajs"],
    "platformatic",
  ),
  clientId: Schema.NonEmptyString.check(Schema.isPattern(/^\S+$/u, { message: "a client id has no spaces" }))
    .annotate({
      description: "The relay's name in the logs and quotas of the brokers",
      default: "relay",
      shown: true,
    })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("relay"))),
  topic: template("The topic; may hold placeholders", { examples: ["events", "scheduling.{{resource}}"] }).check(
    Schema.makeFilter(topicProblem),
  ),
  // The lane reads it too: it is both the order key and the record's key.
  key: templateOr("A template over the envelope: what `order` keeps apart", "{{account_id}}"),
  headers: Schema.Record(Schema.String, Schema.String.annotate({ template: true, shown: true }))
    .annotate({ description: "Headers beside those of the relay; values may hold placeholders", headerNames: true })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  format: oneOf(
    "The signed bytes both times; with `cloudevents` the headers are those of CloudEvents 1.0",
    ["raw", "cloudevents"],
    "raw",
  ),
  compression: oneOf("How batches are compressed; kafkajs knows `none` and `gzip`", compressions, "none"),
  sasl: Schema.optionalKey(
    Schema.Struct({
      mechanism: Schema.Literals(mechanisms).annotate({ description: "How to log in" }),
      username: text("The user that the relay logs in as"),
      password: secret("Its password"),
    }).annotate({ description: "Log in to the brokers" }),
  ),
  tls: Schema.optionalKey(
    Certificates.CertificatesConfig.annotate({
      description: "Speak TLS to the brokers; `{}` trusts the system's authorities",
    }),
  ),
  createTopics: Schema.optionalKey(
    Schema.Struct({
      partitions: countOr("Partitions of a new topic", 6, 1, 10_000),
      replication: countOr("Copies of each partition", 3, 1, 100),
    }).annotate({ description: "Make topics that are missing; without it they must be there" }),
  ),
  batch: batch("Events in a batch at most", 500),
  requestTimeout: Units.duration.or("8 seconds", "How long the brokers may take for a batch"),
}).check(
  Schema.makeFilter((config: { readonly client: string; readonly compression: string }) =>
    config.client === "kafkajs" && !["none", "gzip"].includes(config.compression)
      ? { path: ["compression"], issue: 'kafkajs knows "none" and "gzip" only: take one, or the other client' }
      : undefined,
  ),
)
export type KafkaConfig = typeof KafkaConfig.Type
