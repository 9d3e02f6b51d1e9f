/**
 * The SNS sink: one message per event, up to ten in a request, each with its own
 * outcome.
 *
 * **Guarantee.** On a FIFO topic events of one key are delivered in order, also
 * across retries if the lane keeps `order: key` (`aws/AwsBatch.ts`).
 *
 * **Gotcha.** A 2xx alone means nothing: only the messages that the answer names
 * were accepted.
 */
import { Clock, Effect, Schema, type Scope } from "effect"
import { bodyProblem, text } from "../../config/schema/Keys.ts"
import type { Entry } from "../../event/Event.ts"
import * as AwsBatch from "../aws/AwsBatch.ts"
import * as AwsClient from "../aws/AwsClient.ts"
import * as AwsConfig from "../aws/AwsConfig.ts"
import * as AwsErrors from "../aws/AwsErrors.ts"
import type { Limits, Sink, SinkError, SinkType } from "../Sink.ts"

// The config of an SNS sink.

export const SnsConfig = Schema.Struct({
  topicArn: Schema.String.annotate({
    description: "The topic; a topic whose name ends in `.fifo` keeps order by `key`",
    examples: ["arn:aws:sns:eu-west-1:123456789012:events"],
    target: "place",
    shown: true,
  }).check(
    Schema.isPattern(/^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?$/u, {
      message: 'this is not an ARN of a topic: write it as in "arn:aws:sns:eu-west-1:123456789012:events"',
    }),
  ),
  ...AwsConfig.messageKeys,
  key: AwsConfig.key("topic"),
  region: Schema.optionalKey(text("The region to sign for; by default the topic's")),
  endpoint: AwsConfig.endpoint("SNS"),
  ...AwsConfig.identityKeys,
  batch: AwsConfig.batchOf("256 KiB"),
}).check(
  Schema.makeFilter(bodyProblem),
  AwsConfig.oneIdentity,
  Schema.makeFilter(({ topicArn, region, endpoint }) => {
    const own = topicArn.split(":")[3]
    return region === undefined || region === own || endpoint !== undefined
      ? undefined
      : { path: ["region"], issue: `AWS has this topic in ${own} and nowhere else: take "region" out` }
  }),
)
export type SnsConfig = typeof SnsConfig.Type

/** The largest message, and the largest request, in bytes. */
export const largest = 256 * 1024

const service: AwsErrors.Service = {
  name: "SNS",
  thing: "topic",
  endpointKey: "endpoint",
  rights: "sns:Publish and sns:GetTopicAttributes on the topic",
  advice: { NotFound: 'there is no such topic: make it, or correct "topicArn"' },
}

const encoder = (config: SnsConfig, now?: () => number) =>
  AwsBatch.encoder({ ...config, isFifo: config.topicArn.endsWith(".fifo") }, now)

const make = Effect.fnUntraced(function* (config: SnsConfig): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const { SNSClient, PublishBatchCommand, GetTopicAttributesCommand } = yield* Effect.promise(
    () => import("@aws-sdk/client-sns"),
  )
  const { topicArn, endpoint = "", profile = "" } = config
  const place: AwsErrors.Place = { service, name: topicArn, endpoint, profile }
  const region = config.region ?? topicArn.split(":")[3] ?? ""
  const ask = yield* AwsClient.open((options) => new SNSClient(options), { ...config, region }, place)

  const publish = Effect.fnUntraced(function* (request: ReadonlyArray<AwsBatch.Message>) {
    const answer = yield* ask((client, options) =>
      client.send(
        new PublishBatchCommand({
          TopicArn: topicArn,
          PublishBatchRequestEntries: request.map((one) => ({ Message: one.text, ...AwsBatch.entryOf(one) })),
        }),
        options,
      ),
    )
    return yield* AwsBatch.failuresOf(request, answer, place)
  })

  const clock = yield* Clock.Clock
  const encode = encoder(config, () => clock.currentTimeMillisUnsafe())
  const check = Effect.gen(function* () {
    const { Attributes } = yield* ask((client, options) =>
      client.send(new GetTopicAttributesCommand({ TopicArn: topicArn }), options),
    )
    if (Attributes === undefined) return yield* AwsErrors.notTheService(place)
  })

  return {
    batch: AwsBatch.limits(largest, config.batch),
    send: (batch: ReadonlyArray<Entry>) =>
      AwsBatch.send(batch, { place, format: config.format, largest, encode, publish }),
    check,
    advise: ({ maxBody }: Limits) => Effect.succeed(AwsBatch.sizeAdvice("SNS", largest, maxBody)),
  }
})

export const Sns: SinkType<SnsConfig> = {
  config: SnsConfig,
  ...AwsClient.traits,
  messagingSystem: "aws.sns",
  open: make,
  preview: (config, batch) =>
    batch.map(encoder(config)).map((message) => ({ topicArn: config.topicArn, ...AwsBatch.shown(message) })),
}
