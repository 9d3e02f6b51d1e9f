/** The config of a Kafka sink. */
import { Duration, Effect, Redacted, Schema } from "effect"
import * as Address from "../../config/Address.ts"
import type { Doubt } from "../../config/schema/ConfiguredTypes.ts"
import { batch, body, bodyProblem, countOr, eventPatterns, flag, oneOf, textOrShape } from "../../config/schema/Keys.ts"
import { Units } from "../../config/schema/Units.ts"
import * as Template from "../../formats/Template.ts"
import * as Certificates from "../Certificates.ts"
import * as MessageKeys from "../MessageKeys.ts"
import { SignatureConfig } from "../Signing.ts"
import { compressions, type TopicConfig } from "./KafkaClient.ts"
import { SaslConfig } from "./KafkaLogin.ts"
import { SchemaConfig } from "./SchemaRegistry.ts"

/** Reports whether Kafka allows this name of a topic. */
export const isTopicName = (topic: string): boolean => /^[A-Za-z0-9._-]{1,249}$/.test(topic) && !/^\.\.?$/.test(topic)

/** Reports why no topic of this template can have a legal name. Text that an event fills in is made legal. */
const topicProblem = (topic: Template.Text): string | undefined => {
  if (typeof topic !== "string") return undefined
  const fixed = Template.withoutPlaceholders(topic)
  if (Template.problem(topic) !== undefined || isTopicName(fixed)) return undefined
  return fixed.length > 249
    ? "a topic's name has 249 characters at most"
    : "no topic can have this name: it has letters, digits, `.`, `_` and `-`"
}

export const KafkaConfig = Schema.Struct({
  brokers: MessageKeys.hosts(
    "broker",
    "broker-1.example.com:9092",
    "Brokers to connect to first; they name the others",
    "without a broker there is nowhere to begin",
  ),
  client: oneOf(
    "The client library: `platformatic` is faster, `kafkajs` has been in use for longer",
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
  topic: textOrShape("The topic: a template or an expression", {
    examples: ["events", "scheduling.{{resource}}"],
    target: "place",
  }).check(Schema.makeFilter(topicProblem)),
  // It is both the order key and the record's key.
  key: MessageKeys.key,
  headers: MessageKeys.headers(),
  format: MessageKeys.format,
  body,
  tombstone: eventPatterns(
    "Patterns of event types whose records have a null value, which removes their key from a compacted topic",
    ["*.deleted"],
  ),
  schema: Schema.optionalKey(SchemaConfig),
  sign: Schema.optionalKey(SignatureConfig),
  compression: oneOf("How batches are compressed; kafkajs knows `none` and `gzip`", compressions, "none"),
  sasl: Schema.optionalKey(SaslConfig),
  tls: Schema.optionalKey(
    Certificates.CertificatesConfig.annotate({
      description: "Speak TLS to the brokers; `{}` trusts the system's authorities",
    }),
  ),
  createTopics: Schema.optionalKey(
    Schema.Struct({
      partitions: countOr("Partitions of a new topic", 6, 1, 10_000),
      replication: countOr("Copies of each partition", 3, 1, 100),
      retention: Schema.optionalKey(
        Units.duration.required({
          description: "How long records are kept (`retention.ms`); by default as the broker is set",
          examples: ["30 days"],
        }),
      ),
      compact: flag(
        "Whether the newest record of each key is kept and older ones are removed (`cleanup.policy`)",
        false,
      ),
    }).annotate({ description: "Make topics that are missing; without it they must be there" }),
  ),
  batch: batch("Events in a batch at most", 500),
  requestTimeout: Units.duration.or("8 seconds", "How long the brokers may take for a batch"),
})
  .annotate({
    otherNames: [
      ["bootstrap_servers bootstrap servers addresses hosts", "brokers"],
      ["topics", "topic"],
      ["key_field partition_key", "key"],
      ["encoding codec", "format"],
      ["schema_registry schemaRegistry registry value_schema", "schema"],
      ["batching batch_size", "batch"],
      ["security_protocol security", "", '"tls": {} speaks TLS, and "sasl" logs in'],
      ["username password user mechanism sasl_mechanism oauth", "sasl", 'it belongs in "sasl"'],
      ["acks required_acks", "", "the relay waits for all in-sync replicas: take this key out"],
      ["group_id consumer_group", "", "the relay only writes: take this key out"],
    ],
  })
  .check(
    Schema.makeFilter(bodyProblem),
    Schema.makeFilter(({ client, compression }) =>
      client === "kafkajs" && !["none", "gzip"].includes(compression)
        ? { path: ["compression"], issue: 'kafkajs knows "none" and "gzip" only: take one, or the other client' }
        : undefined,
    ),
    Schema.makeFilter(({ schema, format }) =>
      schema !== undefined && schema.definition === undefined && format === "template"
        ? {
            path: ["schema"],
            issue: 'a "body" of your own needs a schema of your own: write "definition": "file:PATH"',
          }
        : undefined,
    ),
    Schema.makeFilter(({ tombstone, key }) =>
      tombstone.length > 0 && isKeyedByAccount({ key })
        ? {
            path: ["key"],
            issue:
              'a tombstone removes the records of its key, and all events of an account have this one: name the object, as in "key": "{{/data/object/id}}"',
          }
        : undefined,
    ),
  )
export type KafkaConfig = typeof KafkaConfig.Type

/** The settings of a topic that the relay creates, other than the broker's own. */
export const topicConfigs = ({
  retention,
  compact,
}: NonNullable<KafkaConfig["createTopics"]>): ReadonlyArray<TopicConfig> => {
  // A topic that is only compacted ignores its retention.
  const policy = retention === undefined ? "compact" : "compact,delete"
  return [
    ...(retention === undefined ? [] : [{ name: "retention.ms", value: String(Duration.toMillis(retention)) }]),
    ...(compact ? [{ name: "cleanup.policy", value: policy }] : []),
  ]
}

/** Words about a compacted topic whose records have the default key. */
export const keepsOne = "keeps only the newest record of a key, and all events of an account have the same key"
export const objectKey = 'name the object: "key": "{{/data/object/id}}"'

/** Whether all events of an account have the same key. */
export const isKeyedByAccount = ({ key }: Pick<KafkaConfig, "key">): boolean => key === MessageKeys.usualKey

/** Credentials of a schema registry without TLS. */
const registryDoubts = ({ registry }: NonNullable<KafkaConfig["schema"]>): ReadonlyArray<Doubt> => {
  const { url, password, oauth, headers } = registry
  const { protocol, hostname } = new URL(Redacted.value(url))
  const isRemote = !Address.isLoopback({ host: hostname.replace(/^\[|\]$/g, "") })
  const hasCredential = password !== undefined || oauth !== undefined || Object.keys(headers).length > 0
  return protocol === "http:" && isRemote && hasCredential
    ? [
        {
          path: ["schema", "registry", "url"],
          message: "http:// sends the registry's credentials readable over the network",
          hint: 'begin the URL with "https://"',
        },
      ]
    : []
}

/** Addresses of ZooKeeper, credentials without TLS, and compaction by account. */
export const doubts = ({ brokers, sasl, tls, key, createTopics, schema }: KafkaConfig): ReadonlyArray<Doubt> => {
  const isRemote = brokers.some((broker) => !Address.isLoopback(Address.parse(broker) ?? { host: "" }))
  const unprotected =
    sasl && { PLAIN: "password", OAUTHBEARER: "token", AWS_MSK_IAM: "token" }[sasl.mechanism as string]
  return [
    ...(createTopics?.compact === true && isKeyedByAccount({ key })
      ? [{ path: ["key"], message: `a compacted topic ${keepsOne}`, hint: objectKey }]
      : []),
    ...brokers.flatMap((broker, index) =>
      Address.parse(broker)?.port === 2181
        ? [{ path: ["brokers", index], message: "2181 is the port of ZooKeeper", hint: "a broker usually has 9092" }]
        : [],
    ),
    ...(unprotected !== undefined && tls === undefined && isRemote
      ? [
          {
            path: ["sasl"],
            message: `${sasl?.mechanism} without TLS sends the ${unprotected} readable over the network, and most such brokers want TLS`,
            hint: 'add "tls": {}',
          },
        ]
      : []),
    ...(schema === undefined ? [] : registryDoubts(schema)),
  ]
}
