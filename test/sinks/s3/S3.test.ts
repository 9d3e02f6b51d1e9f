import { beforeAll, describe, expect, test } from "bun:test"
import { createServer } from "node:net"
import { gunzipSync } from "node:zlib"
import { HTTP } from "cloudevents"
import { Effect, Schema } from "effect"
import type { Entry } from "../../../src/event/Event.ts"
import { sha256 } from "../../../src/event/IdempotencyKey.ts"
import * as Jmespath from "../../../src/formats/jmespath/Jmespath.ts"
import { signedHeaders } from "../../../src/sinks/aws/AwsClient.ts"
import type { Failures, Reason } from "../../../src/sinks/Sink.ts"
import { addressOf, S3, S3Config } from "../../../src/sinks/s3/S3.ts"
import { it } from "../../lib/effect.ts"
import { linesOf, type Stored } from "../../parts/Buckets.ts"
import { listening } from "../receiver.ts"
import { bytes, entries, entry, envelope, reasonOf } from "../samples.ts"
import { type Asked, error, errorXml, type Fate, listed, s3Server } from "./s3Server.ts"
import { credentials, openS3, required } from "./s3Sink.ts"

const started = Effect.fnUntraced(function* (
  fate: (asked: Asked, body: Uint8Array) => Fate | undefined = () => undefined,
  more: Record<string, unknown> = {},
) {
  const server = yield* s3Server(fate)
  const sink = yield* openS3(() => ({ endpoint: server.url, ...more }))
  return { server, sink }
})

const isPut = ({ method }: Asked): boolean => method === "PUT"
const idsOf = (stored: Stored) => linesOf(stored).map((line) => JSON.parse(Buffer.from(line).toString()).id)
const idsIn = (body: Uint8Array) => idsOf({ name: "x.gz", bytes: body })

const reasons = (failures: Failures) =>
  Object.fromEntries([...failures].map(([index, { reason }]) => [index, reason._tag]))

/** The reason why an event is not stored, or `undefined` if it is. */
const reasonAt = Effect.fnUntraced(function* (
  fate: (asked: Asked, body: Uint8Array) => Fate | undefined,
  more?: Record<string, unknown>,
) {
  const { sink, server } = yield* started(fate, more)
  return { reason: yield* reasonOf(sink.send([entry(1)])), server, sink }
})

const preview = (all: ReadonlyArray<Entry>, more: Record<string, unknown> = {}) =>
  S3.preview(Schema.decodeUnknownSync(S3Config)({ ...required, ...more }), all) as ReadonlyArray<{
    readonly object: string
    readonly lines: ReadonlyArray<unknown>
  }>

beforeAll(() => Effect.runPromise(Jmespath.load))

describe("a signature of a request to S3", () => {
  // "Examples: Signature Calculations in AWS Signature Version 4", in the API reference of Amazon S3.
  const keys = { accessKeyId: "AKIAIOSFODNN7EXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" }
  const scope = { region: "us-east-1", service: "s3", now: Date.UTC(2013, 4, 24) }
  const host = "examplebucket.s3.amazonaws.com"

  test("is that of AWS's published example of a PUT", () => {
    const headers = { date: "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY" }
    const hash = sha256("Welcome to Amazon S3.")
    const signed = signedHeaders(
      { method: "PUT", host, path: "/test%24file.text", query: "", headers, hash },
      keys,
      scope,
    )
    expect(signed.authorization).toBe(
      "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class, Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    )
  })

  test("is that of AWS's published example of a list", () => {
    const request = { method: "GET", host, path: "/", query: "max-keys=2&prefix=J", headers: {}, hash: sha256("") }
    expect(signedHeaders(request, keys, scope).authorization).toEndWith(
      "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    )
  })
})

describe("the address of a bucket", () => {
  const of = (more: Record<string, unknown>) => {
    const { origin, root } = addressOf(Schema.decodeUnknownSync(S3Config)({ ...required, ...more }))
    return origin + root
  }

  test("has the bucket in the host name at AWS, and in the path for a bucket with a dot", () => {
    expect(of({ region: "eu-west-1" })).toBe("https://events.s3.eu-west-1.amazonaws.com")
    expect(of({ region: "cn-north-1" })).toBe("https://events.s3.cn-north-1.amazonaws.com.cn")
    expect(of({ bucket: "events.example.com" })).toBe("https://s3.us-east-1.amazonaws.com/events.example.com")
  })

  test("has the bucket in the path at other services, unless the config says otherwise", () => {
    const endpoint = "http://minio.internal:9000"
    expect(of({ endpoint })).toBe("http://minio.internal:9000/events")
    expect(of({ endpoint, pathStyle: false })).toBe("http://events.minio.internal:9000")
    expect(of({ pathStyle: true })).toBe("https://s3.us-east-1.amazonaws.com/events")
  })
})

describe("an object", () => {
  it.live("holds exactly the events of a batch, which take its place when they are sent again", function* () {
    const { server, sink } = yield* started()
    for (const _ of [1, 2]) expect((yield* sink.send(entries(3))).size).toBe(0)
    expect(server.objects().map(idsOf)).toEqual([["evt_1", "evt_2", "evt_3"]])
    expect(server.objects()[0]?.name).toMatch(
      /^\/events\/2026-11-21\/20261121T080001000Z-000000000001-[0-9a-f]{16}\.ndjson\.gz$/,
    )
  })

  it.live("never takes the place of other events, also if a batch is cut otherwise", function* () {
    const { server, sink } = yield* started()
    yield* sink.send(entries(3))
    yield* sink.send(entries(2))
    yield* sink.send(entries(2, 3))
    expect(server.objects().map(idsOf).toSorted()).toEqual([
      ["evt_1", "evt_2"],
      ["evt_1", "evt_2", "evt_3"],
      ["evt_3", "evt_4"],
    ])
  })

  test("has a name of its own for a replay, for another webhook and for another body", () => {
    const one = entry(1)
    const names = [
      one,
      { ...one, replayed: true },
      entry(1, { webhook: "other" }),
      entry(1, { body: bytes('{"id":"evt_1"}') }),
    ].map((event) => preview([event])[0]?.object)
    expect(new Set(names).size).toBe(names.length)
  })

  test("has a name that sorts by the time and the place of its first event", () => {
    const at = (sequence: number, receivedAt: number) => preview([entry(sequence, { receivedAt })])[0]?.object ?? ""
    const names = [at(9, 1_000), at(10, 1_000), at(2, 2_000), at(1, 90_000_000_000)]
    expect(names.toSorted()).toEqual(names)
  })

  it.live("has the events of one prefix, by date, type and account", function* () {
    const prefix = "v1/date={{date}}/hour={{hour}}/{{type}}/{{account_id}}/"
    const { server, sink } = yield* started(undefined, { prefix })
    const midnight = Date.UTC(2026, 10, 22)
    yield* sink.send([
      entry(1),
      entry(2, { receivedAt: midnight }),
      entry(3, { type: "client.updated" }),
      entry(4, { accountId: "acct_2" }),
      entry(5),
    ])
    expect(server.objects().map((one) => [one.name.replace(/\/[^/]*$/, "/"), ...idsOf(one)])).toEqual([
      ["/events/v1/date=2026-11-21/hour=08/appointment.created/acct_1/", "evt_1", "evt_5"],
      ["/events/v1/date=2026-11-21/hour=08/appointment.created/acct_2/", "evt_4"],
      ["/events/v1/date=2026-11-21/hour=08/client.updated/acct_1/", "evt_3"],
      ["/events/v1/date=2026-11-22/hour=00/appointment.created/acct_1/", "evt_2"],
    ])
  })

  test("keeps values from outside in their segment of the name", () => {
    const prefixOf = (accountId: string, prefix: unknown) =>
      (preview([entry(1, { accountId })], { prefix })[0]?.object ?? "").replace(/\d{8}T.*/, "")
    for (const [accountId, segment] of [
      ["../../other", ".._.._other"],
      ["..", "__"],
      ["", "_"],
      ["a b?c#d&é\ud800", "a_b_c_d___"],
    ] as const) {
      expect(prefixOf(accountId, "in/{{account_id}}/")).toBe(`in/${segment}/`)
    }
    expect(prefixOf("x", { jmespath: "join('/', ['a', '..', '', 'b', ''])" })).toBe("a/__/_/b/")
  })

  it.live("is compressed as a file whose name says so, or has plain lines", function* () {
    const { server, sink } = yield* started()
    yield* sink.send([entry(1)])
    const plain = yield* started(undefined, { compression: "none" })
    yield* plain.sink.send([entry(1)])
    const [zipped] = server.objects()
    const [lines] = plain.server.objects()
    expect(Buffer.from(gunzipSync(zipped?.bytes ?? new Uint8Array()))).toEqual(Buffer.from(lines?.bytes ?? []))
    expect([zipped?.name, lines?.name].map((name) => name?.replace(/^.*-[0-9a-f]{16}/, ""))).toEqual([
      ".ndjson.gz",
      ".ndjson",
    ])
    expect(server.asked[0]?.headers).toMatchObject({ "content-type": "application/gzip" })
    expect(server.asked[0]?.headers).not.toHaveProperty("content-encoding")
    expect(plain.server.asked[0]?.headers).toMatchObject({ "content-type": "application/x-ndjson" })
  })

  it.live("has CloudEvents of one line each, also of an envelope with line breaks", function* () {
    const { server, sink } = yield* started(undefined, { format: "cloudevents" })
    const body = bytes(JSON.stringify(envelope(2), null, 2))
    yield* sink.send([entry(1), entry(2, { body })])
    const [object] = server.objects()
    const lines = object === undefined ? [] : linesOf(object).map((line) => Buffer.from(line).toString())
    const headers = { "content-type": "application/cloudevents+json" }
    expect(lines.map((line) => HTTP.toEvent({ headers, body: line }))).toMatchObject([
      { id: "evt_1", data: envelope(1) },
      { id: "evt_2", data: envelope(2) },
    ])
  })

  it.live("leaves out an event without a name, and has the others", function* () {
    const { server, sink } = yield* started(undefined, { prefix: "{{account_id}}/" })
    const failures = yield* sink.send([entry(1), entry(2, { accountId: "x".repeat(2_000) }), entry(3)])
    expect(reasons(failures)).toEqual({ 1: "DeliveryRejected" })
    expect(failures.get(1)?.message).toMatch(/"prefix" makes a text of 2001 characters, and 924 are the most/)
    expect(server.objects().map(idsOf)).toEqual([["evt_1", "evt_3"]])
  })
})

describe("a PUT of an object", () => {
  it.live("is one request with a length and a hash, and without the checksums that services refuse", function* () {
    const { server, sink } = yield* started()
    yield* sink.send(entries(2))
    const { headers = {} } = server.asked.find(isPut) ?? {}
    expect(headers["content-length"]).toMatch(/^\d+$/)
    expect(headers["x-amz-content-sha256"]).toMatch(/^[0-9a-f]{64}$/)
    const names = Object.keys(headers)
    expect(names.filter((name) => /checksum|trailer|^transfer-encoding|^expect|content-encoding/.test(name))).toEqual(
      [],
    )
  })

  it.live("has the MD5 that a bucket with an object lock requires", function* () {
    const lock = error(400, "InvalidRequest", "Content-MD5 HTTP header is required for Put Object requests")
    const { reason } = yield* reasonAt(({ headers }) => (headers["content-md5"] === undefined ? lock : undefined))
    expect(reason).toBeUndefined()
  })

  it.live("is signed by the clock of S3 if this machine's is wrong", function* () {
    const ahead = 2 * 3_600_000
    const theirs = () => Date.now() + ahead
    const { reason, server, sink } = yield* reasonAt(({ signedAt }) =>
      Math.abs(signedAt - theirs()) < 900_000
        ? { status: 200, headers: { etag: "e", date: new Date(theirs()).toUTCString() } }
        : {
            status: 403,
            body: errorXml("RequestTimeTooSkewed"),
            headers: { date: new Date(theirs()).toUTCString() },
          },
    )
    expect(reason).toBeUndefined()
    expect(server.asked).toHaveLength(2)
    yield* sink.send([entry(2)])
    expect(server.asked).toHaveLength(3)
  })

  it.live("that is too large is halved until one event is too large by itself", function* () {
    const { server, sink } = yield* started((asked, body) =>
      isPut(asked) && idsIn(body).includes("evt_3") ? { status: 413, body: "<html>nginx</html>" } : undefined,
    )
    expect(reasons(yield* sink.send(entries(5)))).toEqual({ 2: "DeliveryRejected" })
    expect(server.objects().flatMap(idsOf).toSorted()).toEqual(["evt_1", "evt_2", "evt_4", "evt_5"])
  })

  it.live("that fails costs the events of its object alone", function* () {
    const { server, sink } = yield* started(
      ({ path }) => (path.includes("acct_2") ? error(400, "EntityTooLarge") : undefined),
      { prefix: "{{account_id}}/" },
    )
    const failures = yield* sink.send([entry(1), entry(2, { accountId: "acct_2" }), entry(3)])
    expect(reasons(failures)).toEqual({ 1: "DeliveryRejected" })
    expect(server.objects().map(idsOf)).toEqual([["evt_1", "evt_3"]])
  })

  it.live("is not made for the other objects of a batch once the bucket is away", function* () {
    const { server, sink } = yield* started(() => error(503, "ServiceUnavailable"), { prefix: "{{account_id}}/" })
    const batch = Array.from({ length: 40 }, (_, at) => entry(at + 1, { accountId: `acct_${at}` }))
    const failures = yield* sink.send(batch)
    expect(new Set(Object.values(reasons(failures)))).toEqual(new Set(["SinkUnavailable"]))
    expect(failures.size).toBe(40)
    expect(server.asked.length).toBeLessThan(40)
  })
})

/** Answers of S3, of compatible services, and of proxies in front of them. */
const answers: ReadonlyArray<readonly [title: string, fate: Fate, reason: Reason["_tag"], says: RegExp]> = [
  ["asks to slow down", error(503, "SlowDown"), "SinkThrottled", /asks to slow down \(SlowDown\)/],
  ["is away", error(503, "ServiceUnavailable"), "SinkUnavailable", /can't take events now \(503, ServiceUnavailable\)/],
  ["fails", error(500, "InternalError"), "SinkUnavailable", /\(500, InternalError\)/],
  ["gave up the request", error(400, "RequestTimeout"), "SinkUnavailable", /\(400, RequestTimeout\)/],
  ["got damaged bytes", error(400, "BadDigest"), "SinkUnavailable", /\(400, BadDigest\)/],
  ["is full", error(507, "XMinioStorageFull"), "SinkUnavailable", /\(507, XMinioStorageFull\)/],
  ["has a quota that is used up", error(403, "QuotaExceeded"), "SinkMisconfigured", /the quota .* is used up/],
  [
    "has the bucket in another region, and redirects",
    {
      status: 301,
      body: errorXml("PermanentRedirect", "The bucket you are attempting to access must be addressed otherwise."),
      headers: { "x-amz-bucket-region": "eu-central-1" },
    },
    "SinkMisconfigured",
    /the bucket is in eu-central-1: correct "region" \(301, PermanentRedirect\)/,
  ],
  [
    "was signed for another region",
    error(
      400,
      "AuthorizationHeaderMalformed",
      "The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'ap-northeast-1'",
      "<Region>ap-northeast-1</Region>",
    ),
    "SinkMisconfigured",
    /the bucket is in ap-northeast-1: correct "region"/,
  ],
  [
    "expects the region that compatible services name in a sentence alone",
    error(400, "AuthorizationHeaderMalformed", "the region &apos;eu&apos; is wrong; expecting &apos;auto&apos;"),
    "SinkMisconfigured",
    /the bucket is in auto: correct "region"/,
  ],
  [
    "redirects until the name of a new bucket is known",
    error(307, "TemporaryRedirect"),
    "SinkUnavailable",
    /\(307, TemporaryRedirect\)/,
  ],
  [
    "has no such bucket",
    error(404, "NoSuchBucket"),
    "SinkMisconfigured",
    /no such bucket: make it, or correct "bucket"/,
  ],
  [
    "does not let the role write",
    error(
      403,
      "AccessDenied",
      "User: arn:aws:iam::1:user/x is not authorized to perform: s3:PutObject on resource: x because no identity-based policy allows the s3:PutObject action",
    ),
    "SinkMisconfigured",
    /the credentials lack s3:PutObject: grant it$/,
  ],
  [
    "denies without a reason",
    error(403, "AccessDenied", "Access Denied"),
    "SinkMisconfigured",
    /grant s3:PutObject and s3:ListBucket on the bucket, in the bucket's own policy too/,
  ],
  [
    "may not use the key of the bucket",
    error(
      403,
      "AccessDenied",
      "User: arn:aws:iam::1:user/x is not authorized to perform: kms:GenerateDataKey on resource: arn:aws:kms:eu-west-1:1:key/1 because no identity-based policy allows the kms:GenerateDataKey action",
    ),
    "SinkMisconfigured",
    /the credentials lack kms:GenerateDataKey: grant it$/,
  ],
  [
    "has a bucket whose key is disabled",
    error(400, "KMS.DisabledException"),
    "SinkMisconfigured",
    /the key that encrypts the bucket is disabled: enable it/,
  ],
  ["knows no such access key", error(403, "InvalidAccessKeyId"), "SinkMisconfigured", /does not know this access key/],
  [
    "finds the secret wrong",
    error(
      403,
      "SignatureDoesNotMatch",
      "The request signature we calculated does not match the signature you provided. Check your key and signing method.",
    ),
    "SinkMisconfigured",
    /the secret of the access key is wrong/,
  ],
  ["does not know a header", error(501, "NotImplemented"), "SinkMisconfigured", /it is not compatible with S3 here/],
  [
    "is a page of another server",
    { status: 404, body: "<html>nginx</html>" },
    "SinkMisconfigured",
    /is not S3: correct "endpoint"/,
  ],
  [
    "is a page with status 200",
    { status: 200, body: "<html>Sign in</html>" },
    "SinkMisconfigured",
    /\(200\) is not S3/,
  ],
  ["never comes: the connection is reset", "reset", "SinkUnavailable", /closed before an answer/],
]

describe("an answer to a PUT", () => {
  for (const [title, fate, tag, says] of answers) {
    it.live(`that ${title} is ${tag}`, function* () {
      const { reason, server } = yield* reasonAt(() => fate)
      expect(reason?._tag).toBe(tag)
      expect(reason?.message).toMatch(says)
      expect(reason?.message).toContain(`S3 bucket events at ${server.url}`)
      expect(reason?.message).not.toContain("canary")
    })
  }
})

it.live("an answer that is no HTTP is not taken for one of TLS", function* () {
  const server = yield* listening(
    createServer((socket) => socket.once("data", () => socket.end("220 smtp.example.com ESMTP\r\n"))),
  )
  const sink = yield* openS3(() => ({ endpoint: server.url }))
  const reason = yield* reasonOf(sink.send([entry(1)]))
  expect(reason?._tag).toBe("SinkMisconfigured")
  expect(reason?.message).toMatch(/does not speak HTTP\/1\.1: correct "endpoint"$/)
})

describe("a check of a bucket", () => {
  const looked = (fate: Fate) => started((asked) => (isPut(asked) ? undefined : fate))

  it.live("passes without the right to list, and advice explains that", function* () {
    const { sink, server } = yield* looked(error(403, "AccessDenied", "Access Denied"))
    yield* sink.check
    expect(yield* sink.advise?.({ maxBody: 1 }) ?? Effect.succeed([])).toEqual([
      expect.stringMatching(/can't see whether the bucket events is there: grant s3:ListBucket on it/),
    ])
    expect((yield* sink.send([entry(1)])).size).toBe(0)
    expect(server.objects()).toHaveLength(1)
  })

  it.live("asks for no object, and fails like a PUT for a wrong answer", function* () {
    const { sink, server } = yield* looked({ status: 200, body: listed })
    yield* sink.check
    expect(server.asked.map(({ method, path }) => `${method} ${path}`)).toEqual(["GET /events/?list-type=2&max-keys=0"])
    for (const [fate, tag] of [
      [error(404, "NoSuchBucket"), "SinkMisconfigured"],
      [error(403, "InvalidAccessKeyId"), "SinkMisconfigured"],
      [{ status: 200, body: "<html>Sign in</html>" }, "SinkMisconfigured"],
      ["reset", "SinkUnavailable"],
    ] as const) {
      expect((yield* reasonOf((yield* looked(fate)).sink.check))?._tag).toBe(tag)
    }
  })
})

test("the config of an S3 sink refuses values that could never work, with a reason", () => {
  const decode = (more: object) => Schema.decodeUnknownSync(S3Config)({ ...required, ...more })
  for (const [more, says] of [
    [{ bucket: "s3://events/in" }, "write the name alone"],
    [{ region: "EU West" }, "this is not a region"],
    [{ prefix: "/in/" }, "begins with no `/`"],
    [{ prefix: "in//{{date}}/" }, "begins with no `/`, and has no segments that are empty"],
    [{ prefix: "in/../{{date}}/" }, "has no segments that are empty, `.` or `..`"],
    [{ prefix: "in {{date}}/" }, "a prefix has letters, digits"],
    [{ prefix: "in/%Y/%m/" }, "a prefix has no dates of strftime: write {{date}}"],
    [{ endpoint: "minio:9000" }, "this is not an http:// or https:// URL"],
    [{ profile: "one", credentials }, 'a "profile" and "credentials" exclude each other'],
    [{ body: {} }, 'a "body" needs "format": "template"'],
    [{ format: "template", body: "{{id}}" }, "the body must be a JSON object here"],
  ] as const) {
    expect(() => decode(more)).toThrow(says)
  }
  expect(decode({}).batch).toMatchObject({ maxEvents: 1_000, maxBytes: 4 * 1_024 * 1_024 })
})
