/**
 * The SQS sink: one message per event, up to ten in a request, each with its own
 * outcome.
 *
 * **Guarantee.** On a FIFO queue events of one key are received in order, also
 * across retries if the lane keeps `order: key` (`aws/AwsBatch.ts`), and a repeat
 * within five minutes is dropped by its deduplication id.
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

// The config of an SQS sink.

const queueUrl = /^https?:\/\/[^/?#@\s]+\/\d{12}\/[A-Za-z0-9_-]{1,80}(\.fifo)?$/i

/**
 * The region in a host of AWS: `sqs.eu-west-1.amazonaws.com`, an interface endpoint's host, the older
 * `eu-west-1.queue.amazonaws.com`.
 */
const regional =
  /(?:(?:^|\.)sqs(?:-fips)?\.([a-z]+(?:-[a-z]+)+-\d+)|^([a-z]+(?:-[a-z]+)+-\d+)\.queue)\.(?:vpce\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)$/

/** The region that a queue's URL names. `undefined` if the URL isn't AWS's own. */
export const regionOf = (url: string): string | undefined => {
  const [, one, older] = regional.exec(new URL(url).hostname) ?? []
  return one ?? older
}

export const SqsConfig = Schema.Struct({
  queueUrl: Schema.String.annotate({
    description: "The queue; a queue whose name ends in `.fifo` keeps order by `key`",
    examples: ["https://sqs.eu-west-1.amazonaws.com/123456789012/events"],
    target: "place",
    // A wrong text may hold a password.
    shown: false,
  }).check(
    Schema.makeFilter(
      (url: string) =>
        (queueUrl.test(url) && URL.canParse(url)) ||
        'this is not a URL of a queue: write it as in "https://sqs.eu-west-1.amazonaws.com/123456789012/events", without a user',
      { expected: "the URL of a queue", toJsonSchema: () => ({ pattern: "^[Hh][Tt][Tt][Pp][Ss]?://" }) },
    ),
  ),
  ...AwsConfig.messageKeys,
  key: AwsConfig.key("queue"),
  region: Schema.optionalKey(text("The region to sign for, if the URL doesn't name it")),
  ...AwsConfig.identityKeys,
  batch: AwsConfig.batchOf("1 MiB"),
}).check(
  Schema.makeFilter(bodyProblem),
  AwsConfig.oneIdentity,
  Schema.makeFilter(({ queueUrl, region }) => {
    const own = regionOf(queueUrl)
    if (own !== undefined && region !== undefined && region !== own) {
      return { path: ["region"], issue: `AWS has this queue in ${own} and nowhere else: take "region" out` }
    }
    return own === undefined && region === undefined
      ? { path: ["region"], issue: 'the queue\'s URL does not say its region: add "region", as in "eu-west-1"' }
      : undefined
  }),
)
export type SqsConfig = typeof SqsConfig.Type

/** The largest message, and the largest request, in bytes. A queue's own limit may be lower. */
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

const encoder = (config: SqsConfig, now?: () => number) =>
  AwsBatch.encoder({ ...config, isFifo: config.queueUrl.endsWith(".fifo") }, now)

const make = Effect.fnUntraced(function* (config: SqsConfig): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const { SQSClient, SendMessageBatchCommand, GetQueueAttributesCommand } = yield* Effect.promise(
    () => import("@aws-sdk/client-sqs"),
  )
  const { queueUrl, profile = "" } = config
  const { origin } = new URL(queueUrl)
  const own = regionOf(queueUrl)
  const place: AwsErrors.Place = { service, name: queueUrl, endpoint: own === undefined ? origin : "", profile }
  const ask = yield* AwsClient.open(
    // TLS protects the bytes on their way, so another checksum would only cost CPU.
    (options) => new SQSClient({ ...options, md5: false }),
    { ...config, region: config.region ?? own ?? "", endpoint: origin },
    place,
  )

  const publish = Effect.fnUntraced(function* (request: ReadonlyArray<AwsBatch.Message>) {
    const answer = yield* ask((client, options) =>
      client.send(
        new SendMessageBatchCommand({
          QueueUrl: queueUrl,
          Entries: request.map((one) => ({ MessageBody: one.text, ...AwsBatch.entryOf(one) })),
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

  const clock = yield* Clock.Clock
  const encode = encoder(config, () => clock.currentTimeMillisUnsafe())
  return {
    batch: AwsBatch.limits(largest, config.batch),
    send: (batch: ReadonlyArray<Entry>) =>
      AwsBatch.send(batch, { place, format: config.format, largest, encode, publish }),
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
    batch.map(encoder(config)).map((message) => ({ queueUrl: config.queueUrl, ...AwsBatch.shown(message) })),
}
