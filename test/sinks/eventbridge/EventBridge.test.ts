import { beforeAll, describe, expect, test } from "bun:test"
import { HTTP } from "cloudevents"
import { Effect, Schema } from "effect"
import { TestClock } from "effect/testing"
import type { Entry } from "../../../src/event/Event.ts"
import { EventBridge, EventBridgeConfig, largest } from "../../../src/sinks/eventbridge/EventBridge.ts"
import { it } from "../../lib/effect.ts"
import { hour, settable } from "../../lib/wallClock.ts"
import { makeBus } from "../../parts/Queues.ts"
import { type AwsContract, awsContract, canary, page, reasons } from "../aws/awsContract.ts"
import { awsServer, type Behaviour, errorJson, eventSize, type Fate, type Sent } from "../aws/awsServer.ts"
import { bytes, entries, entry, envelope, reasonOf } from "../samples.ts"
import { startThere } from "../thereSink.ts"
import { bytesOf, credentials, eventBusArn, openEventBridge, withMoto } from "./eventBridgeSink.ts"

const detailOf = ({ Detail }: Sent) => JSON.parse(String(Detail))
const idOf = (sent: Sent): string => detailOf(sent).id ?? detailOf(sent).event_id
const ids = (all: ReadonlyArray<Sent>) => all.map(idOf)

/** An event whose envelope has `size` bytes. */
const sized = (sequence: number, size: number): Entry => {
  const bare = JSON.stringify(envelope(sequence, { filling: "" }))
  return entry(sequence, {
    body: bytes(JSON.stringify(envelope(sequence, { filling: "x".repeat(size - bare.length) }))),
  })
}

const started = Effect.fnUntraced(function* (behaviour: Behaviour = {}, more: Record<string, unknown> = {}) {
  const server = yield* awsServer(behaviour)
  const sink = yield* openEventBridge(() => ({ endpoint: server.url, ...more }))
  return { server, sink }
})

beforeAll(startThere, 120_000)

/** Opens a sink to the server, which has the bus and fails as the contract says. */
const start: AwsContract["start"] = ({ refuse = {}, fate } = {}) =>
  Effect.map(
    started({
      refuse: (one) => refuse[idOf(one)],
      fate: (action) => (action === "PutEvents" ? fate : undefined),
    }),
    ({ server, sink }) => ({
      sink,
      url: server.url,
      requests: () => server.requests.map(ids),
      sizes: () => server.requests.map((request) => request.reduce((sum, one) => sum + eventSize(one), 0)),
      passed: () => ids(server.passed()),
    }),
  )

const error = (status: number, code: string, message = canary): Fate => ({ status, body: errorJson(code, message) })
const denied = "User: arn:aws:iam::1:user/x is not authorized to perform: events:PutEvents on resource: arn"

awsContract({
  service: "EventBridge",
  start,
  largest,
  sized,
  sizes: [400_000, 600_000, 48_000, 1_000_000, 1_048_000, 200, 524_000, 524_000, 200],
  refused: {
    codes: {
      evt_2: ["MalformedDetail"],
      evt_3: ["InternalFailure"],
      evt_5: ["ThrottlingException"],
      evt_6: ["AccessDeniedException"],
      evt_7: ["NotAuthorizedForSourceException"],
      evt_8: ["NotAuthorizedForDetailTypeException"],
      evt_9: ["not a code: canary"],
    },
    reasons: {
      1: "DeliveryRejected",
      2: "DeliveryFailed",
      4: "SinkThrottled",
      5: "SinkMisconfigured",
      6: "SinkMisconfigured",
      7: "DeliveryRejected",
      8: "DeliveryFailed",
    },
    says: {
      5: "grant events:PutEvents and events:DescribeEventBus on the bus",
      6: 'correct "source"',
    },
  },
  checks: false,
  keepsConnection: true,
  target: (url) => `EventBridge bus ${eventBusArn} at ${url}`,
  answers: [
    ["that throttles", error(400, "ThrottlingException"), "SinkThrottled", /slow down \(Throttling\)/],
    ["503", { status: 503, body: "Service Unavailable" }, "SinkUnavailable", /can't take events now \(503\)/],
    ["500", error(500, "InternalException"), "SinkUnavailable", /\(500, Internal\)/],
    ["that the bus is not there", error(400, "ResourceNotFoundException"), "SinkMisconfigured", /no such event bus/],
    [
      "that the relay may not",
      error(400, "AccessDeniedException", denied),
      "SinkMisconfigured",
      /lack events:PutEvents/,
    ],
    ["that the key is unknown", error(400, "UnrecognizedClientException"), "SinkMisconfigured", /access key/],
    ["that the detail is bad", error(400, "MalformedDetail"), "DeliveryRejected", /refused .*MalformedDetail/],
    ["of something else, 404", { status: 404, body: page }, "SinkMisconfigured", /not EventBridge.*"endpoint"/],
    ["of something else, JSON", { status: 200, body: "{}" }, "SinkMisconfigured", /not EventBridge/],
    ["that never comes: reset", "reset", "SinkUnavailable", /closed before an answer/],
  ],
  config: EventBridgeConfig,
  valid: { eventBusArn },
  wrong: [
    [{ eventBusArn: "default" }, "this is not an ARN of an event bus"],
    [{ eventBusArn: "arn:aws:events:eu-west-1:123456789012:rule/x" }, "this is not an ARN of an event bus"],
    [{ source: "aws.relay" }, "this is not a source"],
    [{ source: "{{webhook}}" }, "this is not a source"],
    [{ endpoint: "127.0.0.1:4566" }, "this is not an http:// or https:// URL"],
    [{ profile: "one", credentials }, 'a "profile" and "credentials" exclude each other'],
  ],
})

describe("a request of PutEvents", () => {
  it.live("accepts an event of the largest size, and reports the excess of an event with one byte more", function* () {
    const { server, sink } = yield* started()
    const around = 14 + "relay".length + "appointment.created".length
    const failures = yield* sink.send([sized(1, largest - around), sized(2, largest - around + 1)])
    expect(reasons(failures)).toEqual({ 1: "DeliveryRejected" })
    expect(failures.get(1)?.message).toMatch(/event of 1048576 bytes .* 1048575 that EventBridge takes/)
    expect(ids(server.passed())).toEqual(["evt_1"])
  })

  it.live("that is refused because of one possible entry is sent again, each entry alone", function* () {
    const fate: Behaviour["fate"] = (_, __, sent) =>
      sent.some((one) => idOf(one) === "evt_2")
        ? { status: 400, body: errorJson("ValidationException", "Total size is over the limit.") }
        : undefined
    const { server, sink } = yield* started({ fate })
    expect(reasons(yield* sink.send(entries(3)))).toEqual({ 1: "DeliveryRejected" })
    expect(ids(server.passed())).toEqual(["evt_1", "evt_3"])
  })

  it.live("is sent only while the bus exists, which is checked once a minute", function* () {
    const { server, sink } = yield* started()
    for (const one of entries(3)) expect((yield* sink.send([one])).size).toBe(0)
    expect(server.actions).toEqual(["DescribeEventBus", "PutEvents", "PutEvents", "PutEvents"])
  })

  it.effect("is not made to a bus that was deleted, which would drop it", function* () {
    let isGone = false
    const server = yield* awsServer({
      fate: (action) =>
        isGone && action === "DescribeEventBus"
          ? { status: 400, body: errorJson("ResourceNotFoundException") }
          : undefined,
    })
    const config = Schema.decodeUnknownSync(EventBridgeConfig)({ eventBusArn, credentials, endpoint: server.url })
    const sink = yield* EventBridge.open(config)
    yield* sink.send(entries(1))
    isGone = true
    yield* TestClock.adjust("1 minute")
    expect(yield* reasonOf(sink.send(entries(1)))).toMatchObject({
      _tag: "SinkMisconfigured",
      message: expect.stringContaining('no such event bus: make it, or correct "eventBusArn"'),
    })
    expect(server.requests).toHaveLength(1)
  })

  it.effect("checks the bus again after a minute, whatever the wall clock says", function* () {
    const { wall, withWall } = yield* settable
    yield* Effect.gen(function* () {
      const server = yield* awsServer()
      const config = Schema.decodeUnknownSync(EventBridgeConfig)({ eventBusArn, credentials, endpoint: server.url })
      const looks = () => server.actions.filter((action) => action === "DescribeEventBus").length
      const sink = yield* EventBridge.open(config)
      yield* sink.send(entries(1))
      wall.ahead = hour
      yield* sink.send(entries(1))
      expect(looks()).toBe(1)
      wall.ahead = -60_000
      yield* TestClock.adjust("1 minute")
      yield* sink.send(entries(1))
      expect(looks()).toBe(2)
    }).pipe(withWall)
  })

  it.live("is made also if the relay may not check the bus, and advice explains that", function* () {
    const { server, sink } = yield* started({
      fate: (action) =>
        action === "DescribeEventBus" ? { status: 400, body: errorJson("AccessDeniedException") } : undefined,
    })
    yield* sink.check
    expect((yield* sink.send(entries(1))).size).toBe(0)
    expect(ids(server.passed())).toEqual(["evt_1"])
    expect(yield* sink.advise?.({ maxBody: 200_000 }) ?? Effect.succeed([])).toEqual([
      expect.stringMatching(/can't see whether the bus .* grant events:DescribeEventBus/),
    ])
  })
})

describe("a check of EventBridge", () => {
  it.live("fails like a request, for a wrong answer or for none", function* () {
    for (const [fate, reason] of [
      [{ status: 200, body: "{}" }, "SinkMisconfigured"],
      ["reset", "SinkUnavailable"],
      [error(400, "ResourceNotFoundException"), "SinkMisconfigured"],
    ] as const) {
      const { sink } = yield* started({ fate: () => fate })
      expect((yield* reasonOf(sink.check))?._tag).toBe(reason)
    }
  })
})

describe("an event on the bus", () => {
  const trace = { traceparent: `00-${"a".repeat(8)}${"b".repeat(24)}-${"c".repeat(16)}-01`, tracestate: "x=1" }
  const preview = (one: Entry, more: Record<string, unknown> = {}) =>
    EventBridge.preview(Schema.decodeUnknownSync(EventBridgeConfig)({ eventBusArn, ...more }), [one])[0] ?? {}

  it.live("has source, detail type, resources and time, and X-Ray's header if it has a trace", function* () {
    const more = {
      source: "com.example.scheduling",
      detailType: "{{resource}} {{type}}",
      resources: ["account/{{account_id}}", "{{/data/object/none}}"],
    }
    const { server, sink } = yield* started({}, more)
    yield* sink.send([entry(1, { trace }), entry(2)])
    const [first, second] = server.passed()
    expect(first).toEqual({
      EventBusName: eventBusArn,
      Source: "com.example.scheduling",
      DetailType: "appointment appointment.created",
      Resources: ["account/acct_1"],
      Time: Date.UTC(2026, 10, 21, 8) / 1_000,
      TraceHeader: `Root=1-aaaaaaaa-${"b".repeat(24)};Parent=${"c".repeat(16)};Sampled=1`,
      Detail: Buffer.from(entry(1).event.body).toString(),
    })
    expect(second).not.toHaveProperty("TraceHeader")
  })

  test("always has a detail type, of 128 characters at most and without control characters", () => {
    expect(preview(entry(1, { type: "" }))).toMatchObject({ detailType: "relay.undecodable" })
    expect(preview(entry(1, { type: "x".repeat(200) }))).toMatchObject({ detailType: "x".repeat(128) })
    expect(preview(entry(1, { type: "a\r\nb" }))).toMatchObject({ detailType: "a  b" })
  })

  test("encodes a body that isn't an envelope, and also an envelope that looks like the encoding", () => {
    expect(preview(entry(1, { type: "", body: Uint8Array.of(255, 0) }))).toMatchObject({
      detail: { relay_base64: "/wA=", event_id: "evt_1" },
    })
    const body = bytes('{"relay_base64":"AAAA","event_id":"evt_1"}')
    const { detail } = preview(entry(1, { body })) as { detail: object }
    expect(Buffer.from(bytesOf(detail))).toEqual(Buffer.from(body))
  })

  test("is a CloudEvent that the official SDK reads, with the trace in it", () => {
    const { detail } = preview(entry(7, { trace }), { format: "cloudevents" }) as { detail: object }
    const headers = { "content-type": "application/cloudevents+json" }
    expect(HTTP.toEvent({ headers, body: detail })).toMatchObject({ id: "evt_7", data: envelope(7), ...trace })
  })
})

withMoto("the EventBridge sink against moto", (moto) => {
  it.live("matches rules by source, detail type and a field of the envelope", function* () {
    const pattern = { source: ["relay"], "detail-type": [{ prefix: "client." }], detail: { account_id: ["acct_1"] } }
    const { arn, received } = yield* Effect.promise(() => makeBus(moto().url, { pattern }))
    const sink = yield* openEventBridge(() => ({ endpoint: moto().url, eventBusArn: arn }))
    const batch = [entry(1), entry(2, { type: "client.updated" }), entry(3)]
    expect((yield* sink.send(batch)).size).toBe(0)
    const [one, ...more] = yield* received(1)
    expect(JSON.parse(one?.body ?? "")).toMatchObject({ "detail-type": "client.updated", detail: envelope(2) })
    expect(more).toEqual([])
  })
})
