/**
 * The EventBridge sink: PutEvents, up to ten events in a request, each with its
 * own outcome.
 *
 * **Guarantee.** An event counts as sent when the answer has an id for it, and
 * the bus was there within the last minute.
 *
 * **Gotcha.** EventBridge accepts events for a bus that does not exist and drops
 * them ("Sending events with PutEvents" in its guide), so the sink looks whether
 * it is there. It keeps no order and drops no repeats.
 */
import { Effect, type Scope } from "effect"
import type { Entry } from "../../event/Entry.ts"
import * as Monotonic from "../../event/Monotonic.ts"
import * as DisplayBytes from "../../formats/DisplayBytes.ts"
import * as AwsBatch from "../aws/AwsBatch.ts"
import * as AwsClient from "../aws/AwsClient.ts"
import * as AwsErrors from "../aws/AwsErrors.ts"
import { allSent, type Limits, type Sink, type SinkError, type SinkType } from "../Sink.ts"
import { type BusEvent, encoder } from "./BusEvent.ts"
import { EventBridgeConfig } from "./EventBridgeConfig.ts"

/** The largest event, and the largest request, in bytes: less than 1 MiB. */
export const largest = 1024 * 1024 - 1

/** For how long a bus that was there is taken to be there, in milliseconds. */
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

  /** Whether the bus is known to be there; fails when it is not. */
  const look = Effect.gen(function* () {
    const answer = yield* ask((client, options) =>
      client.send(new DescribeEventBusCommand({ Name: eventBusArn }), options).catch((error: unknown) => {
        // One that may send need not be allowed to look, as at a bus of another account.
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
      : Effect.andThen(present, AwsBatch.send(batch, { place, largest, encode, publish }))

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
      detail: DisplayBytes.show(Buffer.from(detail)),
    })),
}
