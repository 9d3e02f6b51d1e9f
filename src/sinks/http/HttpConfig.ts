/** The config of an HTTP sink; alert services share some of its keys. */
import { Effect, Schema } from "effect"
import { flag, headerName, oneOf } from "../../config/schema/Keys.ts"
import * as Template from "../../formats/Template.ts"
import * as Certificates from "../Certificates.ts"
import * as HttpAnswer from "./HttpAnswer.ts"
import { SignatureConfig } from "./HttpSignature.ts"

/** What is wrong with a URL, in words; `undefined` when nothing. */
const urlProblem = (url: string): string | undefined => {
  const authority = /^https?:\/\/([^/?#\\\s]+)/i.exec(url)?.[1]
  if (authority === undefined) return "this is no http:// or https:// URL"
  if (Template.hasPlaceholder(authority)) {
    return "the host of a URL can't hold a placeholder: an event would decide who gets it"
  }
  if (authority.includes("@")) return 'a URL holds no user and password: put them into "headers", as authorization'
  return URL.canParse(Template.withoutPlaceholders(url)) ? undefined : "this is no http:// or https:// URL"
}

/** A URL to send to. It is never shown: for many services it is the secret. */
export const url = (doc: {
  readonly description: string
  readonly examples: ReadonlyArray<string>
  readonly default?: string
}) =>
  Schema.RedactedFromValue(
    Schema.String.annotate({ ...doc, template: true, shown: false }).check(
      Schema.makeFilter(urlProblem, {
        expected: "an http:// or https:// URL",
        toJsonSchema: () => ({ pattern: "^[Hh][Tt][Tt][Pp][Ss]?://" }),
      }),
    ),
  )

/** Headers that frame a request: fetch sets them, and other values would break the connection. */
const framing = ["connection", "content-length", "transfer-encoding", "upgrade"]

export const HttpConfig = Schema.Struct({
  url: url({
    description: "Where events are sent; path and query may hold placeholders",
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
          .map((name) => ({ path: [name], issue: "this header is written by the relay itself" })),
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
    Schema.Json.annotate({
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
  sign: Schema.optionalKey(SignatureConfig),
  classify: Schema.Record(Schema.String, Schema.Literals(HttpAnswer.verdicts))
    .annotate({
      description: 'What an answer means, by status or class, where it is not the usual: `{ "409": "delivered" }`',
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
  Schema.makeFilter(({ format, body, mode }: { readonly format: string; readonly body?: unknown; mode?: string }) => {
    if (format === "template" && body === undefined) {
      return { path: ["body"], issue: '"format": "template" needs a "body" to fill in' }
    }
    if (format !== "template" && body !== undefined) {
      return { path: ["body"], issue: `a "body" needs "format": "template": with "${format}" the event itself is sent` }
    }
    if (format !== "cloudevents" && mode !== undefined) {
      return { path: ["mode"], issue: 'a "mode" needs "format": "cloudevents"' }
    }
    return undefined
  }),
)
export type HttpConfig = typeof HttpConfig.Type
