/**
 * AWS: codes, statuses and texts as the services send them, by servers that speak their protocols, because moto checks
 * neither KMS keys nor the clock. The codes of SNS and SQS come from their models in the SDK.
 */
import { Effect } from "effect"
import { awsServer, errorJson, type Fate } from "../aws/awsServer.ts"
import { openEventBridge } from "../eventbridge/eventBridgeSink.ts"
import { error, s3Server } from "../s3/s3Server.ts"
import { openS3 } from "../s3/s3Sink.ts"
import { entry, reasonOf } from "../samples.ts"
import { errorXml, snsServer } from "../sns/snsServer.ts"
import { openSns } from "../sns/snsSink.ts"
import { openSqs } from "../sqs/sqsSink.ts"
import type { Cause, Part } from "./Cause.ts"

type Wrong = readonly [name: string, todo: string, code: string, status: number, message?: string | undefined]

/** Failures of a KMS key, with the part of the code that SNS and SQS share. */
const keys = [
  ["the key may not be used", "grant kms:GenerateDataKey", "AccessDenied"],
  ["the key is disabled", "enable it", "Disabled"],
  ["the key is gone", "give the THING another", "NotFound"],
  ["the key is about to be deleted", "can't be used as it is", "InvalidState"],
  ["the key is of another kind", "is of another kind", "InvalidKeyUsage"],
  ["the account has no KMS", "not subscribed to KMS", "OptInRequired"],
  ["the key is used too often", "", "Throttling"],
] as const

const skew = "Signature expired: 20261123T070000Z is now earlier than 20261123T074500Z (20261123T080000Z - 15 min.)"
const early = "Signature not yet current: 20261123T090000Z is still later than 20261123T081500Z"
const mismatch =
  "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method."

/** Failures that all services report. */
const common = (suffix: string): ReadonlyArray<Wrong> => [
  ["the clock is behind", "set it", `InvalidSignature${suffix}`, 403, skew],
  ["the clock is ahead", "set it", `InvalidSignature${suffix}`, 403, early],
  ["the clock is wrong, told otherwise", "set it", `RequestTimeTooSkewed${suffix}`, 403],
  ["the clock is wrong, told as a request that is old", "set it", "RequestExpired", 400],
  ["a wrong secret", "wrong: correct the credentials", `InvalidSignature${suffix}`, 403, mismatch],
  ["an access key that is not known", "correct the credentials", `UnrecognizedClient${suffix}`, 403],
  ["a session token that has expired", "renew the credentials", `ExpiredToken${suffix}`, 403],
  ["a request that was given up on the way", "", `RequestAborted${suffix}`, 400],
  ["a request that took too long", "", `RequestTimeout${suffix}`, 400],
  ["a service that fails", "", "InternalFailure", 500],
  ["too many requests", "", `Throttling${suffix}`, 400],
  ["a code with the name of a property of every object", "AWS refuses the relay's request", "constructor", 400],
]

const told = (
  service: string,
  wrongs: ReadonlyArray<Wrong>,
  reason: (code: string, status: number, message: string) => Cause["reason"],
): ReadonlyArray<Cause> =>
  wrongs.map(([name, todo, code, status, message = ""]) => ({
    name: `${service}: ${name} (${code})`,
    todo,
    reason: reason(code, status, message),
  }))

const sns = told(
  "SNS",
  [
    ...keys.map(([name, todo, code]): Wrong => [name, todo.replace("THING", "topic"), `KMS${code}`, 400]),
    ...common("").map(
      // SNS's protocol has another code for a wrong signature.
      ([name, todo, code, status, message]): Wrong => [
        name,
        todo,
        code.replace("InvalidSignature", "SignatureDoesNotMatch"),
        status,
        message,
      ],
    ),
    ["a topic that is not there", '"topicArn"', "NotFound", 404],
    [
      "no right to publish",
      "sns:Publish",
      "AuthorizationError",
      403,
      "User: arn:aws:iam::1:user/x is not authorized to perform: SNS:Publish on resource: arn:aws:sns:eu-west-1:1:events",
    ],
  ],
  (code, status, message) =>
    Effect.gen(function* () {
      const fate = () => ({ status, body: errorXml(code, message) })
      const { url } = yield* snsServer({ fate })
      const sink = yield* openSns(() => ({ endpoint: url }))
      return (yield* sink.send([entry(1)])).get(0)?.reason
    }),
)

const sqs = told(
  "SQS",
  [
    ...keys.map(
      ([name, todo, code]): Wrong => [
        name,
        todo.replace("THING", "queue"),
        code === "OptInRequired" ? `KMS.${code}` : `KMS.${code}Exception`,
        400,
      ],
    ),
    ...common("Exception"),
    ["a queue that is not there", '"queueUrl"', "AWS.SimpleQueueService.NonExistentQueue", 400],
    [
      "no right to send",
      "sqs:sendmessage",
      "AccessDeniedException",
      403,
      "User: arn:aws:iam::1:user/x is not authorized to perform: sqs:sendmessage on resource: arn:aws:sqs:eu-west-1:1:events",
    ],
  ],
  (code, status, message) =>
    Effect.gen(function* () {
      // The model's name is in the body, and the older name in a header.
      const name = code.replace(/^KMS\.(\w+?)(?:Exception)?$/, "Kms$1").replace(/^.*\./, "")
      const fate = (): Fate => ({
        status,
        body: errorJson(name, message),
        headers: { "x-amzn-query-error": `${code};Sender` },
      })
      const { url } = yield* awsServer({ fate })
      const sink = yield* openSqs(() => ({ queueUrl: `${url}/123456789012/events` }))
      return (yield* sink.send([entry(1)])).get(0)?.reason
    }),
)

const eventBridge = told(
  "EventBridge",
  [
    ...common("Exception"),
    ["a bus that is not there", '"eventBusArn"', "ResourceNotFoundException", 400],
    ["an action that the user may not use", "events:PutEvents", "NotAuthorized", 401],
    [
      "the key of the bus may not be used",
      "kms:GenerateDataKey",
      "AccessDeniedException",
      400,
      "User: arn:aws:iam::1:user/x is not authorized to perform: kms:GenerateDataKey on resource: arn:aws:kms:eu-west-1:1:key/1",
    ],
  ],
  (code, status, message) =>
    Effect.gen(function* () {
      const fate = (action: string) => (action === "PutEvents" ? { status, body: errorJson(code, message) } : undefined)
      const { url } = yield* awsServer({ fate })
      const sink = yield* openEventBridge(() => ({ endpoint: url }))
      const failures = yield* Effect.result(sink.send([entry(1)]))
      return failures._tag === "Success" ? failures.success.get(0)?.reason : failures.failure.reason
    }),
)

const s3 = told(
  "S3",
  [
    ["a bucket that is not there", '"bucket"', "NoSuchBucket", 404],
    ["a bucket of another region", '"region"', "PermanentRedirect", 301],
    [
      "no right to write",
      "s3:PutObject",
      "AccessDenied",
      403,
      "User: arn:aws:iam::1:user/x is not authorized to perform: s3:PutObject on resource: arn:aws:s3:::events/x because no identity-based policy allows the s3:PutObject action",
    ],
    ["a bucket whose key may not be used", "grant kms:GenerateDataKey", "KMS.AccessDeniedException", 400],
    ["a bucket whose key is disabled", "enable it", "KMS.DisabledException", 400],
    ["a wrong secret", "wrong: correct the credentials", "SignatureDoesNotMatch", 403, mismatch],
    ["an access key that is not known", "correct the credentials", "InvalidAccessKeyId", 403],
    ["a session token that has expired", "renew the credentials", "ExpiredToken", 400],
    ["the clock is wrong", "set it", "RequestTimeTooSkewed", 403],
    ["too many requests", "", "SlowDown", 503],
    ["a request that took too long", "", "RequestTimeout", 400],
    ["bytes that were damaged on the way", "", "BadDigest", 400],
  ],
  (code, status, message) =>
    Effect.gen(function* () {
      const { url } = yield* s3Server(() => error(status, code, message))
      const sink = yield* openS3(() => ({ endpoint: url }))
      return yield* reasonOf(sink.send([entry(1)]))
    }),
)

const entryOfQueue = (code: string): Cause["reason"] =>
  Effect.gen(function* () {
    const { url } = yield* awsServer({ refuse: () => [code, true] })
    const sink = yield* openSqs(() => ({ queueUrl: `${url}/123456789012/events` }))
    return (yield* sink.send([entry(1)])).get(0)?.reason
  })

const inBatch: ReadonlyArray<Cause> = [
  ["the key may not be used", "grant kms:GenerateDataKey", "KMS.AccessDeniedException"],
  ["the key is disabled", "enable it", "KMS.DisabledException"],
  ["a queue's own refusal", "sqs:SendMessage", "AccessDenied"],
].map(([name, todo = "", code = ""]) => ({
  name: `SQS, one message of a batch: ${name} (${code})`,
  todo,
  reason: entryOfQueue(code),
}))

const unanswered: Cause = {
  name: "SQS: nothing listens there",
  todo: "",
  reason: Effect.flatMap(
    openSqs(() => ({ queueUrl: "http://127.0.0.1:1/123456789012/events" })),
    ({ check }) => reasonOf(check),
  ),
}

export const aws: Part = {
  title: "AWS",
  lacking: () => undefined,
  causes: async () => [...sns, ...sqs, ...inBatch, ...eventBridge, ...s3, unanswered],
}
