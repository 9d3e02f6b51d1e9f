/** The keys of a webhook that say how another sender than the scheduling service signs, and what its deliveries have. */
import { Effect, Schema } from "effect"
import { senderNames } from "../../routing/Foreign.ts"
import {
  anyHeaderName,
  asList,
  count,
  flag,
  oneOf,
  orExpression,
  rateLimit,
  secret,
  Text,
  text,
  textOr,
  textOrTexts,
} from "./Keys.ts"
import { Units } from "./Units.ts"

/** A scheme that a config writes out. The rows of `schemes` have the same form. */
const Hmac = Schema.Struct({
  header: anyHeaderName("The header of the signature"),
  algorithm: oneOf("The hash of the HMAC", ["sha256", "sha1", "sha512"], "sha256"),
  encoding: oneOf("How the signature is written; hexadecimal digits may be of either case", ["hex", "base64"], "hex"),
  prefix: Schema.optionalKey(text("The text before each signature, such as `sha256=`")),
  separator: Schema.optionalKey(
    text("The text between the header's parts, if it has several; one signature must match"),
  ),
  signed: textOr("The signed text: `{{timestamp}}`, `{{id}}` and `{{body}}`, which it must have", "{{body}}"),
  timestamp: Schema.optionalKey(
    text("The header of the time in Unix seconds; with `=` at its end, the start of a part of the signature's header"),
  ),
  id: Schema.optionalKey(anyHeaderName("The header that `{{id}}` stands for")),
  tolerance: Units.duration.or("5 minutes", "How far the signed time may be from now, in both directions"),
  secret: oneOf("Whether the secret is text, or base64 that may begin with `whsec_`", ["text", "base64"], "text"),
})

const Expression = Schema.Struct({ jmespath: text("A JMESPath expression over the body") })
const place = Schema.Union([Text, Expression])
const placed = (description: string) =>
  Schema.optionalKey(place.annotate({ ...orExpression, template: false, description }))

const Places = Schema.Struct({
  id: placed("The id of the event"),
  type: Schema.optionalKey(
    asList(
      Schema.Union([Text, Expression, Schema.Array(place)]).annotate({
        shown: true,
        description: "The type; several parts are joined by dots, without missing ones",
        expected: 'text, { "jmespath": "…" }, or a list of them',
      }),
      place,
    ),
  ),
  account: placed("The account"),
  time: placed("The time of the event: ISO 8601, or seconds or milliseconds since 1970"),
  types: textOrTexts("The types that this sender sends, so that patterns can be checked").pipe(
    Schema.withDecodingDefaultKey(Effect.succeed([])),
  ),
}).annotate({
  description:
    'Where another sender\'s deliveries have an event\'s facts: a header\'s name, a JSON Pointer into the body, or `{ "jmespath": "…" }` over the body',
})

/** The keys that only a webhook with `verify` has, beside `verify` itself. */
export const foreignKeys = ["event", "verifyToken", "gzip"] as const

export const senderKeys = {
  verify: Schema.optionalKey(
    Schema.Union([Schema.Literals(senderNames), Hmac]).annotate({
      description: "How another sender than the scheduling service signs: the name of a scheme, or its parts",
      expected: `${senderNames.map((name) => `"${name}"`).join(", ")}, or an object with at least a "header"`,
    }),
  ),
  event: Schema.optionalKey(Places),
  verifyToken: Schema.optionalKey(
    secret("Answers a GET whose `hub.verify_token` is this with its `hub.challenge`, as senders such as Meta want"),
  ),
  gzip: flag("Accept bodies with `Content-Encoding: gzip`; the signature must be of the unpacked body", false),
} as const

/** The keys that limit a webhook's use of the relay, and the fields that are shown. */
export const limitKeys = {
  rateLimit: Schema.optionalKey(
    rateLimit("Maximum verified deliveries, at each relay; beyond it they get a 429 with `Retry-After`"),
  ),
  journalShare: Schema.optionalKey(
    count(
      "Percent of the journal's `maxSize`. While the journal has more, the webhook's deliveries get a 503, and the rest stays for other webhooks",
      92,
      99,
    ),
  ),
  mask: textOrTexts("Fields of the body to mask, at any depth, besides those that are masked anyway").pipe(
    Schema.withDecodingDefaultKey(Effect.succeed([])),
  ),
} as const
