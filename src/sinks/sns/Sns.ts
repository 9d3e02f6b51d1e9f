/**
 * The SNS sink: one message per event, up to ten in a request, each with its own
 * outcome.
 *
 * **Guarantee.** On a FIFO topic events of one key are delivered in order, also
 * across retries where the lane keeps `order: key` (`aws/AwsBatch.ts`).
 *
 * **Gotcha.** A 2xx alone means nothing: only the messages that the answer names
 * were accepted.
 */
import { Effect, type Scope } from "effect"
import type { Entry } from "../../event/Entry.ts"
import * as AwsBatch from "../aws/AwsBatch.ts"
import * as AwsClient from "../aws/AwsClient.ts"
import * as AwsErrors from "../aws/AwsErrors.ts"
import * as AwsMessage from "../aws/AwsMessage.ts"
import type { Limits, Sink, SinkError, SinkType } from "../Sink.ts"
import { SnsConfig } from "./SnsConfig.ts"

/** The largest message, and the largest request, in bytes. */
export const largest = 256 * 1024

const service: AwsErrors.Service = {
  name: "SNS",
  thing: "topic",
  endpointKey: "endpoint",
  rights: "sns:Publish and sns:GetTopicAttributes on the topic",
  advice: { NotFound: 'there is no such topic: make it, or correct "topicArn"' },
}

const encoder = ({ format, key, topicArn }: SnsConfig) =>
  AwsMessage.encoder({ format, key, isFifo: topicArn.endsWith(".fifo") })

const make = Effect.fnUntraced(function* (config: SnsConfig): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const { SNSClient, PublishBatchCommand, GetTopicAttributesCommand } = yield* Effect.promise(
    () => import("@aws-sdk/client-sns"),
  )
  const { topicArn, endpoint = "", profile = "" } = config
  const place: AwsErrors.Place = { service, name: topicArn, endpoint, profile }
  const region = config.region ?? topicArn.split(":")[3] ?? ""
  const ask = yield* AwsClient.open((options) => new SNSClient(options), { ...config, region }, place)

  const publish = Effect.fnUntraced(function* (request: ReadonlyArray<AwsMessage.Message>) {
    const answer = yield* ask((client, options) =>
      client.send(
        new PublishBatchCommand({
          TopicArn: topicArn,
          PublishBatchRequestEntries: request.map((one) => ({ Message: one.text, ...AwsMessage.entryOf(one) })),
        }),
        options,
      ),
    )
    return yield* AwsBatch.failuresOf(request, answer, place)
  })

  const encode = encoder(config)
  const check = Effect.gen(function* () {
    const { Attributes } = yield* ask((client, options) =>
      client.send(new GetTopicAttributesCommand({ TopicArn: topicArn }), options),
    )
    if (Attributes === undefined) return yield* AwsErrors.notTheService(place)
  })

  return {
    batch: AwsBatch.limits(largest, config.batch),
    send: (batch: ReadonlyArray<Entry>) => AwsBatch.send(batch, { place, largest, encode, publish }),
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
    batch.map(encoder(config)).map((message) => ({ topicArn: config.topicArn, ...AwsMessage.shown(message) })),
}
