import { beforeAll, describe, expect, test } from "bun:test"
import { Effect } from "effect"
import type { Entry } from "../../../src/event/Event.ts"
import { largest, regionOf, SqsConfig } from "../../../src/sinks/sqs/Sqs.ts"
import { it } from "../../lib/effect.ts"
import { makeQueue } from "../../parts/Queues.ts"
import {
  type AwsContract,
  awsContract,
  canary,
  fifoContract,
  messagesContract,
  page,
  reasons,
} from "../aws/awsContract.ts"
import { awsServer, type Behaviour, errorJson, type Fate, type Sent, sqsSize } from "../aws/awsServer.ts"
import { bytes, entry } from "../samples.ts"
import { startThere } from "../thereSink.ts"
import { credentials, openSqs, queueUrl, withMoto } from "./sqsSink.ts"

const idOf = ({ MessageAttributes }: Sent): string =>
  (MessageAttributes as Record<string, { StringValue: string }>).event_id?.StringValue ?? ""
const ids = (all: ReadonlyArray<Sent>) => all.map(idOf)

/** An event with a body of `size` bytes. */
const sized = (sequence: number, size: number): Entry =>
  entry(sequence, { body: bytes("x".repeat(size)), type: "", signature: "" })

const started = Effect.fnUntraced(function* (behaviour: Behaviour = {}, name = "events") {
  const server = yield* awsServer(behaviour)
  const sink = yield* openSqs(() => ({ queueUrl: `${server.url}/123456789012/${name}` }))
  return { server, sink }
})

beforeAll(startThere, 120_000)

/** Opens a sink to a queue of the server, which fails as the contract says. */
const start =
  (name = "events"): AwsContract["start"] =>
  ({ refuse = {}, fate } = {}) =>
    Effect.map(started({ refuse: (one) => refuse[idOf(one)], fate: () => fate }, name), ({ server, sink }) => ({
      sink,
      url: server.url,
      requests: () => server.requests.map(ids),
      sizes: () => server.requests.map((request) => request.reduce((sum, one) => sum + sqsSize(one), 0)),
      passed: () => ids(server.passed()),
    }))

const error = (status: number, code: string, message = canary): Fate => ({ status, body: errorJson(code, message) })
const denied = "User: arn:aws:iam::1:user/x is not authorized to perform: sqs:sendmessage on resource: arn:aws:sqs"

awsContract({
  service: "SQS",
  start: start(),
  largest,
  sized,
  sizes: [400_000, 600_000, 48_000, 1_000_000, 1_048_000, 10, 524_000, 524_000, 1],
  refused: {
    codes: {
      evt_2: ["InvalidMessageContents", true],
      evt_3: ["InternalError", false],
      evt_5: ["RequestThrottled", true],
      evt_6: ["KmsAccessDenied", true],
      evt_7: ["AccessDenied", true],
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
    says: {
      5: "encrypts the queue: grant kms:GenerateDataKey",
      6: "grant sqs:SendMessage and sqs:GetQueueAttributes on the queue",
    },
  },
  checks: true,
  target: (url) => `SQS queue ${url}/123456789012/events`,
  answers: [
    ["that throttles", error(400, "RequestThrottled"), "SinkThrottled", /slow down \(RequestThrottled\)/],
    ["of a key that is throttled", error(400, "KmsThrottled"), "SinkThrottled", /slow down/],
    [
      "503 in plain text",
      { status: 503, body: "Service Unavailable" },
      "SinkUnavailable",
      /can't take events .*\(503\)/,
    ],
    ["503 that says when", { status: 503, headers: { "retry-after": "7" } }, "SinkThrottled", /slow down \(503\)/],
    ["500", error(500, "InternalFailure"), "SinkUnavailable", /\(500, InternalFailure\)/],
    ["that the queue is not there", error(400, "QueueDoesNotExist"), "SinkMisconfigured", /no such queue.*"queueUrl"/],
    [
      "that it is not there, in the older way",
      {
        status: 400,
        body: errorJson("x", ""),
        headers: { "x-amzn-query-error": "AWS.SimpleQueueService.NonExistentQueue;Sender" },
      },
      "SinkMisconfigured",
      /no such queue/,
    ],
    [
      "that the relay may not",
      error(403, "AccessDeniedException", denied),
      "SinkMisconfigured",
      /lack sqs:sendmessage/,
    ],
    ["that the key is unknown", error(403, "InvalidClientTokenId"), "SinkMisconfigured", /access key.*credentials/],
    ["that the token has expired", error(403, "ExpiredToken"), "SinkMisconfigured", /expired: renew/],
    ["that the queue's key is gone", error(400, "KmsNotFound"), "SinkMisconfigured", /give the queue another/],
    ["of another kind of queue", error(400, "UnsupportedOperation"), "SinkMisconfigured", /\.fifo/],
    [
      "that the message is too long",
      error(400, "InvalidParameterValue", "Reason: Message must be shorter than 262144 bytes."),
      "DeliveryRejected",
      /too large/,
    ],
    [
      "whose code is unknown",
      error(400, "RegionDisabled", "The region is off"),
      "SinkMisconfigured",
      /refuses .*400, RegionDisabled\); it says "The region is off"$/,
    ],
    ["of something else, 404", { status: 404, body: page }, "SinkMisconfigured", /not SQS.*"queueUrl"/],
    ["of something else, 200", { status: 200, body: page }, "SinkMisconfigured", /not SQS.*"queueUrl"/],
    ["of something else, JSON", { status: 200, body: "{}" }, "SinkMisconfigured", /not SQS/],
    [
      "that leads elsewhere",
      { status: 301, headers: { location: "http://127.0.0.1:1/" } },
      "SinkMisconfigured",
      /not SQS/,
    ],
    ["that never comes: reset", "reset", "SinkUnavailable", /closed before an answer/],
  ],
  config: SqsConfig,
  valid: { queueUrl },
  wrong: [
    [{ queueUrl: "events" }, "this is not a URL of a queue"],
    [{ queueUrl: "arn:aws:sqs:eu-west-1:123456789012:events" }, "this is not a URL of a queue"],
    [{ queueUrl: "https://sqs.eu-west-1.amazonaws.com/" }, "this is not a URL of a queue"],
    [{ queueUrl: "http://user:password@127.0.0.1/123456789012/events" }, "this is not a URL of a queue"],
    [{ queueUrl: "http://127.0.0.1:4566/123456789012/events" }, "does not say its region"],
    [{ region: "us-east-1" }, "AWS has this queue in eu-west-1 and nowhere else"],
    [{ profile: "one", credentials }, 'a "profile" and "credentials" exclude each other'],
  ],
})

fifoContract("SQS", start("events.fifo"))

describe("an SQS request", () => {
  it.live("leaves out an event that is too large because of its attributes, and reports the excess", function* () {
    const { server, sink } = yield* started()
    const failures = yield* sink.send([sized(1, largest), sized(2, 10)])
    expect(reasons(failures)).toEqual({ 0: "DeliveryRejected" })
    expect(failures.get(0)?.message).toMatch(/event of 10486\d{2} bytes .* 1048576 that SQS takes: .*maxBody/)
    expect(ids(server.passed())).toEqual(["evt_2"])
  })

  it.live("that is too long for the queue's own limit is sent again, each message alone", function* () {
    const fate: Behaviour["fate"] = (_, __, sent) =>
      sent.reduce((sum, one) => sum + sqsSize(one), 0) > 262_144
        ? { status: 400, body: errorJson("BatchRequestTooLong") }
        : undefined
    const { server, sink } = yield* started({ fate })
    const failures = yield* sink.send([sized(1, 200_000), sized(2, 300_000), sized(3, 200_000)])
    expect(reasons(failures)).toEqual({ 1: "DeliveryRejected" })
    expect(ids(server.passed())).toEqual(["evt_1", "evt_3"])
  })
})

describe("the config of an SQS sink", () => {
  test("takes the region from the queue's URL, at any of AWS's places", () => {
    const hosts = {
      "sqs.eu-west-1.amazonaws.com": "eu-west-1",
      "sqs-fips.us-gov-west-1.amazonaws.com": "us-gov-west-1",
      "sqs.cn-north-1.amazonaws.com.cn": "cn-north-1",
      "vpce-0a1b-x.sqs.us-east-2.vpce.amazonaws.com": "us-east-2",
      "sqs.ap-southeast-3.api.aws": "ap-southeast-3",
      "eu-central-1.queue.amazonaws.com": "eu-central-1",
      "sqs.eu-west-1.example.com": undefined,
      "127.0.0.1": undefined,
    }
    for (const [host, region] of Object.entries(hosts)) {
      expect([host, regionOf(`https://${host}/123456789012/events`)]).toEqual([host, region])
    }
  })
})

withMoto("the SQS sink against moto", (moto) => {
  messagesContract(
    Effect.fnUntraced(function* (fifo, config = {}) {
      const { url, received } = yield* Effect.promise(() => makeQueue(moto().url, { fifo }))
      return { received, sink: yield* openSqs(() => ({ queueUrl: url, ...config })) }
    }),
  )

  it.live("warns if the relay accepts larger events than the queue", function* () {
    const attributes = { MaximumMessageSize: "262144" }
    const { url } = yield* Effect.promise(() => makeQueue(moto().url, { attributes }))
    const sink = yield* openSqs(() => ({ queueUrl: url }))
    const advise = (maxBody: number) => sink.advise?.({ maxBody }) ?? Effect.succeed([])
    expect(yield* advise(200_000)).toEqual([])
    expect(yield* advise(300_000)).toEqual([expect.stringMatching(/takes 262144 bytes at most.* 300000.*maxBody/)])
  })
})
