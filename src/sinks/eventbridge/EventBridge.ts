/**
 * The EventBridge sink: PutEvents, up to ten events in a request, each with its own
 * outcome.
 *
 * **Guarantee.** An event counts as sent if the answer has an id for it. If the relay
 * may check the bus, the bus also existed within the last minute.
 *
 * **Gotcha.** EventBridge accepts events for a bus that does not exist and drops
 * them ("Sending events with PutEvents" in its guide), so the sink checks that the
 * bus exists. EventBridge keeps no order and drops no duplicates.
 */
import { Effect, Schema, type Scope } from "effect"
import { body, bodyProblem, oneOf, orExpression, Shape, textOrShapeOr } from "../../config/schema/Keys.ts"
import type { Entry } from "../../event/Event.ts"
import * as Monotonic from "../../event/Monotonic.ts"
import { spanOf, traceHeaders } from "../../event/TraceContext.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import { displayBytes, rawObject } from "../../formats/Rendering.ts"
import * as Template from "../../formats/Template.ts"
import type { Sized } from "../aws/AwsBatch.ts"
import * as AwsBatch from "../aws/AwsBatch.ts"
import * as AwsClient from "../aws/AwsClient.ts"
import * as AwsConfig from "../aws/AwsConfig.ts"
import * as AwsErrors from "../aws/AwsErrors.ts"
import * as MessageKeys from "../MessageKeys.ts"
import { allSent, type Limits, type Sink, type SinkError, type SinkType } from "../Sink.ts"

// The config of an EventBridge sink.

export const EventBridgeConfig = Schema.Struct({
  eventBusArn: Schema.String.annotate({
    description: "The event bus",
    examples: ["arn:aws:events:eu-west-1:123456789012:event-bus/default"],
    target: "place",
    shown: true,
  }).check(
    Schema.isPattern(/^arn:aws[a-z-]*:events:[a-z0-9-]+:\d{12}:event-bus\/[/._A-Za-z0-9-]{1,256}$/u, {
      message:
        'this is not an ARN of an event bus: write it as in "arn:aws:events:eu-west-1:123456789012:event-bus/default"',
    }),
  ),
  source: Schema.String.annotate({
    description: "The source of every event, for rules to match",
    default: "relay",
    examples: ["com.example.scheduling"],
    shown: true,
  })
    .check(
      Schema.isPattern(/^(?!aws\.)[^\s{}]{1,256}$/u, {
        message:
          'this is not a source: it has no spaces and no placeholders, and "aws." is what AWS begins its own with',
      }),
    )
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("relay"))),
  detailType: textOrShapeOr("A template: the detail type, cut to 128 characters", "{{type}}"),
  resources: Schema.Array(Schema.Union([Schema.String.annotate({ shown: true }), Shape]).annotate(orExpression))
    .annotate({
      description: "Templates or expressions of the resources that an event concerns; empty ones are left out",
      default: [],
      examples: [["account/{{account_id}}"]],
    })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed([]))),
  format: oneOf(
    "Content of the detail. `raw`: the envelope. `cloudevents`: one JSON document, CloudEvents 1.0. `template`: `body`, filled in",
    ["raw", "cloudevents", "template"],
    "raw",
  ),
  body,
  endpoint: AwsConfig.endpoint("EventBridge"),
  ...AwsConfig.identityKeys,
  batch: AwsConfig.batchOf("1 MiB"),
}).check(Schema.makeFilter(bodyProblem), Schema.makeFilter(MessageKeys.objectProblem), AwsConfig.oneIdentity)
export type EventBridgeConfig = typeof EventBridgeConfig.Type

// An event as an entry of PutEvents.
//
// **Guarantee.** The detail is always a JSON object: the envelope as the sender wrote it, or an
// object that encodes the bytes if they aren't an envelope.

interface BusEvent extends Sized {
  readonly source: string
  readonly detailType: string
  readonly resources: ReadonlyArray<string>
  /** RFC 3339. */
  readonly time: string
  /** X-Ray's trace header. Absent if the event has no trace. */
  readonly traceHeader?: string
  readonly detail: string
}

const longestDetailType = 128
/** The bytes that EventBridge counts for the time. */
const timeSize = 14

/** Makes X-Ray's header for a W3C trace. In X-Ray the first 8 digits of an id are a time. */
const traceHeaderOf = (traceparent: string): string | undefined => {
  const span = spanOf(traceparent)
  if (span === undefined) return undefined
  const { traceId, spanId, sampled } = span
  return `Root=1-${traceId.slice(0, 8)}-${traceId.slice(8)};Parent=${spanId};Sampled=${sampled ? 1 : 0}`
}

type Shaping = Pick<EventBridgeConfig, "source" | "detailType" | "resources" | "format" | "body">

const detailMaker = ({ format, body }: Shaping): ((entry: Entry) => string) => {
  switch (format) {
    case "raw":
      return ({ event }) => rawObject(event)
    case "cloudevents":
      return (entry) => CloudEvents.structured(entry, Object.fromEntries(traceHeaders(entry.event)))
    default:
      return MessageKeys.objectOf(body)
  }
}

const encoder = (config: Shaping): ((entry: Entry, index: number) => BusEvent) => {
  const { source } = config
  const type = Template.compile(config.detailType, "text", "detailType")
  const templates = config.resources.map((resource) => Template.compile(resource, "text", "resources"))
  const detailOf = detailMaker(config)
  return (entry, index) => {
    const { event } = entry
    const typed = CloudEvents.clean(type.render(entry)) || CloudEvents.untyped
    const detailType = typed.slice(0, longestDetailType).toWellFormed()
    const resources = templates.map((one) => CloudEvents.clean(one.render(entry))).filter((one) => one !== "")
    const detail = detailOf(entry)
    const traceHeader = event.trace && traceHeaderOf(event.trace.traceparent)
    const counted = [source, detailType, detail, ...resources]
    return {
      index,
      size: counted.reduce((bytes, text) => bytes + Buffer.byteLength(text), timeSize),
      source,
      detailType,
      resources,
      time: CloudEvents.time(entry),
      ...(traceHeader !== undefined && { traceHeader }),
      detail,
    }
  }
}

/** The largest event, and the largest request, in bytes: less than 1 MiB. */
export const largest = 1024 * 1024 - 1

/** Milliseconds during which a bus that was found counts as present. */
const fresh = 60_000

const service: AwsErrors.Service = {
  name: "EventBridge",
  thing: "bus",
  endpointKey: "endpoint",
  rights: "events:PutEvents and events:DescribeEventBus on the bus",
  advice: {
    ResourceNotFound: 'there is no such event bus: make it, or correct "eventBusArn"',
    InvalidAccountId: 'AWS knows no such account: correct "eventBusArn"',
    NotAuthorizedForSource: 'the relay may not send events of this source to the bus: correct "source", or its policy',
  },
  messages: ["InvalidArgument", "MalformedDetail", "RedactionFailure", "NotAuthorizedForDetailType"],
}

const make = Effect.fnUntraced(function* (config: EventBridgeConfig): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const { EventBridgeClient, PutEventsCommand, DescribeEventBusCommand } = yield* Effect.promise(
    () => import("@aws-sdk/client-eventbridge"),
  )
  const { eventBusArn, endpoint = "", profile = "" } = config
  const place: AwsErrors.Place = { service, name: eventBusArn, endpoint, profile }
  const region = eventBusArn.split(":")[3] ?? ""
  const ask = yield* AwsClient.open((options) => new EventBridgeClient(options), { ...config, region }, place)
  const notEventBridge = AwsErrors.notTheService(place)

  const publish = Effect.fnUntraced(function* (request: ReadonlyArray<BusEvent>) {
    const { Entries } = yield* ask((client, options) =>
      client.send(
        new PutEventsCommand({
          Entries: request.map(({ source, detailType, resources, time, traceHeader, detail }) => ({
            EventBusName: eventBusArn,
            Source: source,
            DetailType: detailType,
            Resources: [...resources],
            Time: new Date(time),
            ...(traceHeader !== undefined && { TraceHeader: traceHeader }),
            Detail: detail,
          })),
        }),
        options,
      ),
    )
    if (Entries === undefined) return yield* notEventBridge
    // The entries of the answer are in the order of the request's.
    const failures = new Map<number, SinkError>()
    for (const [at, { index }] of request.entries()) {
      const { EventId, ErrorCode, ErrorMessage } = Entries[at] ?? {}
      if (EventId !== undefined && ErrorCode === undefined) continue
      const error =
        ErrorCode === undefined
          ? AwsErrors.unnamed(place)
          : AwsErrors.entryErrorOf({ code: ErrorCode, detail: ErrorMessage }, place)
      failures.set(index, error)
    }
    return failures
  })

  /** Returns true if the bus exists, and false if the relay may not check that. Fails if the bus doesn't exist. */
  const look = Effect.gen(function* () {
    const answer = yield* ask((client, options) =>
      client.send(new DescribeEventBusCommand({ Name: eventBusArn }), options).catch((error: unknown) => {
        // A user with the right to send may lack the right to check, for example for a bus of another account.
        if (AwsErrors.isDenied(error)) return "denied"
        throw error
      }),
    )
    if (answer === "denied") return false
    if (typeof answer === "string" || answer.Name === undefined) return yield* notEventBridge
    return true
  })

  let lookedAt = Number.NEGATIVE_INFINITY
  const present = Effect.gen(function* () {
    const now = yield* Monotonic.now
    if (now - lookedAt < fresh) return
    yield* look
    lookedAt = now
  })

  const encode = encoder(config)
  const send = (batch: ReadonlyArray<Entry>) =>
    batch.length === 0
      ? Effect.succeed(allSent)
      : Effect.andThen(present, AwsBatch.send(batch, { place, format: config.format, largest, encode, publish }))

  const advise = ({ maxBody }: Limits) =>
    Effect.map(look, (isKnown) => [
      ...(isKnown
        ? []
        : [
            `the relay can't see whether the bus ${eventBusArn} is there, and EventBridge drops what is sent to one that is not: grant events:DescribeEventBus, where the bus is of the same account`,
          ]),
      ...AwsBatch.sizeAdvice("EventBridge", largest, maxBody),
    ])

  return {
    batch: AwsBatch.limits(largest, config.batch),
    send,
    check: Effect.asVoid(look),
    advise,
  }
})

export const EventBridge: SinkType<EventBridgeConfig> = {
  config: EventBridgeConfig,
  ...AwsClient.traits,
  open: make,
  preview: (config, batch) =>
    batch.map(encoder(config)).map(({ source, detailType, resources, time, traceHeader, detail }) => ({
      eventBusArn: config.eventBusArn,
      source,
      detailType,
      ...(resources.length > 0 && { resources }),
      time,
      ...(traceHeader !== undefined && { traceHeader }),
      detail: displayBytes(Buffer.from(detail)),
    })),
}
