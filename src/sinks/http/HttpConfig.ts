/** The config of an HTTP sink; alert services share some of its keys. */
import { Effect, Schema } from "effect"
import { flag, headerName, oneOf, Shape } from "../../config/schema/Keys.ts"
import * as Certificates from "../Certificates.ts"
import { OAuthConfig } from "./AccessTokens.ts"
import * as HttpAnswer from "./HttpAnswer.ts"
import { SignatureConfig } from "./HttpSignature.ts"
import { url } from "./HttpUrl.ts"

/** Headers that frame a request: fetch sets them, and other values would break the connection. */
const framing = ["connection", "content-length", "transfer-encoding", "upgrade"]

/** The keys that depend on each other. */
interface Whole {
  readonly format: string
  readonly body?: unknown
  readonly mode?: string
  readonly headers: Readonly<Record<string, unknown>>
  readonly oauth?: OAuthConfig
}

export const HttpConfig = Schema.Struct({
  url: url({
    description: "Address that receives the events; path and query may hold placeholders",
    examples: ["https://example.com/hooks", "https://example.com/{{resource}}/{{id}}"],
  }),
  method: oneOf("The request's method", ["POST", "PUT", "PATCH"], "POST"),
  headers: Schema.Record(
    Schema.String,
    Schema.RedactedFromValue(
      // Not escaped, unlike a placeholder's value: a credential must be sent as it is.
      Schema.String.annotate({ template: true, shown: false }).check(
        Schema.isPattern(/^[\x20-\x7e]*$/, { message: "a header holds visible ASCII only, and no line break" }),
      ),
    ),
  )
    .annotate({
      description: "Headers beside those of the relay; values may hold placeholders and are never shown",
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
    "`raw`: the signed bytes. `cloudevents`: as CloudEvents 1.0. `template`: `body`, filled in",
    ["raw", "cloudevents", "template"],
    "raw",
  ),
  mode: Schema.optionalKey(
    Schema.Literals(["binary", "structured"]).annotate({
      description:
        "For `format: cloudevents`: `binary`, the usual one, is the signed bytes with attributes as headers; `structured` is one JSON document",
    }),
  ),
  body: Schema.optionalKey(
    Schema.Union([Shape, Schema.Json]).annotate({
      template: true,
      description: "For `format: template`: any JSON whose strings may hold placeholders",
    }),
  ),
  forward: Schema.Struct({
    signature: headerName("Carries the sender's signature", "x-service-signature"),
    webhookId: headerName("Carries the sender's webhook id", "x-service-webhook-id"),
  })
    .annotate({ description: "Headers that carry what came with the event, where the signed bytes are sent" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  oauth: Schema.optionalKey(OAuthConfig),
  sign: Schema.optionalKey(SignatureConfig),
  classify: Schema.Record(Schema.String, Schema.Literals(HttpAnswer.verdicts))
    .annotate({
      description: 'Meaning of an answer, by status or class, where it is not the usual: `{ "409": "delivered" }`',
    })
    .check(
      Schema.makeFilter((verdicts: Readonly<Record<string, unknown>>) =>
        Object.keys(verdicts)
          .filter((key) => !HttpAnswer.isStatus(key))
          .map((key) => ({
            path: [key],
            issue: 'this is no status: write one such as "409", or a class such as "4xx"',
          })),
      ),
    )
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  keepAnswers: flag(
    "Whether a failed attempt keeps the first 2 KiB of the answer's text, for `dlq show` and `explain --reveal`",
    true,
  ),
  tls: Schema.optionalKey(Certificates.CertificatesConfig.annotate({ description: "Certificates of one's own" })),
}).check(
  Schema.makeFilter(({ format, body, mode, headers, oauth }: Whole) => {
    if (format === "template" && body === undefined) {
      return { path: ["body"], issue: '"format": "template" needs a "body" to fill in' }
    }
    if (format !== "template" && body !== undefined) {
      return { path: ["body"], issue: `a "body" needs "format": "template": with "${format}" the event itself is sent` }
    }
    if (format !== "cloudevents" && mode !== undefined) {
      return { path: ["mode"], issue: 'a "mode" needs "format": "cloudevents"' }
    }
    const own = oauth && Object.keys(headers).find((name) => name.toLowerCase() === "authorization")
    if (own !== undefined) return { path: ["headers", own], issue: 'with "oauth" this header carries its token' }
    return undefined
  }),
)
export type HttpConfig = typeof HttpConfig.Type
