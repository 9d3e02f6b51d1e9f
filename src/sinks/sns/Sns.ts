/**
 * The SNS sink: a message an event, ten to a request, each settled by itself.
 *
 * **Promise.** What SNS has refused of a request is told apart from the rest of
 * it. On a FIFO topic events of one key come out in the order they went in,
 * across retries too where the lane keeps `order: key`: a request holds one
 * message of a key at most, and nothing passes one of its key that failed.
 *
 * **Trap.** An answer with a 2xx says nothing: only the messages that it names
 * have passed. And the SDK would retry by itself: it is told not to, the lane
 * does.
 */
import type { SNSClient, SNSClientConfig } from "@aws-sdk/client-sns"
import { Duration, Effect, Redacted, Result, Schema, type Scope } from "effect"
import { Units } from "../../config/schema/Units.ts"
import type { Entry } from "../../event/Entry.ts"
import * as Shown from "../../formats/DisplayBytes.ts"
import { userAgent } from "../../runtime/HttpTransport.ts"
import { rendered } from "../Rendered.ts"
import { type Failures, type Limits, type Sink, SinkError, type SinkType } from "../Sink.ts"
import * as SnsTroubles from "./SnsErrors.ts"
import * as SnsMessage from "./SnsMessage.ts"

// --- config ------------------------------------------------------------------

const optional = (description: string) => Schema.optionalKey(Schema.NonEmptyString.annotate({ description }))

const secret = (description: string) => Schema.RedactedFromValue(Schema.NonEmptyString.annotate({ description }))

export const SnsConfig = Schema.Struct({
  topicArn: Schema.String.annotate({
    description: "The topic; one whose name ends in `.fifo` keeps order by `key`",
    examples: ["arn:aws:sns:eu-west-1:123456789012:events"],
  }).check(
    Schema.isPattern(/^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?$/u, {
      message: 'this is no ARN of a topic: write it as in "arn:aws:sns:eu-west-1:123456789012:events"',
    }),
  ),
  format: Schema.Literals(["raw", "cloudevents"])
    .annotate({
      description: "`raw`: the signed bytes. `cloudevents`: one JSON document, CloudEvents 1.0",
      default: "raw",
    })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("raw"))),
  // The lane reads it too: what keeps events in order is what groups them.
  key: Schema.NonEmptyString.annotate({
    description: "A template over the envelope: what `order` keeps apart, and the group on a FIFO topic",
    default: "{{account_id}}",
  }).pipe(Schema.withDecodingDefaultKey(Effect.succeed("{{account_id}}"))),
  region: optional("The region to sign for; by default the topic's"),
  endpoint: Schema.optionalKey(
    Schema.String.annotate({
      description: "Where SNS is, when it is not where AWS says: an interface endpoint, a local one",
      examples: ["http://127.0.0.1:4566"],
    }).check(
      Schema.makeFilter(
        (url: string) =>
          (/^https?:\/\/[^/?#@\s]+\/?$/i.test(url) && URL.canParse(url)) ||
          "this is no http:// or https:// URL of a host: it has no path, and no user",
        { expected: "an http:// or https:// URL", toJsonSchema: () => ({ pattern: "^[Hh][Tt][Tt][Pp][Ss]?://" }) },
      ),
    ),
  ),
  profile: optional("A profile of the AWS config files, such as `~/.aws/config`"),
  credentials: Schema.optionalKey(
    Schema.Struct({
      accessKeyId: Schema.NonEmptyString.annotate({ description: "The access key" }),
      secretAccessKey: secret("Its secret"),
      sessionToken: Schema.optionalKey(secret("The token of temporary credentials")),
    }).annotate({ description: "An access key; without it, and without `profile`, AWS's usual places are looked at" }),
  ),
  role: Schema.optionalKey(
    Schema.Struct({
      arn: Schema.String.annotate({
        description: "The role",
        examples: ["arn:aws:iam::123456789012:role/relay"],
      }).check(
        Schema.isPattern(/^arn:aws[a-z-]*:iam::\d{12}:role\/\S+$/u, {
          message: 'this is no ARN of a role: write it as in "arn:aws:iam::123456789012:role/relay"',
        }),
      ),
      externalId: optional("What the role's owner asks for besides"),
    }).annotate({ description: "A role to assume with the credentials that are found" }),
  ),
  batch: Schema.Struct({ linger: Units.duration.or("20 millis", "How long a batch may wait to fill") })
    .annotate({ description: "How batches fill: ten events at most, and 256 KiB" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
}).check(
  Schema.makeFilter((config: { readonly profile?: string; readonly credentials?: unknown }) =>
    config.profile !== undefined && config.credentials !== undefined
      ? { path: ["profile"], issue: 'a "profile" and "credentials" exclude each other: take one out' }
      : undefined,
  ),
)
export type SnsConfig = typeof SnsConfig.Type

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
      throw new SnsTroubles.RoleRefused(role.arn, cause)
    })
})

const openClient = Effect.fnUntraced(function* (sdk: Sdk, config: SnsConfig) {
  const credentials = yield* credentialsOf(config)
  const options: SNSClientConfig = {
    region: config.region ?? config.topicArn.split(":")[3] ?? "",
    maxAttempts: 1,
    customUserAgent: [userAgent.split("/") as [string, string]],
    // How many requests are under way is for the lane to say.
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
  const place: SnsTroubles.Place = { topicArn, endpoint, profile }
  const fault = (reason: SinkError["reason"]) => new SinkError({ reason })

  /** One request, cut off when it is interrupted. */
  const ask = <A>(request: (client: SNSClient, abortSignal: AbortSignal) => Promise<A>): Effect.Effect<A, SinkError> =>
    Effect.tryPromise({
      try: (signal) => request(client, signal),
      catch: (error) => fault(SnsTroubles.reasonOf(SnsTroubles.ofThrown(error), place)),
    })

  /** What failed of a request that was answered, by index in the lane's batch. */
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
    if (Successful === undefined && Failed === undefined) return yield* fault(SnsTroubles.notSns(place))
    const passed = new Set(Successful?.map(({ Id }) => Id))
    const failures = new Map<number, SinkError>()
    for (const { index } of request) {
      const id = String(index)
      if (passed.has(id)) continue
      const failed = Failed?.find(({ Id }) => Id === id)
      failures.set(index, fault(failed ? SnsTroubles.reasonOfEntry(failed, place) : SnsTroubles.unnamed(place)))
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
            : Result.fail(fault(SnsTroubles.tooLarge(place, one.size, SnsMessage.largest))),
      )
      if (Result.isFailure(message)) failures.set(index, message.failure)
      return Result.isFailure(message) ? [] : [message.success]
    })
    let most = SnsMessage.most
    while (waiting.length > 0) {
      const request = SnsMessage.next(waiting, most)
      const answer = yield* Effect.result(publish(request))
      if (answer._tag === "Failure" && isFinal(answer.failure) && request.length > 1) {
        // Refused for what one of them may be to blame for: from here on each goes alone.
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
    if (Attributes === undefined) return yield* fault(SnsTroubles.notSns(place))
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

/** A rejection is the event's own end: what comes after it may go. */
const isFinal = ({ reason }: SinkError): boolean => reason._tag === "DeliveryRejected"

/** Why a message must wait: one of its group went before it and is to be tried again. */
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

/** Bytes of the attributes of an event, at a guess. */
const overhead = 1_024

export const Sns: SinkType<SnsConfig> = {
  type: "sns",
  config: SnsConfig,
  concurrency: 8,
  open: (_, config) => make(config),
  preview: (config, batch) =>
    batch.map(encoder(config)).map(({ text, attributes, fifo }) => ({
      topicArn: config.topicArn,
      ...(fifo && { messageGroupId: fifo.group, messageDeduplicationId: fifo.deduplication }),
      attributes,
      message: Shown.show(Buffer.from(text)),
    })),
}
