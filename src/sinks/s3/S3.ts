/**
 * The S3 sink: a batch as one object of NDJSON, plain or compressed, at AWS or at a
 * service that is compatible. Events whose templates of `prefix` make different texts
 * are in different objects.
 *
 * **Guarantee.** An object has whole lines: a PUT stores all of it or nothing. Its
 * name is a function of its events and lines, so the same batch overwrites its object,
 * and no two contents have the same name. A batch that is cut otherwise after a crash
 * repeats whole events in another object.
 *
 * **Gotcha.** Requests are signed here, without the SDK's client: its checksums and
 * chunks are refused by services that are compatible with the older protocol.
 */
import { createHash } from "node:crypto"
import { promisify } from "node:util"
import { gzip } from "node:zlib"
import { Array as Arr, Clock, Duration, Effect, Schema, type Scope, Semaphore } from "effect"
import { body, bodyProblem, countOr, oneOf, textOrShapeOr } from "../../config/schema/Keys.ts"
import { Units } from "../../config/schema/Units.ts"
import type { Entry } from "../../event/Event.ts"
import { idempotencyKey, sha256 } from "../../event/IdempotencyKey.ts"
import { traceHeaders } from "../../event/TraceContext.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import { displayBytes, rawLine, Unrenderable } from "../../formats/Rendering.ts"
import * as Template from "../../formats/Template.ts"
import * as HttpTransport from "../../runtime/HttpTransport.ts"
import * as AwsClient from "../aws/AwsClient.ts"
import * as AwsConfig from "../aws/AwsConfig.ts"
import * as AwsErrors from "../aws/AwsErrors.ts"
import { inHalves } from "../http/HttpRequest.ts"
import * as MessageKeys from "../MessageKeys.ts"
import { type Placed, renderEach } from "../Rendered.ts"
import {
  allSent,
  isFinal,
  misconfigured,
  type Sink,
  type SinkError,
  type SinkType,
  unacceptable,
  unavailable,
} from "../Sink.ts"

// The config of an S3 sink.

/** Any other character than those that every service and tool accepts in a name. */
const other = /[^A-Za-z0-9._=/-]/g

/** Reports a prefix that no event can have, or that programs would take for another. */
const prefixProblem = ({ prefix }: { readonly prefix: Template.Text }): Schema.FilterIssue | undefined => {
  if (typeof prefix !== "string") return undefined
  const text = Template.withoutPlaceholders(prefix)
  const issue = (issue: string) => ({ path: ["prefix"], issue })
  if (/%[A-Za-z]/.test(text)) {
    return issue('a prefix has no dates of strftime: write {{date}} and {{hour}}, as in "events/{{date}}/"')
  }
  if (text.search(other) !== -1) {
    return issue("a prefix has letters, digits and `.`, `_`, `=`, `-` and `/`: many tools take no other characters")
  }
  return /^\/|\/\/|(^|\/)\.\.?(\/|$)/.test(text)
    ? issue("a prefix begins with no `/`, and has no segments that are empty, `.` or `..`")
    : undefined
}

export const S3Config = Schema.Struct({
  bucket: Schema.String.annotate({
    description: "The bucket. It must exist",
    examples: ["example-events"],
    target: "place",
    shown: true,
  }).check(
    Schema.isPattern(/^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$/u, {
      message: 'this is not the name of a bucket: write the name alone, as in "example-events"',
    }),
  ),
  region: Schema.String.annotate({
    description: "The region of the bucket. Most compatible services take `us-east-1`",
    examples: ["eu-west-1"],
    shown: true,
  }).check(Schema.isPattern(/^[a-z0-9-]+$/u, { message: 'this is not a region: write it as in "eu-west-1"' })),
  prefix: textOrShapeOr(
    "A template: how the names of objects begin. Events that it separates are in objects of their own",
    "{{date}}/",
  ),
  format: oneOf(
    "Content of a line. `raw`: the signed body. `cloudevents`: a JSON document, CloudEvents 1.0. `template`: `body`, filled in",
    ["raw", "cloudevents", "template"],
    "raw",
  ),
  body,
  compression: oneOf("`gzip`: objects are compressed, and their names end in `.gz`", ["gzip", "none"], "gzip"),
  endpoint: AwsConfig.endpoint("S3"),
  pathStyle: Schema.optionalKey(
    Schema.Boolean.annotate({
      description:
        "Whether the bucket is in the path of the URL and not in its host name (default: with an `endpoint`, and for a bucket with a dot)",
    }),
  ),
  ...AwsConfig.identityKeys,
  batch: Schema.Struct({
    maxEvents: countOr("Maximum events of an object", 1_000, 1, 1_000),
    maxBytes: Units.bytes.or("4 MiB", "Maximum bytes of their bodies; a larger event is sent alone"),
    linger: Units.duration.or("1 minute", "How long an object may wait to fill"),
  })
    .annotate({ description: "How objects fill" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
}).check(
  Schema.makeFilter(bodyProblem),
  Schema.makeFilter(MessageKeys.objectProblem),
  Schema.makeFilter(prefixProblem),
  AwsConfig.oneIdentity,
)
export type S3Config = typeof S3Config.Type

// Lines, and the objects that they make.

interface Line {
  readonly entry: Entry
  readonly prefix: string
  readonly line: Uint8Array
}

const lineMaker = ({ format, body }: Pick<S3Config, "format" | "body">): ((entry: Entry) => Uint8Array) => {
  if (format === "raw") return ({ event }) => rawLine(event)
  if (format === "template") {
    const objectOf = MessageKeys.objectOf(body)
    return (entry) => Buffer.from(objectOf(entry))
  }
  return (entry) => {
    const text = CloudEvents.structured(entry, Object.fromEntries(traceHeaders(entry.event)))
    // An envelope may have line breaks between its values.
    return Buffer.from(/[\r\n]/.test(text) ? JSON.stringify(JSON.parse(text)) : text)
  }
}

/** Bytes that S3 allows for a name, without the sink's own part of it. */
const longestPrefix = 1_024 - 100

/** Segments that are empty or dots would be resolved away on the way. */
const fitSegment = (segment: string): string => (/^\.{0,2}$/.test(segment) ? "_".repeat(segment.length || 1) : segment)

/** Returns a function that makes the prefix of an event. It throws if the prefix is too long. */
const prefixMaker = ({ prefix }: Pick<S3Config, "prefix">): ((entry: Entry) => string) => {
  // Slashes of an expression's result are levels. Slashes of a value in a text aren't.
  const template = Template.compile(prefix, typeof prefix === "string" ? "topic" : "text", "prefix")
  return (entry) => {
    const segments = template.render(entry).replace(other, "_").split("/")
    // What follows the last slash begins the name itself.
    const last = segments.pop() ?? ""
    const made = [...segments.map(fitSegment), last].join("/")
    if (made.length <= longestPrefix) return made
    throw new Unrenderable(`"prefix" makes a text of ${made.length} characters, and ${longestPrefix} are the most`)
  }
}

const encoder = (config: S3Config): ((entry: Entry) => Line) => {
  const [prefixOf, lineOf] = [prefixMaker(config), lineMaker(config)]
  return (entry) => ({ entry, prefix: prefixOf(entry), line: lineOf(entry) })
}

/** The lines of one object. */
type Lines = Arr.NonEmptyReadonlyArray<Line>

interface Content {
  readonly name: string
  /** The lines, as they are before compression. */
  readonly bytes: Buffer
}

const lineFeed = Buffer.from("\n")

/** Makes the object of lines with one prefix. */
const contentOf = (lines: Lines, { compression }: Pick<S3Config, "compression">): Content => {
  const bytes = Buffer.concat(lines.flatMap(({ line }) => [line, lineFeed]))
  const hash = createHash("sha256").update(bytes)
  for (const { entry } of lines) hash.update(`${entry.event.webhook}:${idempotencyKey(entry)}\n`)
  const { prefix, entry } = lines[0]
  // Names sort by time, and within a millisecond by place in the log.
  const time = new Date(entry.event.receivedAt).toISOString().replace(/[-:.]/g, "")
  const place = String(entry.sequence).padStart(12, "0")
  const suffix = compression === "gzip" ? "ndjson.gz" : "ndjson"
  return { name: `${prefix}${time}-${place}-${hash.digest("hex").slice(0, 16)}.${suffix}`, bytes }
}

/** The lines by their prefix, in the order of the first of each. */
const grouped = <A>(all: ReadonlyArray<A>, prefixOf: (one: A) => string): ReadonlyArray<Arr.NonEmptyReadonlyArray<A>> =>
  [...Map.groupBy(all, prefixOf).values()].filter((group) => Arr.isReadonlyArrayNonEmpty(group))

// The meaning of an answer.

const service: AwsErrors.Service = {
  name: "S3",
  thing: "bucket",
  endpointKey: "endpoint",
  rights: "s3:PutObject and s3:ListBucket on the bucket",
  advice: {
    NoSuchBucket: 'there is no such bucket: make it, or correct "bucket"',
    InvalidBucketName: 'S3 allows no such name: correct "bucket"',
    AllAccessDisabled: "the bucket is disabled: ask its owner",
    NotSignedUp: "the account is not signed up for S3",
    QuotaExceeded: "the quota of the bucket or the account is used up: raise it, or delete objects",
    NotImplemented: "the service does not know a part of the request: it is not compatible with S3 here",
  },
}

/** Codes of a request that was damaged or refused on the way, and that may pass when it is repeated. */
const passing: ReadonlySet<string> = new Set([
  "BadDigest",
  "XAmzContentSHA256Mismatch",
  "IncompleteBody",
  "OperationAborted",
  "TemporaryRedirect",
])

/** Codes of a request that was signed for another region, or sent to one. */
const ofRegion: ReadonlySet<string> = new Set([
  "PermanentRedirect",
  "AuthorizationHeaderMalformed",
  "IllegalLocationConstraint",
])

/** An answer, with its body as far as it was read. */
interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

/** The text of an element. Errors of S3 are a flat list of them. */
const elementOf = (text: string, name: string): string =>
  new RegExp(`<${name}>([^<]*)</${name}>`)
    .exec(text)?.[1]
    ?.replace(/&(apos|#39);/g, "'")
    .replace(/&(quot|#34);/g, '"') ?? ""

/** The region that S3 names instead of the sink's. */
const regionIn = ({ headers, text }: Answer): string | undefined => {
  const named = [
    headers.get("x-amz-bucket-region") ?? "",
    elementOf(text, "Region"),
    /expecting '([^']*)'/.exec(elementOf(text, "Message"))?.[1] ?? "",
  ]
  return named.find((region) => /^[a-z0-9-]{2,32}$/.test(region))
}

const failureOf = (answer: Answer): AwsErrors.AwsError =>
  AwsErrors.ofAnswer({
    code: elementOf(answer.text, "Code"),
    detail: elementOf(answer.text, "Message"),
    status: answer.status,
    retryAfter: answer.headers.get("retry-after") ?? "",
  })

/** The reason for an answer that is not a success. */
const refusalOf = (answer: Answer, place: AwsErrors.Place): SinkError => {
  const error = failureOf(answer)
  const { code, status } = error
  const at = AwsErrors.placeOf(place)
  if (ofRegion.has(code)) {
    const region = regionIn(answer)
    const todo = region === undefined ? 'another region: correct "region" or "endpoint"' : `${region}: correct "region"`
    return misconfigured(`${at}: the bucket is in ${todo} (${status}, ${code})`)
  }
  if (code === "EntityTooLarge") return unacceptable(`${at} finds the object too large (${code})`)
  if (passing.has(code)) return unavailable(`${at} can't take events now (${status}, ${code})`)
  return AwsErrors.sinkErrorOf(error, place)
}

// Requests.

/** Where the bucket is: the origin of its URLs, and how their paths begin. */
export const addressOf = ({
  bucket,
  region,
  endpoint,
  pathStyle,
}: Pick<S3Config, "bucket" | "region" | "endpoint" | "pathStyle">) => {
  const suffix = region.startsWith("cn-") ? ".cn" : ""
  const url = new URL(endpoint ?? `https://s3.${region}.amazonaws.com${suffix}`)
  // AWS's certificate is for one label before its own name.
  if (pathStyle ?? (endpoint !== undefined || bucket.includes("."))) return { origin: url.origin, root: `/${bucket}` }
  url.host = `${bucket}.${url.host}`
  return { origin: url.origin, root: "" }
}

interface Request {
  readonly method: "GET" | "PUT"
  /** The object; empty for the bucket itself. */
  readonly name: string
  readonly query: string
  readonly headers: Readonly<Record<string, string>>
  readonly bytes: Uint8Array
}

/** The request that `check` sends to the bucket. */
const looking: Request = {
  method: "GET",
  name: "",
  query: "list-type=2&max-keys=0",
  headers: {},
  bytes: new Uint8Array(0),
}

/** Less than the attempt may take: after an attempt without an end, the lane sends each event alone. */
const requestTimeout = Duration.seconds(20)

/** The most milliseconds that a clock may be wrong. S3 allows 15 minutes. */
const tolerance = 240_000
/** Credentials are renewed this number of milliseconds before they expire. */
const renewedBefore = 60_000

type Ask = (request: Request) => Effect.Effect<Answer, SinkError>

/** Makes the requests of a sink. They are signed by the clock of the service if this machine's is wrong. */
const requests = Effect.fnUntraced(function* (config: S3Config, place: AwsErrors.Place) {
  const { origin, root } = addressOf(config)
  const fetch = yield* HttpTransport.make()
  const clock = yield* Clock.Clock
  const look = yield* AwsClient.credentials(config, place)
  const oneAtATime = Semaphore.makeUnsafe(1)
  let kept: AwsClient.Credentials | undefined
  /** Milliseconds that the clock of the service is ahead. */
  let ahead = 0
  /** The name of the service may lead to another server now, while the failing server lives on. */
  let mayHaveMoved = false
  const now = (): number => clock.currentTimeMillisUnsafe() + ahead

  const expiresWithin = (millis: number): boolean =>
    kept?.expiration !== undefined && kept.expiration.getTime() - now() < millis

  const credentials = oneAtATime.withPermit(
    Effect.suspend(() => {
      const known = kept
      if (known !== undefined && !expiresWithin(renewedBefore)) return Effect.succeed(known)
      const found = Effect.tap(look, (found) => Effect.sync(() => (kept = found)))
      return known === undefined || expiresWithin(0) ? found : Effect.orElseSucceed(found, () => known)
    }),
  )

  const exchange = (url: string, init: RequestInit): Effect.Effect<Answer, SinkError> =>
    Effect.callback<Answer, SinkError>((resume) => {
      const abort = new AbortController()
      const answered = async (): Promise<Answer> => {
        const response = await fetch(url, { ...init, signal: abort.signal })
        const body = await HttpTransport.drain(response, abort)
        return { status: response.status, headers: response.headers, text: Buffer.concat(body).toString() }
      }
      answered().then(
        (answer) => resume(Effect.succeed(answer)),
        (error) => resume(Effect.fail(AwsErrors.sinkErrorOf(AwsErrors.ofThrown(error), place))),
      )
      return Effect.sync(() => abort.abort())
    }).pipe(
      Effect.timeoutOrElse({
        duration: requestTimeout,
        orElse: () =>
          Effect.fail(
            unavailable(`${AwsErrors.placeOf(place)} did not answer within ${Duration.format(requestTimeout)}`),
          ),
      }),
    )

  /** Compares the clocks. Reports whether the difference has changed. */
  const compare = ({ headers }: Answer): boolean => {
    const theirs = Date.parse(headers.get("date") ?? "")
    if (Number.isNaN(theirs) || Math.abs(theirs - now()) < tolerance) return false
    ahead = theirs - clock.currentTimeMillisUnsafe()
    return true
  }

  const ask: Ask = ({ method, name, query, headers, bytes }) =>
    Effect.flatMap(credentials, (found) => {
      const path = `${root}/${name}`.split("/").map(AwsClient.encoded).join("/")
      const signed = AwsClient.signedHeaders(
        { method, host: new URL(origin).host, path, query, headers, hash: sha256(bytes) },
        found,
        { region: config.region, service: "s3", now: now() },
      )
      const url = `${origin}${path}${query === "" ? "" : `?${query}`}`
      const body = method === "PUT" ? { body: bytes as Uint8Array<ArrayBuffer> } : {}
      const more = { "user-agent": HttpTransport.userAgent, "accept-encoding": "identity" }
      // A kept connection would lead to the same server again.
      return exchange(url, { method, headers: { ...more, ...signed }, ...body, keepalive: !mayHaveMoved })
    })

  /** Returns the answer. Asks again if only the clock was wrong. */
  const answerTo = (request: Request, mayRepeat = true): Effect.Effect<Answer, SinkError> =>
    Effect.flatMap(ask(request), (answer) => {
      const hasChanged = compare(answer)
      mayHaveMoved = answer.status >= 500 || answer.status === 404
      if (answer.status !== 200 && AwsErrors.isOfCredentials(failureOf(answer))) kept = undefined
      return hasChanged && mayRepeat && answer.status === 403 ? answerTo(request, false) : Effect.succeed(answer)
    })
  return answerTo
})

const compressed = promisify(gzip)

/** Uploads of a batch in parallel. */
const atOnce = 8

const make = Effect.fnUntraced(function* (config: S3Config): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const { bucket, endpoint = "", profile = "", batch, compression } = config
  const name = `${bucket}${HttpTransport.ofTheWay(addressOf(config).origin)}`
  const place: AwsErrors.Place = { service, name, endpoint, profile }
  const answerTo = yield* requests(config, place)
  const encode = encoder(config)

  const put = Effect.fnUntraced(function* ({ name, bytes }: Content) {
    const sent = compression === "gzip" ? yield* Effect.promise(() => compressed(bytes)) : bytes
    const headers = {
      "content-type": compression === "gzip" ? "application/gzip" : "application/x-ndjson",
      // A bucket with an object lock requires it.
      "content-md5": createHash("md5").update(sent).digest("base64"),
    }
    const answer = yield* answerTo({ method: "PUT", name, query: "", headers, bytes: sent })
    if (answer.status !== 200) return yield* refusalOf(answer, place)
    // A web page with status 200 has none.
    return answer.headers.has("etag") ? allSent : yield* AwsErrors.notTheService(place)
  })

  const deliver = inHalves((entries) => put(contentOf(Arr.map(entries, encode), config)))
  const send: Sink["send"] = Effect.fnUntraced(function* (entries) {
    const failures = new Map<number, SinkError>()
    const groups = grouped(renderEach(entries, encode, failures), ({ message }) => message.prefix)
    const isOne = groups.length === 1 && failures.size === 0
    let away: SinkError | undefined
    const sendGroup = Effect.fnUntraced(function* (group: Arr.NonEmptyReadonlyArray<Placed<Line>>) {
      const sent = away === undefined ? deliver(group.map(({ message }) => message.entry)) : Effect.fail(away)
      const result = yield* Effect.result(sent)
      if (result._tag === "Failure" && isOne) return yield* result.failure
      for (const [at, { index }] of group.entries()) {
        const error = result._tag === "Failure" ? result.failure : result.success.get(at)
        if (error === undefined) continue
        failures.set(index, error)
        if (!isFinal(error)) away = error
      }
    })
    yield* Effect.forEach(groups, sendGroup, { concurrency: atOnce, discard: true })
    return failures
  })

  /** Looks at the bucket. Returns false if the relay may not. */
  const look = Effect.gen(function* () {
    const answer = yield* answerTo(looking)
    // The right to write is enough to send, and the right to list is another.
    if (AwsErrors.isDenial(failureOf(answer).code)) return false
    if (answer.status !== 200) return yield* refusalOf(answer, place)
    return answer.text.includes("<ListBucketResult") || (yield* AwsErrors.notTheService(place))
  })

  return {
    batch: { maxEvents: batch.maxEvents, maxBytes: batch.maxBytes, linger: Duration.toMillis(batch.linger) },
    send,
    check: Effect.asVoid(look),
    advise: () =>
      Effect.map(look, (isSeen) =>
        isSeen
          ? []
          : [
              `the relay can't see whether the bucket ${bucket} is there: grant s3:ListBucket on it, or send an event with \`relay trigger\``,
            ],
      ),
  }
})

export const S3: SinkType<S3Config> = {
  config: S3Config,
  ...AwsClient.traits,
  timeout: { value: "30 seconds", because: "the 30 seconds that the upload of an object may take" },
  open: make,
  isBatched: () => true,
  preview: (config, batch) =>
    grouped(batch.map(encoder(config)), ({ prefix }) => prefix).map((lines) => ({
      bucket: config.bucket,
      object: contentOf(lines, config).name,
      lines: lines.map(({ line }) => displayBytes(line)),
    })),
}
