/** S3 sinks with a moto that verifies signatures (by botocore) and policies. */
import { afterAll, beforeAll, expect } from "bun:test"
import { Effect } from "effect"
import { it } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { type Bucket, makeBucket, region } from "../../parts/Buckets.ts"
import { type Moto, makeMoto, reasonToSkip } from "../../parts/Moto.ts"
import { entries, reasonOf } from "../samples.ts"
import { openS3 } from "./s3Sink.ts"

/** moto checks only the scope until verification is turned on. */
const authorization = `AWS4-HMAC-SHA256 Credential=test/20261121/${region}/iam/aws4_request, SignedHeaders=host, Signature=0`

const iam = async (url: string, parameters: Readonly<Record<string, string>>): Promise<string> => {
  const body = new URLSearchParams({ Version: "2010-05-08", UserName: "relay", ...parameters })
  return (await fetch(url, { method: "POST", headers: { authorization }, body })).text()
}

/** Makes a user who may do only these actions. moto verifies all later requests. */
const makeUser = async (url: string, bucket: string, actions: ReadonlyArray<string>) => {
  await iam(url, { Action: "CreateUser" })
  const key = await iam(url, { Action: "CreateAccessKey" })
  const Statement = [{ Effect: "Allow", Action: actions, Resource: `arn:aws:s3:::${bucket}/*` }]
  const PolicyDocument = JSON.stringify({ Version: "2012-10-17", Statement })
  await iam(url, { Action: "PutUserPolicy", PolicyName: "relay", PolicyDocument })
  await fetch(`${url}/moto-api/reset-auth`, { method: "POST", body: "0" })
  const textOf = (element: string) => new RegExp(`<${element}>([^<]*)`).exec(key)?.[1] ?? ""
  return { accessKeyId: textOf("AccessKeyId"), secretAccessKey: textOf("SecretAccessKey") }
}

suiteUnless(reasonToSkip(), "an S3 sink whose user may put objects, and nothing else", () => {
  let moto: Moto
  let bucket: Bucket
  let user: { readonly accessKeyId: string; readonly secretAccessKey: string }

  beforeAll(async () => {
    moto = await makeMoto()
    await moto.start()
    bucket = await makeBucket(moto.url)
    user = await makeUser(moto.url, bucket.name, ["s3:PutObject"])
  }, 300_000)
  afterAll(() => moto.stop())

  const open = (more: object = {}) =>
    openS3(() => ({ endpoint: moto.url, bucket: bucket.name, credentials: user, prefix: "in/date={{date}}/", ...more }))

  it.live("stores objects by requests whose signatures are right", function* () {
    const sink = yield* open()
    expect((yield* sink.send(entries(3))).size).toBe(0)
  })

  it.live("passes the check, with advice about the right to list", function* () {
    const sink = yield* open()
    yield* sink.check
    expect(yield* sink.advise?.({ maxBody: 1 }) ?? Effect.succeed([])).toEqual([
      expect.stringContaining("grant s3:ListBucket on it"),
    ])
  })

  it.live("tells a wrong secret from a key that nobody knows", function* () {
    const wrong = yield* open({ credentials: { ...user, secretAccessKey: "wrong" } })
    expect((yield* reasonOf(wrong.send(entries(1))))?.message).toMatch(/the secret of the access key is wrong/)
    const unknown = yield* open({ credentials: { ...user, accessKeyId: "AKIAUNKNOWN" } })
    expect((yield* reasonOf(unknown.send(entries(1))))?.message).toMatch(/AWS does not know this access key/)
  })

  it.live("names the right that is missing for another bucket", function* () {
    const other = yield* open({ bucket: `${bucket.name}-other` })
    expect((yield* reasonOf(other.send(entries(1))))?.message).toMatch(/grant s3:PutObject/)
  })
})
