import { beforeAll, describe, expect, test } from "bun:test"
import { HTTP } from "cloudevents"
import { Effect, Redacted, Schema } from "effect"
import type { Entry } from "../../../src/event/Entry.ts"
import type { Failures } from "../../../src/sinks/Sink.ts"
import { largest, regionOf, SqsConfig } from "../../../src/sinks/sqs/Sqs.ts"
import { it } from "../../lib/effect.ts"
import { makeQueue } from "../../parts/Queues.ts"
import { awsServer, type Behaviour, errorJson, type Fate, type Sent, sqsSize } from "../aws/awsServer.ts"
import { bytes, entries, entry, envelope, reasonOf } from "../samples.ts"
import { startThere } from "../thereSink.ts"
import { credentials, openSqs, queueUrl, withMoto } from "./sqsSink.ts"

const reasons = (failures: Failures) =>
  Object.fromEntries([...failures].map(([index, { reason }]) => [index, reason._tag]))

const idOf = ({ MessageAttributes }: Sent): string =>
  (MessageAttributes as Record<string, { StringValue: string }>).event_id?.StringValue ?? ""
const ids = (all: ReadonlyArray<Sent>) => all.map(idOf)

/** An event with a body of so many bytes. */
const sized = (sequence: number, size: number): Entry =>
  entry(sequence, { body: bytes("x".repeat(size)), type: "", signature: "" })

const started = Effect.fnUntraced(function* (behaviour: Behaviour = {}, name = "events") {
  const server = yield* awsServer(behaviour)
  const sink = yield* openSqs(() => ({ queueUrl: `${server.url}/123456789012/${name}` }))
  return { server, sink }
})

beforeAll(startThere, 120_000)

describe("an SQS request", () => {
  it.live("holds ten messages, and never more bytes than SQS counts", function* () {
    const { server, sink } = yield* started()
    expect(sink.batch).toMatchObject({ maxEvents: 10, maxBytes: largest })
    const sizes = [400_000, 600_000, 48_000, 1_000_000, 1_048_000, 10, 524_000, 524_000, 1]
    const batch = sizes.map((size, index) => sized(index + 1, size))
    expect((yield* sink.send(batch)).size).toBe(0)
    expect(ids(server.passed())).toEqual(batch.map(({ event }) => event.id))
    for (const request of server.requests) {
      expect(request.reduce((sum, one) => sum + sqsSize(one), 0)).toBeLessThanOrEqual(largest)
    }
    expect((yield* sink.send(entries(25, 20))).size).toBe(0)
    expect(server.requests.slice(-3).map((request) => request.length)).toEqual([10, 10, 5])
  })

  it.live("leaves out an event that is too large by its attributes alone, and says by how much", function* () {
    const { server, sink } = yield* started()
    const failures = yield* sink.send([sized(1, largest), sized(2, 10)])
    expect(reasons(failures)).toEqual({ 0: "DeliveryRejected" })
    expect(failures.get(0)?.message).toMatch(/event of 10486\d{2} bytes .* 1048576 that SQS takes: .*maxBody/)
    expect(ids(server.passed())).toEqual(["evt_2"])
  })

  it.live("that a queue set to less finds too long is sent again, each message alone", function* () {
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

describe("a message that SQS refuses", () => {
  it.live("is settled by itself: SenderFault decides where its code does not", function* () {
    const codes: Readonly<Record<string, readonly [string, boolean]>> = {
      evt_2: ["InvalidMessageContents", true],
      evt_3: ["InternalError", false],
      evt_5: ["RequestThrottled", true],
      evt_6: ["KmsAccessDenied", true],
      evt_7: ["AccessDenied", true],
      evt_8: ["not a code: canary", true],
    }
    const { server, sink } = yield* started({ refuse: (one) => codes[idOf(one)] })
    const failures = yield* sink.send(entries(9))
    expect(reasons(failures)).toEqual({
      1: "DeliveryRejected",
      2: "DeliveryFailed",
      4: "SinkThrottled",
      5: "SinkMisconfigured",
      6: "SinkMisconfigured",
      7: "DeliveryRejected",
    })
    expect(failures.get(5)?.message).toContain("encrypts the queue: grant kms:GenerateDataKey")
    expect(failures.get(6)?.message).toContain("grant sqs:SendMessage and sqs:GetQueueAttributes on the queue")
    for (const { message } of failures.values()) expect(message).not.toContain("canary")
    const answers = [...failures.values()].flatMap(({ reason }) => reason.answer ?? []).map(Redacted.value)
    expect(answers).toContain("canary")
    expect(ids(server.passed())).toEqual(["evt_1", "evt_4", "evt_9"])
  })

  it.live("is not taken for passed when the answer forgets it", function* () {
    const refuse = (one: Sent) => (idOf(one) === "evt_1" ? (["InternalError", false] as const) : undefined)
    const { sink } = yield* started({ refuse, fate: () => "forgets" })
    expect(reasons(yield* sink.send(entries(2)))).toEqual({ 0: "DeliveryFailed", 1: "DeliveryFailed" })
  })
})

describe("on a FIFO queue", () => {
  const two = (sequence: number) => entry(sequence, { accountId: `acct_${sequence % 2}` })

  it.live("no message passes one of its key that failed; other keys go on, one of each key to a request", function* () {
    const refuse = (one: Sent) => (idOf(one) === "evt_3" ? (["InternalError", false] as const) : undefined)
    const { server, sink } = yield* started({ refuse }, "events.fifo")
    const failures = yield* sink.send([1, 2, 3, 4, 5, 6, 7].map(two))
    expect(reasons(failures)).toEqual({ 2: "DeliveryFailed", 4: "DeliveryFailed", 6: "DeliveryFailed" })
    expect(server.requests.map(ids)).toEqual([["evt_1", "evt_2"], ["evt_3", "evt_4"], ["evt_6"]])
    expect(server.requests[0]?.[0]).toMatchObject({
      MessageGroupId: "acct_1",
      MessageDeduplicationId: "scheduling:evt_1",
    })
  })
})

describe("an answer of SQS", () => {
  const canary = "canary-of-an-answer"
  const error = (status: number, code: string, message = canary): Fate => ({ status, body: errorJson(code, message) })
  const denied = "User: arn:aws:iam::1:user/x is not authorized to perform: sqs:sendmessage on resource: arn:aws:sqs"
  const cases: ReadonlyArray<readonly [title: string, fate: Fate, reason: string, says: RegExp]> = [
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
    ["of something else, 404", { status: 404, body: `<html>${canary}` }, "SinkMisconfigured", /not SQS.*"queueUrl"/],
    ["of something else, 200", { status: 200, body: `<html>${canary}` }, "SinkMisconfigured", /not SQS.*"queueUrl"/],
    ["of something else, JSON", { status: 200, body: "{}" }, "SinkMisconfigured", /not SQS/],
    [
      "that leads elsewhere",
      { status: 301, headers: { location: "http://127.0.0.1:1/" } },
      "SinkMisconfigured",
      /not SQS/,
    ],
    ["that never comes: reset", "reset", "SinkUnavailable", /closed before an answer/],
  ]
  for (const [title, fate, reason, says] of cases) {
    it.live(`${title} is ${reason}, to a check as well, and is asked for once`, function* () {
      const { server, sink } = yield* started({ fate: () => fate })
      const failure = (yield* sink.send([entry(1)])).get(0)
      expect(failure?.reason._tag).toBe(reason as never)
      expect(failure?.message).toMatch(says)
      expect(failure?.message).toContain(`SQS queue ${server.url}/123456789012/events`)
      expect(failure?.message).not.toContain(canary)
      expect(server.requests).toHaveLength(1)
      expect((yield* reasonOf(sink.check))?._tag).toBe(reason as never)
    })
  }
})

describe("the config of an SQS sink", () => {
  const decode = (config: Record<string, unknown>) => Schema.decodeUnknownSync(SqsConfig)({ queueUrl, ...config })

  test("takes the region from the queue's URL, wherever AWS writes it", () => {
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

  test("refuses what could never work, in words", () => {
    const wrong: ReadonlyArray<readonly [config: Record<string, unknown>, says: string]> = [
      [{ queueUrl: "events" }, "this is no URL of a queue"],
      [{ queueUrl: "arn:aws:sqs:eu-west-1:123456789012:events" }, "this is no URL of a queue"],
      [{ queueUrl: "https://sqs.eu-west-1.amazonaws.com/" }, "this is no URL of a queue"],
      [{ queueUrl: "http://user:password@127.0.0.1/123456789012/events" }, "this is no URL of a queue"],
      [{ queueUrl: "http://127.0.0.1:4566/123456789012/events" }, "does not say its region"],
      [{ region: "us-east-1" }, "AWS has this queue in eu-west-1 and nowhere else"],
      [{ profile: "one", credentials }, 'a "profile" and "credentials" exclude each other'],
    ]
    for (const [config, says] of wrong) expect(() => decode(config)).toThrow(says)
  })
})

withMoto("the SQS sink against moto", (moto) => {
  it.live("sends the signed bytes, with what tells of the event as attributes", function* () {
    const { url, received } = yield* Effect.promise(() => makeQueue(moto().url))
    const sink = yield* openSqs(() => ({ queueUrl: url }))
    expect((yield* sink.send([entry(1)])).size).toBe(0)
    const [first] = yield* received(1)
    expect(first?.body).toBe(Buffer.from(entry(1).event.body).toString())
    expect(first?.attributes).toEqual({
      type: "appointment.created",
      resource: "appointment",
      account_id: "acct_1",
      event_id: "evt_1",
      idempotency_key: "evt_1",
      webhook_id: "wh_1",
      signature: entry(1).event.signature,
    })
  })

  it.live("sends CloudEvents that the official SDK reads", function* () {
    const { url, received } = yield* Effect.promise(() => makeQueue(moto().url))
    const sink = yield* openSqs(() => ({ queueUrl: url, format: "cloudevents" }))
    yield* sink.send([entry(7)])
    const [one] = yield* received(1)
    const headers = { "content-type": "application/cloudevents+json" }
    expect(HTTP.toEvent({ headers, body: one?.body ?? "" })).toMatchObject({ id: "evt_7", data: envelope(7) })
  })

  it.live("keeps the order of each key on a FIFO queue, and a repeat is dropped there", function* () {
    const { url, received } = yield* Effect.promise(() => makeQueue(moto().url, { fifo: true }))
    const sink = yield* openSqs(() => ({ queueUrl: url }))
    const all = Array.from({ length: 30 }, (_, n) => entry(n + 1, { accountId: `acct_${n % 3}` }))
    for (const from of [0, 10, 20]) expect((yield* sink.send(all.slice(from, from + 10))).size).toBe(0)
    expect((yield* sink.send(all.slice(0, 10))).size).toBe(0)
    const kept = yield* received(30)
    expect(kept).toHaveLength(30)
    for (const [group, messages] of Map.groupBy(kept, (message) => message.group)) {
      const sent = all.filter(({ event }) => event.accountId === group)
      expect(messages.map(({ attributes }) => attributes.event_id)).toEqual(sent.map(({ event }) => event.id))
    }
  })

  it.live("advises where the relay lets in more than the queue is set to take", function* () {
    const attributes = { MaximumMessageSize: "262144" }
    const { url } = yield* Effect.promise(() => makeQueue(moto().url, { attributes }))
    const sink = yield* openSqs(() => ({ queueUrl: url }))
    const advise = (maxBody: number) => sink.advise?.({ maxBody }) ?? Effect.succeed([])
    expect(yield* advise(200_000)).toEqual([])
    expect(yield* advise(300_000)).toEqual([expect.stringMatching(/takes 262144 bytes at most.* 300000.*maxBody/)])
  })
})
