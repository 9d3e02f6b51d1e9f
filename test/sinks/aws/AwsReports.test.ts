/** Answers of AWS and of emulators, taken from public reports (`test/reports/sinks.md`). */
import { describe, expect } from "bun:test"
import { Effect } from "effect"
import type { Reason, Sink } from "../../../src/sinks/Sink.ts"
import { it } from "../../lib/effect.ts"
import { openEventBridge } from "../eventbridge/eventBridgeSink.ts"
import { serve } from "../receiver.ts"
import { entry } from "../samples.ts"
import { errorXml, snsServer } from "../sns/snsServer.ts"
import { openSns } from "../sns/snsSink.ts"
import { openSqs } from "../sqs/sqsSink.ts"
import { awsServer, errorJson } from "./awsServer.ts"

type Row = readonly [title: string, status: number, code: string, message: string, tag: Reason["_tag"], says: RegExp]

/** A denied action on a resource, in AWS's words. */
const denial = (action: string, because: string): string =>
  `User: arn:aws:sts::123456789012:assumed-role/relay/i is not authorized to perform: ${action} on resource: arn:aws:x:eu-west-1:123456789012:events ${because}`

const ofSns: ReadonlyArray<Row> = [
  [
    "no policy of the role allows to publish",
    403,
    "AuthorizationError",
    denial("SNS:Publish", "because no identity-based policy allows the SNS:Publish action"),
    "SinkMisconfigured",
    /the credentials lack sns:Publish: grant it$/,
  ],
  [
    "the organization denies to publish",
    403,
    "AuthorizationError",
    denial("SNS:Publish", "with an explicit deny in a service control policy"),
    "SinkMisconfigured",
    /: a service control policy denies sns:Publish: allow it there$/,
  ],
  [
    "the role may not use the topic's key",
    400,
    "KMSAccessDenied",
    "null (Service: AWSKMS; Status Code: 400; Error Code: AccessDeniedException; Request ID: r; Proxy: null)",
    "SinkMisconfigured",
    /the key that encrypts the topic: grant kms:GenerateDataKey and kms:Decrypt on it/,
  ],
  [
    "a session token of another region is not known",
    403,
    "InvalidClientTokenId",
    "The security token included in the request is invalid.",
    "SinkMisconfigured",
    /or not its session token in this region: correct the credentials; .* its own STS endpoint/,
  ],
]

const ofSqs: ReadonlyArray<Row> = [
  [
    "the queue of another account can't be seen",
    400,
    "QueueDoesNotExist",
    "The specified queue does not exist or you do not have access to it.",
    "SinkMisconfigured",
    /no such queue, or the credentials may not see it: make it, correct "queueUrl", or let its policy name them/,
  ],
  [
    "the resource is denied without an action",
    403,
    "AccessDeniedException",
    "Access to the resource https://sqs.us-west-2.amazonaws.com/ is denied.",
    "SinkMisconfigured",
    /grant sqs:SendMessage and .* in the queue's own policy too if it is of another account/,
  ],
  [
    "the endpoint of the VPC does not allow to send",
    403,
    "AccessDeniedException",
    denial("sqs:sendmessage", "because no VPC endpoint policy allows the sqs:sendmessage action"),
    "SinkMisconfigured",
    /no VPC endpoint policy allows sqs:sendmessage: allow it there$/,
  ],
  [
    "the operation is not known",
    400,
    "UnknownOperationException",
    "",
    "SinkMisconfigured",
    /does not know this request: it is probably an emulator that is too old/,
  ],
]

/** The reason why an event fails, or `undefined` if it is sent. */
const reasonOf = (sink: Sink) => Effect.map(sink.send([entry(1)]), (failures) => failures.get(0)?.reason)

describe("an answer of SNS as reported", () => {
  for (const [title, status, code, message, tag, says] of ofSns) {
    it.live(title, function* () {
      const { url } = yield* snsServer({ fate: () => ({ status, body: errorXml(code, message) }) })
      const reason = yield* reasonOf(yield* openSns(() => ({ endpoint: url })))
      expect(reason).toMatchObject({ _tag: tag, message: expect.stringMatching(says) })
    })
  }
})

describe("an answer of SQS as reported", () => {
  for (const [title, status, code, message, tag, says] of ofSqs) {
    it.live(title, function* () {
      const { url } = yield* awsServer({ fate: () => ({ status, body: errorJson(code, message) }) })
      const reason = yield* reasonOf(yield* openSqs(() => ({ queueUrl: `${url}/123456789012/events` })))
      expect(reason).toMatchObject({ _tag: tag, message: expect.stringMatching(says) })
    })
  }

  it.live("an emulator knows only the older protocol, and answers in XML", function* () {
    const body = errorXml("InvalidAction", "The action or operation requested is invalid")
    const { url } = yield* serve((_, response) => response.writeHead(400, { "content-type": "text/xml" }).end(body))
    const reason = yield* reasonOf(yield* openSqs(() => ({ queueUrl: `${url}/123456789012/events` })))
    expect(reason?._tag).toBe("SinkMisconfigured")
    expect(reason?.message).toMatch(/speaks XML: .* an emulator that knows only the older protocol of SQS; update it/)
  })

  it.live("a batch that is accepted has no list of failures", function* () {
    const { url } = yield* serve((_, response) => response.end('{"Successful":[{"Id":"0"}]}'))
    expect(yield* reasonOf(yield* openSqs(() => ({ queueUrl: `${url}/123456789012/events` })))).toBeUndefined()
  })
})

describe("an entry that EventBridge refuses as reported", () => {
  it.live("the bus of another account does not allow to send", function* () {
    const { url } = yield* awsServer({ refuse: () => ["AccessDeniedException"] })
    const reason = yield* reasonOf(yield* openEventBridge(() => ({ endpoint: url })))
    expect(reason?._tag).toBe("SinkMisconfigured")
    expect(reason?.message).toMatch(/grant events:PutEvents .* in the bus's own policy too if it is of another account/)
  })
})
