import { beforeAll, describe, expect, test } from "bun:test"
import { Effect, Fiber, Schema } from "effect"
import type { Entry } from "../../../src/event/Event.ts"
import { largest, SnsConfig } from "../../../src/sinks/sns/Sns.ts"
import { it } from "../../lib/effect.ts"
import { makeTopic } from "../../parts/Queues.ts"
import {
  type AwsContract,
  awsContract,
  canary,
  fifoContract,
  messagesContract,
  page,
  reasons,
} from "../aws/awsContract.ts"
import type { Fate } from "../aws/awsServer.ts"
import { bytes, entries, entry, reasonOf } from "../samples.ts"
import { startThere } from "../thereSink.ts"
import { type Behaviour, errorXml, snsServer } from "./snsServer.ts"
import { credentials, openSns, topicArn, withMoto } from "./snsSink.ts"

const idOf = ({ attributes }: { readonly attributes: Readonly<Record<string, string>> }) => attributes.event_id ?? ""
const ids = (all: ReadonlyArray<{ readonly attributes: Readonly<Record<string, string>> }>) => all.map(idOf)

/** An event with a body of `size` bytes. */
const sized = (sequence: number, size: number): Entry =>
  entry(sequence, { body: bytes("x".repeat(size)), type: "", signature: "" })

const started = Effect.fnUntraced(function* (behaviour: Behaviour, more: Record<string, unknown> = {}) {
  const server = yield* snsServer(behaviour)
  const sink = yield* openSns(() => ({ endpoint: server.url, ...more }))
  return { server, sink }
})

const fifo = { topicArn: `${topicArn}.fifo` }

beforeAll(startThere, 120_000)

/** Opens a sink to the server, which fails as the contract says. */
const start =
  (more: Record<string, unknown> = {}): AwsContract["start"] =>
  ({ refuse = {}, fate } = {}) =>
    Effect.map(started({ refuse: (message) => refuse[idOf(message)], fate: () => fate }, more), ({ server, sink }) => ({
      sink,
      url: server.url,
      requests: () => server.requests.map(ids),
      sizes: () => server.requests.map((request) => request.reduce((sum, { size }) => sum + size, 0)),
      passed: () => ids(server.passed()),
    }))

const error = (status: number, code: string, message = canary): Fate => ({ status, body: errorXml(code, message) })
const denied = "User: arn:aws:iam::1:user/x is not authorized to perform: SNS:Publish on resource: arn:aws:sns"

awsContract({
  service: "SNS",
  start: start(),
  largest,
  sized,
  sizes: [100_000, 150_000, 12_000, 250_000, 262_000, 10, 131_000, 131_000, 1, 261_000],
  refused: {
    codes: {
      evt_2: ["InvalidParameter", true],
      evt_3: ["InternalError", false],
      evt_5: ["Throttled", true],
      evt_6: ["KMSAccessDenied", true],
      evt_7: ["AuthorizationError", true],
      evt_8: ["not a code: canary", true],
    },
    reasons: {
      1: "DeliveryRejected",
      2: "DeliveryFailed",
      4: "SinkThrottled",
      5: "SinkMisconfigured",
      6: "SinkMisconfigured",
      7: "DeliveryRejected",
    },
    says: { 5: "kms:GenerateDataKey" },
  },
  checks: true,
  target: (url) => `SNS topic ${topicArn} at ${url}`,
  answers: [
    ["that asks to slow down", error(400, "Throttling"), "SinkThrottled", /slow down \(Throttling\)/],
    ["that throttles with 429", error(429, "ThrottledException"), "SinkThrottled", /slow down \(Throttled\)/],
    ["of a key that is throttled", error(400, "KMSThrottling"), "SinkThrottled", /slow down/],
    [
      "503 in plain text",
      { status: 503, body: "Service Unavailable" },
      "SinkUnavailable",
      /can't take events now \(503\)/,
    ],
    ["503 that says when", { status: 503, headers: { "retry-after": "7" } }, "SinkThrottled", /slow down \(503\)/],
    ["500", error(500, "InternalFailure"), "SinkUnavailable", /\(500, InternalFailure\)/],
    ["that the topic is not there", error(404, "NotFound"), "SinkMisconfigured", /no such topic.*"topicArn"/],
    [
      "of another region",
      error(400, "InvalidParameter", "Invalid parameter: TopicArn"),
      "SinkMisconfigured",
      /"region"/,
    ],
    [
      "that the relay may not",
      error(403, "AuthorizationError", denied),
      "SinkMisconfigured",
      /lack sns:Publish: grant/,
    ],
    [
      "that it may not, without saying what",
      error(403, "AccessDenied"),
      "SinkMisconfigured",
      /sns:Publish and sns:Get/,
    ],
    ["that the key is unknown", error(403, "InvalidClientTokenId"), "SinkMisconfigured", /access key.*credentials/],
    ["that the signature is wrong", error(403, "SignatureDoesNotMatch"), "SinkMisconfigured", /secret .* or .* clock/],
    ["that the token has expired", error(403, "ExpiredToken"), "SinkMisconfigured", /expired: renew/],
    ["that the topic's key is gone", error(400, "KMSNotFound"), "SinkMisconfigured", /give the topic another/],
    [
      "that the message is too long",
      error(400, "InvalidParameter", "Message too long"),
      "DeliveryRejected",
      /too large/,
    ],
    ["that the message is bad", error(400, "InvalidParameter"), "DeliveryRejected", /refused .*400, InvalidParameter/],
    [
      "whose code is unknown",
      error(400, "RegionDisabled", "The region is off"),
      "SinkMisconfigured",
      /refuses .*400, RegionDisabled\); it says "The region is off"$/,
    ],
    ["that took too long", error(500, "InternalFailure", "took too long"), "SinkUnavailable", /can't take events now/],
    ["413", { status: 413 }, "DeliveryRejected", /too large \(413\)/],
    ["of something else, 404", { status: 404, body: page }, "SinkMisconfigured", /not SNS.*"endpoint"/],
    ["of something else, 200", { status: 200, body: page }, "SinkMisconfigured", /not SNS.*"endpoint"/],
    ["of something else, empty", { status: 200 }, "SinkMisconfigured", /not SNS/],
    ["of something else, JSON", { status: 200, body: "{}" }, "SinkMisconfigured", /not SNS/],
    [
      "that leads elsewhere",
      { status: 301, headers: { location: "http://127.0.0.1:1/" } },
      "SinkMisconfigured",
      /not SNS/,
    ],
    ["that never comes: reset", "reset", "SinkUnavailable", /closed before an answer/],
  ],
  config: SnsConfig,
  valid: { topicArn },
  wrong: [
    [{ topicArn: "events" }, "this is not an ARN of a topic"],
    [{ topicArn: "arn:aws:sqs:eu-west-1:123456789012:events" }, "this is not an ARN of a topic"],
    [{ endpoint: "127.0.0.1:4566" }, "this is not an http:// or https:// URL"],
    [{ endpoint: "http://user:password@127.0.0.1" }, "this is not an http:// or https:// URL"],
    [{ role: { arn: "relay" } }, "this is not an ARN of a role"],
    [{ profile: "one", credentials }, 'a "profile" and "credentials" exclude each other'],
  ],
})

fifoContract("SNS", start(fifo))

describe("an SNS request", () => {
  it.live("leaves out an event that is too large because of its attributes, and reports the excess", function* () {
    const { server, sink } = yield* started({})
    const failures = yield* sink.send([sized(1, largest), sized(2, 10)])
    expect(reasons(failures)).toEqual({ 0: "DeliveryRejected" })
    expect(failures.get(0)?.message).toMatch(/event of 262\d{3} bytes with all that goes along .* 262144 .* maxBody/)
    expect(ids(server.passed())).toEqual(["evt_2"])
  })

  it.live("that is refused because of one possible message is sent again, each message alone", function* () {
    const fate = (request: ReadonlyArray<{ readonly text: string }>): Fate | undefined =>
      request.some(({ text }) => text === "bad") ? { status: 400, body: errorXml("InvalidParameter") } : undefined
    const { server, sink } = yield* started({ fate })
    const batch = [...entries(3), entry(4, { body: bytes("bad") }), ...entries(3, 5)]
    expect(reasons(yield* sink.send(batch))).toEqual({ 3: "DeliveryRejected" })
    expect(ids(server.passed())).toEqual(["evt_1", "evt_2", "evt_3", "evt_5", "evt_6", "evt_7"])
  })

  it.live("is cut off when it is interrupted, and the next one passes", function* () {
    const { server, sink } = yield* started({ fate: (_, count) => (count === 1 ? "silence" : undefined) })
    const sending = yield* Effect.forkChild(sink.send([entry(1)]), { startImmediately: true })
    yield* server.asked(1)
    expect(server.sockets.size).toBe(1)
    yield* Fiber.interrupt(sending)
    expect((yield* sink.send([entry(2)])).size).toBe(0)
    expect(ids(server.passed())).toEqual(["evt_2"])
    while (server.sockets.size > 1) yield* Effect.sleep("5 millis")
  })

  it.live("that fails keeps earlier messages settled, and nothing is sent after it", function* () {
    const { server, sink } = yield* started({ fate: (_, count) => (count === 2 ? { status: 503 } : undefined) })
    const failures = yield* sink.send([sized(1, 200_000), sized(2, 200_000), sized(3, 200_000)])
    expect(reasons(failures)).toEqual({ 1: "SinkUnavailable", 2: "SinkUnavailable" })
    expect(ids(server.passed())).toEqual(["evt_1"])
  })

  it.live("reuses a connection, which is closed with the sink", function* () {
    const server = yield* snsServer()
    yield* Effect.scoped(
      Effect.gen(function* () {
        const sink = yield* openSns(() => ({ endpoint: server.url }))
        for (const one of entries(5)) yield* sink.send([one])
        expect(server.connections()).toBe(1)
      }),
    )
    while (server.sockets.size > 0) yield* Effect.sleep("5 millis")
  })
})

describe("on a FIFO topic", () => {
  const two = (sequence: number) => entry(sequence, { accountId: `acct_${sequence % 2}` })

  it.live("a rejected message doesn't stop the messages of its key", function* () {
    const refuse = (message: { readonly attributes: Readonly<Record<string, string>> }) =>
      idOf(message) === "evt_1" ? (["InvalidParameter", true] as const) : undefined
    const { server, sink } = yield* started({ refuse }, fifo)
    expect(reasons(yield* sink.send([1, 3, 5].map(two)))).toEqual({ 0: "DeliveryRejected" })
    expect(ids(server.passed())).toEqual(["evt_3", "evt_5"])
  })

  it.live("messages of different keys share a request, and messages of one key don't", function* () {
    const { server, sink } = yield* started({}, fifo)
    yield* sink.send([1, 2, 3, 4].map(two))
    expect(server.requests.map(ids)).toEqual([
      ["evt_1", "evt_2"],
      ["evt_3", "evt_4"],
    ])
  })
})

describe("a throttled request to SNS", () => {
  it.live("waits for the time in the answer, or a second", function* () {
    const said = yield* started({ fate: () => ({ status: 503, headers: { "retry-after": "7" } }) })
    const silent = yield* started({ fate: () => error(400, "Throttling") })
    for (const [{ sink }, retryAfter] of [
      [said, 7_000],
      [silent, 1_000],
    ] as const) {
      expect((yield* sink.send([entry(1)])).get(0)?.reason).toMatchObject({ retryAfter })
    }
  })
})

describe("the SNS sink", () => {
  it.live("warns if the relay accepts larger events than SNS", function* () {
    const sink = yield* openSns(() => ({}))
    const advise = (maxBody: number) => sink.advise?.({ maxBody }) ?? Effect.succeed([])
    expect(yield* advise(200_000)).toEqual([])
    expect(yield* advise(1_048_576)).toEqual([expect.stringMatching(/262144 bytes at most.* 1048576.*maxBody/)])
  })

  test("never shows its secrets when it is printed", () => {
    const secrets = { ...credentials, sessionToken: "canary-token" }
    const config = Schema.decodeUnknownSync(SnsConfig)({ topicArn, credentials: secrets })
    expect(`${JSON.stringify(config)}${Bun.inspect(config)}`).not.toContain("canary")
  })
})

withMoto("the SNS sink against moto", (moto) => {
  messagesContract(
    Effect.fnUntraced(function* (fifo, config = {}) {
      const { arn, received } = yield* Effect.promise(() => makeTopic(moto().url, { fifo }))
      return { received, sink: yield* openSns(() => ({ endpoint: moto().url, topicArn: arn, ...config })) }
    }),
  )

  it.live("sends attributes that a filter policy reads", function* () {
    const filter = { resource: ["client"], type: [{ prefix: "client." }] }
    const { arn, received } = yield* Effect.promise(() => makeTopic(moto().url, { filter }))
    const sink = yield* openSns(() => ({ endpoint: moto().url, topicArn: arn }))
    const batch = [entry(1), entry(2, { type: "client.updated" }), entry(3)]
    expect((yield* sink.send(batch)).size).toBe(0)
    expect(ids(yield* received(1))).toEqual(["evt_2"])
  })

  it.live("is reached by a check, which needs the topic", function* () {
    const { arn } = yield* Effect.promise(() => makeTopic(moto().url))
    yield* (yield* openSns(() => ({ endpoint: moto().url, topicArn: arn }))).check
    const nowhere = yield* openSns(() => ({ endpoint: moto().url, topicArn: `${arn}-nowhere` }))
    expect(yield* reasonOf(nowhere.check)).toMatchObject({ _tag: "SinkMisconfigured" })
  })
})
