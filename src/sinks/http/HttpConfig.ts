/** The config of an HTTP sink; alert services share some of its keys. */
import { Effect, Redacted, Schema } from "effect"
import {
  batchFields as batch,
  bodyKey,
  bodyProblem,
  flag,
  headerName,
  oneOf,
  orExpression,
  Shape,
  template,
} from "../../config/schema/Keys.ts"
import type { OtherNames } from "../../config/schema/Traits.ts"
import type * as Jmespath from "../../formats/jmespath/Jmespath.ts"
import * as Template from "../../formats/Template.ts"
import type { Action } from "../alerts/Alert.ts"
import * as Certificates from "../Certificates.ts"
import { SignatureConfig } from "../Signing.ts"
import { OAuthConfig } from "./AccessTokens.ts"
import * as HttpAnswer from "./HttpAnswer.ts"
import { verdicts } from "./HttpAnswer.ts"
import { url } from "./HttpUrl.ts"

/** Headers that frame a request: fetch sets them, and other values would break the connection. */
const framing = ["connection", "content-length", "transfer-encoding", "upgrade"]

/** A template, which may hold a credential, or an expression. */
type HeaderValue = Redacted.Redacted<string> | Jmespath.Shape

/** A header's value as a text for `Template.compile`. */
export const headerText = (value: HeaderValue): Template.Text =>
  Redacted.isRedacted(value) ? Redacted.value(value) : value

/** The keys that depend on each other. */
interface Whole {
  readonly format: string
  readonly body?: unknown
  readonly trigger?: ActionConfig
  readonly update?: ActionConfig
  readonly resolve?: ActionConfig
  readonly dedupKey?: string
  readonly mode?: string
  readonly batch?: unknown
  readonly url: Redacted.Redacted<string>
  readonly headers: Readonly<Record<string, HeaderValue>>
  readonly oauth?: OAuthConfig
}

/** Whether a request holds a batch. */
export const isBatched = ({ format, mode }: Pick<Whole, "format" | "mode">): boolean =>
  format === "json" || format === "ndjson" || mode === "batched"

/** Reports the keys of a config that a batch excludes. */
const batchProblem = (config: Whole): Schema.FilterIssue | undefined => {
  if (!isBatched(config)) {
    if (config.batch === undefined) return undefined
    const issue = 'a "batch" needs "format": "json" or "ndjson", or "cloudevents" with "mode": "batched"'
    return { path: ["batch"], issue }
  }
  const isFilled = (value: HeaderValue) => !Template.isConstant(headerText(value))
  const issue = "a batch holds several events, so nothing here can be filled in from one of them"
  if (isFilled(config.url)) return { path: ["url"], issue }
  const header = Object.entries(config.headers).find(([, value]) => isFilled(value))
  return header === undefined ? undefined : { path: ["headers", header[0]], issue }
}

const methods = ["POST", "PUT", "PATCH"] as const
const classify = (description: string) =>
  Schema.Record(Schema.String, Schema.Literals(verdicts))
    .annotate({ description })
    .check(
      Schema.makeFilter((verdicts: Readonly<Record<string, unknown>>) =>
        Object.keys(verdicts)
          .filter((key) => !HttpAnswer.isStatus(key))
          .map((key) => ({
            path: [key],
            issue: 'this is not a status: write one such as "409", or a class such as "4xx"',
          })),
      ),
    )

const ActionConfig = Schema.Struct({
  url: Schema.optionalKey(
    url({
      description: "Its own address; path and query may hold placeholders",
      examples: ["https://example.com/alerts/{{key}}/close"],
    }),
  ),
  method: Schema.optionalKey(Schema.Literals(methods).annotate({ description: "Its own method", shown: true })),
  body: bodyKey({ ofAlert: true, description: "Its own body" }),
  classify: Schema.optionalKey(classify("Meanings of its answers, in addition to the sink's `classify`")),
})
type ActionConfig = typeof ActionConfig.Type

/** Reports a key for alerts without `format: template`, and an action without a body. */
const alertProblem = ({ format, body, trigger, update, resolve, dedupKey }: Whole): Schema.FilterIssue | undefined => {
  const key = Object.entries({ trigger, update, resolve, dedupKey }).find(([, value]) => value !== undefined)?.[0]
  if (format !== "template") {
    return key && { path: [key], issue: `"${key}" is for alerts, which need "format": "template"` }
  }
  if (body !== undefined || trigger?.body === undefined) return undefined
  const lacking = Object.entries({ update, resolve }).find(
    ([, action]) => action !== undefined && action.body === undefined,
  )
  return (
    lacking && {
      path: [lacking[0], "body"],
      issue: `it needs a "body": its own, or one beside "${lacking[0]}" for all actions`,
    }
  )
}

const BatchConfig = Schema.Struct(batch("Events in a request at most", 100))
/** The default of `batch`. */
export const usualBatch = Schema.decodeSync(BatchConfig)({})

/** The names of `url` in other programs. */
export const otherUrls: OtherNames = ["uri endpoint address webhook_url api_url", "url"]

const otherNames: ReadonlyArray<OtherNames> = [
  otherUrls,
  [
    "auth basic_auth bearer bearer_token authorization token api_key username user password http_config",
    "",
    `a credential is a header: "headers": { "authorization": "Bearer \${TOKEN}" }; or see "oauth"`,
  ],
  ["verb", "method"],
  ["encoding codec", "format"],
  ["payload template json data", "body", 'here it is called "body", with "format": "template"'],
  ["batching batch_size", "batch"],
  ["secret signing_secret hmac", "sign"],
  ["content_type", "headers", '"headers" may hold it: { "content-type": "…" }'],
  ["query params", "url", 'a query is a part of "url"'],
  ["compression compress", "", "bodies are sent as they are: take this key out"],
  ["proxy proxy_url", "", "the variable HTTPS_PROXY names a proxy"],
]

export const HttpConfig = Schema.Struct({
  url: url({
    description: "Address that receives the events; path and query may hold placeholders",
    examples: ["https://example.com/hooks", "https://example.com/{{resource}}/{{id}}"],
  }),
  method: oneOf("The request's method", methods, "POST"),
  headers: Schema.Record(
    Schema.String,
    Schema.Union([
      Schema.RedactedFromValue(
        // Not escaped, unlike a placeholder's value: a credential must be sent as it is.
        Schema.String.annotate({ shown: false }).check(
          Schema.isPattern(/^[\x20-\x7e]*$/, { message: "a header holds visible ASCII only, and no line break" }),
        ),
      ),
      Shape,
    ]).annotate({ ...orExpression, shown: false, ofAlert: true }),
  )
    .annotate({
      description:
        "Headers in addition to the relay's own; values are templates or expressions, and templates are never shown",
      headerNames: true,
    })
    .check(
      Schema.makeFilter((headers: Readonly<Record<string, unknown>>) =>
        Object.keys(headers)
          .filter((name) => framing.includes(name.toLowerCase()))
          .map((name) => ({ path: [name], issue: "this header is written by the relay itself: take it out" })),
      ),
    )
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  format: oneOf(
    "`raw`: the signed bytes. `cloudevents`: as CloudEvents 1.0. `template`: `body`, filled in. `json`: the bodies of a batch as an array. `ndjson`: one a line",
    ["raw", "cloudevents", "template", "json", "ndjson"],
    "raw",
  ),
  mode: Schema.optionalKey(
    Schema.Literals(["binary", "structured", "batched"]).annotate({
      description:
        "For `format: cloudevents`: `binary`, the usual one, is the signed bytes with attributes as headers; `structured` is one JSON document; `batched` is an array of them",
    }),
  ),
  batch: Schema.optionalKey(
    BatchConfig.annotate({ description: "How batches fill, for `json`, `ndjson` and batched CloudEvents" }),
  ),
  body: bodyKey({ ofAlert: true }),
  trigger: Schema.optionalKey(
    ActionConfig.annotate({
      description: "The request that opens an alert, for `format: template`; the sink's own keys are its defaults",
    }),
  ),
  update: Schema.optionalKey(
    ActionConfig.annotate({
      description:
        "The request that sends the newest count and state of an open alert, for `format: template` and a sink with `alert`; the sink's own keys are its defaults",
    }),
  ),
  resolve: Schema.optionalKey(
    ActionConfig.annotate({
      description:
        "The request that ends an alert, for `format: template`; the sink's own keys are its defaults. With it the sink also gets recoveries, such as `connected_account.reconnected`",
    }),
  ),
  dedupKey: Schema.optionalKey(
    template("The alert's key, `{{key}}`; may hold placeholders. By default the type, the account and the object"),
  ),
  forward: Schema.Struct({
    signature: headerName("Carries the sender's signature", "x-service-signature"),
    webhookId: headerName("Carries the sender's webhook id", "x-service-webhook-id"),
  })
    .annotate({ description: "Headers for values that came with the event, if the signed bytes are sent" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  oauth: Schema.optionalKey(OAuthConfig),
  sign: Schema.optionalKey(SignatureConfig),
  classify: classify(
    'Meaning of an answer, by status or class, if it differs from the default: `{ "409": "delivered" }`',
  ).pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  keepAnswers: flag(
    "Whether a failed attempt keeps the first 2 KiB of the answer's text, for `dlq show` and `explain --reveal`",
    true,
  ),
  tls: Schema.optionalKey(Certificates.CertificatesConfig.annotate({ description: "Certificates of one's own" })),
})
  .annotate({ otherNames })
  .check(
    Schema.makeFilter((config: Whole) => {
      const { format, mode, headers, oauth } = config
      const ofBody = alertProblem(config) ?? bodyProblem({ format, body: config.body ?? config.trigger?.body })
      if (ofBody !== undefined) return ofBody
      if (format !== "cloudevents" && mode !== undefined) {
        return { path: ["mode"], issue: 'a "mode" needs "format": "cloudevents"' }
      }
      const own = oauth && Object.keys(headers).find((name) => name.toLowerCase() === "authorization")
      if (own !== undefined) return { path: ["headers", own], issue: 'with "oauth" this header carries its token' }
      return batchProblem(config)
    }),
  )
export type HttpConfig = typeof HttpConfig.Type

/** Statuses that say that an alert's own address has no alert. */
const noAlert = { "404": "delivered", "410": "delivered" } as const

/** Returns the config of the requests of an action: its own keys, and the sink's for the rest. */
export const ofAction = (config: HttpConfig, action: Action): HttpConfig => {
  const given = config[action]
  if (given === undefined) return config
  const { classify, ...own } = given
  const isOfAlert = action !== "trigger" && Template.hasPlaceholder(Redacted.value(own.url ?? config.url))
  return { ...config, ...own, classify: { ...(isOfAlert && noAlert), ...config.classify, ...classify } }
}
