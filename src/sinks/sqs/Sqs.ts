/**
 * The SQS sink: one message per event, up to ten in a request, each with its own
 * outcome.
 *
 * **Guarantee.** On a FIFO queue events of one key are received in order, also
 * across retries where the lane keeps `order: key` (`aws/AwsBatch.ts`), and a
 * repeat within five minutes is dropped by its deduplication id.
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
import { regionOf, SqsConfig } from "./SqsConfig.ts"

/** The largest message, and the largest request, in bytes; a queue may be set to take less. */
export const largest = 1024 * 1024

const noQueue =
  'there is no such queue, or the credentials may not see it: make it, correct "queueUrl", or let its policy name them'

const service: AwsErrors.Service = {
  name: "SQS",
  thing: "queue",
  endpointKey: "queueUrl",
  rights: "sqs:SendMessage and sqs:GetQueueAttributes on the queue",
  advice: {
    QueueDoesNotExist: noQueue,
    NonExistentQueue: noQueue,
    InvalidAddress: 'SQS knows no queue by this URL: correct "queueUrl"',
    UnsupportedOperation: "the queue is not of this kind: a FIFO queue's name ends in .fifo, and no other's does",
  },
  messages: ["InvalidMessageContents"],
}

const encoder = ({ format, key, queueUrl }: SqsConfig) =>
  AwsMessage.encoder({ format, key, isFifo: queueUrl.endsWith(".fifo") })

const make = Effect.fnUntraced(function* (config: SqsConfig): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const { SQSClient, SendMessageBatchCommand, GetQueueAttributesCommand } = yield* Effect.promise(
    () => import("@aws-sdk/client-sqs"),
  )
  const { queueUrl, profile = "" } = config
  const { origin } = new URL(queueUrl)
  const own = regionOf(queueUrl)
  const place: AwsErrors.Place = { service, name: queueUrl, endpoint: own === undefined ? origin : "", profile }
  const ask = yield* AwsClient.open(
    // TLS guards the bytes on their way: another checksum of each would only cost.
    (options) => new SQSClient({ ...options, md5: false }),
    { ...config, region: config.region ?? own ?? "", endpoint: origin },
    place,
  )

  const publish = Effect.fnUntraced(function* (request: ReadonlyArray<AwsMessage.Message>) {
    const answer = yield* ask((client, options) =>
      client.send(
        new SendMessageBatchCommand({
          QueueUrl: queueUrl,
          Entries: request.map((one) => ({ MessageBody: one.text, ...AwsMessage.entryOf(one) })),
        }),
        options,
      ),
    )
    return yield* AwsBatch.failuresOf(request, answer, place)
  })

  /** The largest message that the queue takes, in bytes. */
  const largestHere = Effect.gen(function* () {
    const { Attributes } = yield* ask((client, options) =>
      client.send(
        new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ["MaximumMessageSize"] }),
        options,
      ),
    )
    if (Attributes === undefined) return yield* AwsErrors.notTheService(place)
    return Number(Attributes.MaximumMessageSize ?? largest)
  })

  const encode = encoder(config)
  return {
    batch: AwsBatch.limits(largest, config.batch),
    send: (batch: ReadonlyArray<Entry>) => AwsBatch.send(batch, { place, largest, encode, publish }),
    check: Effect.asVoid(largestHere),
    advise: ({ maxBody }: Limits) =>
      Effect.map(largestHere, (size) => AwsBatch.sizeAdvice(`the queue ${queueUrl}`, size, maxBody)),
  }
})

export const Sqs: SinkType<SqsConfig> = {
  config: SqsConfig,
  ...AwsClient.traits,
  messagingSystem: "aws_sqs",
  open: make,
  preview: (config, batch) =>
    batch.map(encoder(config)).map((message) => ({ queueUrl: config.queueUrl, ...AwsMessage.shown(message) })),
}
