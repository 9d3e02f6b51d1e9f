/**
 * The SNS sink: one message per event, up to ten in a request, each with its own
 * outcome.
 *
 * **Guarantee.** On a FIFO topic events of one key are delivered in order, also
 * across retries where the lane keeps `order: key`: a request holds at most one
 * message of a key, and nothing overtakes a failed one.
 *
 * **Gotcha.** A 2xx alone means nothing: only the messages that the answer names
 * were accepted. The SDK's own retries are turned off; the lane retries.
 */
import type { SNSClient, SNSClientConfig } from "@aws-sdk/client-sns"
import { Duration, Effect, Redacted, Result, type Scope } from "effect"
import type { Entry } from "../../event/Entry.ts"
import * as DisplayBytes from "../../formats/DisplayBytes.ts"
import { userAgent } from "../../runtime/HttpTransport.ts"
import { rendered } from "../Rendered.ts"
import { type Failures, isFinal, type Limits, type Sink, SinkError, type SinkType } from "../Sink.ts"
import { SnsConfig } from "./SnsConfig.ts"
import * as SnsErrors from "./SnsErrors.ts"
import * as SnsMessage from "./SnsMessage.ts"

// --- encode ------------------------------------------------------------------

const isFifo = ({ topicArn }: SnsConfig): boolean => topicArn.endsWith(".fifo")

const encoder = (config: SnsConfig) =>
  SnsMessage.encoder({ format: config.format, key: config.key, isFifo: isFifo(config) })

const attributeValues = (attributes: Readonly<Record<string, string>>) =>
  Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [name, { DataType: "String", StringValue: value }]),
  )

// --- send --------------------------------------------------------------------

type Sdk = typeof import("@aws-sdk/client-sns")

const credentialsOf = Effect.fnUntraced(function* ({ credentials, role }: SnsConfig) {
  const own = credentials && {
    accessKeyId: credentials.accessKeyId,
    secretAccessKey: Redacted.value(credentials.secretAccessKey),
    ...(credentials.sessionToken && { sessionToken: Redacted.value(credentials.sessionToken) }),
  }
  if (role === undefined) return own
  const { fromTemporaryCredentials } = yield* Effect.promise(() => import("@aws-sdk/credential-providers"))
  const assume = fromTemporaryCredentials({
    params: {
      RoleArn: role.arn,
      RoleSessionName: "relay",
      ...(role.externalId !== undefined && { ExternalId: role.externalId }),
    },
    ...(own && { masterCredentials: own }),
    clientConfig: { maxAttempts: 1 },
  })
  return (identity: Parameters<typeof assume>[0]) =>
    assume(identity).catch((cause: unknown) => {
      throw new SnsErrors.RoleRefused(role.arn, cause)
    })
})

const openClient = Effect.fnUntraced(function* (sdk: Sdk, config: SnsConfig) {
  const credentials = yield* credentialsOf(config)
  const options: SNSClientConfig = {
    region: config.region ?? config.topicArn.split(":")[3] ?? "",
    maxAttempts: 1,
    customUserAgent: [userAgent.split("/") as [string, string]],
    // The lane limits the requests in flight.
    requestHandler: {
      httpAgent: { maxSockets: Number.POSITIVE_INFINITY },
      httpsAgent: { maxSockets: Number.POSITIVE_INFINITY },
    },
    ...(config.endpoint !== undefined && { endpoint: config.endpoint }),
    ...(config.profile !== undefined && { profile: config.profile }),
    ...(credentials !== undefined && { credentials }),
  }
  return yield* Effect.acquireRelease(
    Effect.sync(() => new sdk.SNSClient(options)),
    (client) => Effect.sync(() => client.destroy()),
  )
})

const make = Effect.fnUntraced(function* (config: SnsConfig): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const sdk = yield* Effect.promise(() => import("@aws-sdk/client-sns"))
  const client = yield* openClient(sdk, config)
  const encode = encoder(config)
  const { topicArn, endpoint = "", profile = "" } = config
  const place: SnsErrors.Place = { topicArn, endpoint, profile }
  const fault = (reason: SinkError["reason"]) => new SinkError({ reason })

  /** One request; an interruption aborts it. */
  const ask = <A>(request: (client: SNSClient, abortSignal: AbortSignal) => Promise<A>): Effect.Effect<A, SinkError> =>
    Effect.tryPromise({
      try: (signal) => request(client, signal),
      catch: (error) => fault(SnsErrors.reasonOf(SnsErrors.ofThrown(error), place)),
    })

  /** The failures of an answered request, by index in the lane's batch. */
  const publish = Effect.fnUntraced(function* (request: ReadonlyArray<SnsMessage.Message>) {
    const { Successful, Failed } = yield* ask((client, abortSignal) =>
      client.send(
        new sdk.PublishBatchCommand({
          TopicArn: topicArn,
          PublishBatchRequestEntries: request.map(({ index, text, attributes, fifo }) => ({
            Id: String(index),
            Message: text,
            MessageAttributes: attributeValues(attributes),
            ...(fifo && { MessageGroupId: fifo.group, MessageDeduplicationId: fifo.deduplication }),
          })),
        }),
        { abortSignal },
      ),
    )
    if (Successful === undefined && Failed === undefined) return yield* fault(SnsErrors.notSns(place))
    const passed = new Set(Successful?.map(({ Id }) => Id))
    const failures = new Map<number, SinkError>()
    for (const { index } of request) {
      const id = String(index)
      if (passed.has(id)) continue
      const failed = Failed?.find(({ Id }) => Id === id)
      failures.set(index, fault(failed ? SnsErrors.reasonOfEntry(failed, place) : SnsErrors.unnamed(place)))
    }
    return failures
  })

  const send = Effect.fnUntraced(function* (batch: ReadonlyArray<Entry>): Effect.fn.Return<Failures, SinkError> {
    const failures = new Map<number, SinkError>()
    let waiting: ReadonlyArray<SnsMessage.Message> = batch.flatMap((entry, index) => {
      const message = Result.flatMap(
        rendered(() => encode(entry, index)),
        (one) =>
          one.size <= SnsMessage.largest
            ? Result.succeed(one)
            : Result.fail(fault(SnsErrors.tooLarge(place, one.size, SnsMessage.largest))),
      )
      if (Result.isFailure(message)) failures.set(index, message.failure)
      return Result.isFailure(message) ? [] : [message.success]
    })
    let most = SnsMessage.most
    while (waiting.length > 0) {
      const request = SnsMessage.next(waiting, most)
      const answer = yield* Effect.result(publish(request))
      if (answer._tag === "Failure" && isFinal(answer.failure) && request.length > 1) {
        // One message may be the cause: from here on each is sent alone.
        most = 1
        continue
      }
      const failed =
        answer._tag === "Success" ? answer.success : new Map(request.map(({ index }) => [index, answer.failure]))
      for (const [index, error] of failed) failures.set(index, error)
      const stop = answer._tag === "Failure" && !isFinal(answer.failure) ? answer.failure : undefined
      waiting = waiting.filter((message) => {
        if (request.includes(message)) return false
        const error = stop ?? ahead(message, request, failed)
        if (error !== undefined) failures.set(message.index, error)
        return error === undefined
      })
    }
    return failures
  })

  // --- check ---------------------------------------------------------------

  const check = Effect.gen(function* () {
    const { Attributes } = yield* ask((client, abortSignal) =>
      client.send(new sdk.GetTopicAttributesCommand({ TopicArn: topicArn }), { abortSignal }),
    )
    if (Attributes === undefined) return yield* fault(SnsErrors.notSns(place))
  })

  const advise = ({ maxBody }: Limits) =>
    Effect.succeed(
      maxBody + overhead > SnsMessage.largest
        ? [
            `SNS takes ${SnsMessage.largest} bytes at most, attributes included, and a delivery may have ${maxBody}: an event that is too large becomes a dead letter; lower the webhook's maxBody, or send large events to another sink`,
          ]
        : [],
    )

  return {
    batch: {
      maxEvents: SnsMessage.most,
      maxBytes: SnsMessage.largest,
      linger: Duration.toMillis(config.batch.linger),
    },
    send,
    check,
    advise,
  }
})

/** Why a message must wait: an earlier one of its group failed and is retried. */
const ahead = (
  { fifo }: SnsMessage.Message,
  request: ReadonlyArray<SnsMessage.Message>,
  failed: ReadonlyMap<number, SinkError>,
): SinkError | undefined => {
  if (fifo === undefined || failed.size === 0) return undefined
  const first = request.find((message) => message.fifo?.group === fifo.group)
  const error = first && failed.get(first.index)
  return error !== undefined && !isFinal(error) ? error : undefined
}

/** An estimate of the attributes of an event, in bytes. */
const overhead = 1_024

export const Sns: SinkType<SnsConfig> = {
  config: SnsConfig,
  concurrency: 8,
  messagingSystem: "aws.sns",
  open: make,
  preview: (config, batch) =>
    batch.map(encoder(config)).map(({ text, attributes, fifo }) => ({
      topicArn: config.topicArn,
      ...(fifo && { messageGroupId: fifo.group, messageDeduplicationId: fifo.deduplication }),
      attributes,
      message: DisplayBytes.show(Buffer.from(text)),
    })),
}
