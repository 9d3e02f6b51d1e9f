/** The config of an SNS sink. */
import { Effect, Schema } from "effect"
import { oneOf, secret, templateOr, text } from "../../config/schema/Keys.ts"
import { Units } from "../../config/schema/Units.ts"

export const SnsConfig = Schema.Struct({
  topicArn: Schema.String.annotate({
    description: "The topic; one whose name ends in `.fifo` keeps order by `key`",
    examples: ["arn:aws:sns:eu-west-1:123456789012:events"],
    shown: true,
  }).check(
    Schema.isPattern(/^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?$/u, {
      message: 'this is no ARN of a topic: write it as in "arn:aws:sns:eu-west-1:123456789012:events"',
    }),
  ),
  format: oneOf(
    "`raw`: the signed bytes. `cloudevents`: one JSON document, CloudEvents 1.0",
    ["raw", "cloudevents"],
    "raw",
  ),
  // The lane reads it too: it is both the order key and the message group.
  key: templateOr(
    "A template over the envelope: what `order` keeps apart, and the group on a FIFO topic",
    "{{account_id}}",
  ),
  region: Schema.optionalKey(text("The region to sign for; by default the topic's")),
  endpoint: Schema.optionalKey(
    Schema.String.annotate({
      description: "Where SNS is, when it is not where AWS says: an interface endpoint, a local one",
      examples: ["http://127.0.0.1:4566"],
      // One that is written wrong may hold a password.
      shown: false,
    }).check(
      Schema.makeFilter(
        (url: string) =>
          (/^https?:\/\/[^/?#@\s]+\/?$/i.test(url) && URL.canParse(url)) ||
          "this is no http:// or https:// URL of a host: it has no path, and no user",
        { expected: "an http:// or https:// URL", toJsonSchema: () => ({ pattern: "^[Hh][Tt][Tt][Pp][Ss]?://" }) },
      ),
    ),
  ),
  profile: Schema.optionalKey(text("A profile of the AWS config files, such as `~/.aws/config`")),
  credentials: Schema.optionalKey(
    Schema.Struct({
      accessKeyId: text("The access key", { shown: false }),
      secretAccessKey: secret("The secret of the access key"),
      sessionToken: Schema.optionalKey(secret("The token of temporary credentials")),
    }).annotate({ description: "An access key; without it, and without `profile`, AWS's usual places are looked at" }),
  ),
  role: Schema.optionalKey(
    Schema.Struct({
      arn: Schema.String.annotate({
        description: "The role",
        examples: ["arn:aws:iam::123456789012:role/relay"],
        shown: true,
      }).check(
        Schema.isPattern(/^arn:aws[a-z-]*:iam::\d{12}:role\/\S+$/u, {
          message: 'this is no ARN of a role: write it as in "arn:aws:iam::123456789012:role/relay"',
        }),
      ),
      externalId: Schema.optionalKey(text("What the role's owner asks for besides", { shown: false })),
    }).annotate({ description: "A role to assume with the credentials that are found" }),
  ),
  batch: Schema.Struct({ linger: Units.duration.or("20 millis", "How long a batch may wait to fill") })
    .annotate({ description: "How batches fill: ten events at most, and 256 KiB" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
}).check(
  Schema.makeFilter((config: { readonly profile?: string; readonly credentials?: unknown }) =>
    config.profile !== undefined && config.credentials !== undefined
      ? { path: ["profile"], issue: 'a "profile" and "credentials" exclude each other: take one out' }
      : undefined,
  ),
  Schema.makeFilter(({ topicArn, region, endpoint }: { topicArn: string; region?: string; endpoint?: string }) => {
    const own = topicArn.split(":")[3]
    return region === undefined || region === own || endpoint !== undefined
      ? undefined
      : { path: ["region"], issue: `AWS has this topic in ${own} and nowhere else: take "region" out` }
  }),
)
export type SnsConfig = typeof SnsConfig.Type
