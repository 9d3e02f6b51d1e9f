/**
 * The keys that the configs of AWS's services share: the service's address, the
 * credentials, the limits of a batch.
 */
import { Effect, Schema } from "effect"
import { body, linger, oneOf, orExpression, Shape, secret, text, textOrShapeOr } from "../../config/schema/Keys.ts"
import type * as Template from "../../formats/Template.ts"
import { SignatureConfig } from "../Signing.ts"

/** The address of a service, if it isn't AWS's own. */
export const endpoint = (service: string) =>
  Schema.optionalKey(
    Schema.String.annotate({
      description: `Address of ${service}, if not AWS's own: an interface endpoint, a local one`,
      examples: ["http://127.0.0.1:4566"],
      // A wrong text may hold a password.
      shown: false,
    }).check(
      Schema.makeFilter(
        (url: string) =>
          (/^https?:\/\/[^/?#@\s]+\/?$/i.test(url) && URL.canParse(url)) ||
          "this is not an http:// or https:// URL of a host: it has no path, and no user",
        { expected: "an http:// or https:// URL", toJsonSchema: () => ({ pattern: "^[Hh][Tt][Tt][Pp][Ss]?://" }) },
      ),
    ),
  )

/** The keys of the identity that signs the requests. */
export const identityKeys = {
  profile: Schema.optionalKey(text("A profile of the AWS config files, such as `~/.aws/config`")),
  credentials: Schema.optionalKey(
    Schema.Struct({
      accessKeyId: text("The access key", { shown: false }),
      secretAccessKey: secret("The secret of the access key"),
      sessionToken: Schema.optionalKey(secret("The token of temporary credentials")),
    }).annotate({ description: "An access key; without it, and without `profile`, the relay uses AWS's usual places" }),
  ),
  role: Schema.optionalKey(
    Schema.Struct({
      arn: Schema.String.annotate({
        description: "The role",
        examples: ["arn:aws:iam::123456789012:role/relay"],
        shown: true,
      }).check(
        Schema.isPattern(/^arn:aws[a-z-]*:iam::\d{12}:role\/\S+$/u, {
          message: 'this is not an ARN of a role: write it as in "arn:aws:iam::123456789012:role/relay"',
        }),
      ),
      externalId: Schema.optionalKey(text("External ID that the role's owner requires", { shown: false })),
    }).annotate({ description: "A role to assume with the credentials that are found" }),
  ),
}

/** The keys that configure how a sink signs its requests. */
const Identity = Schema.Struct(identityKeys)
export type Identity = typeof Identity.Type

/** Refuses a config with two identities. */
export const oneIdentity = Schema.makeFilter(
  ({ profile, credentials }: { readonly profile?: string; readonly credentials?: unknown }) =>
    profile !== undefined && credentials !== undefined
      ? { path: ["profile"], issue: 'a "profile" and "credentials" exclude each other: take one out' }
      : undefined,
)

/** Maximum number of attributes in a config. A message can have ten, and the relay needs the other five. */
const mostAttributes = 5

const attributesProblem = (attributes: Readonly<Record<string, Template.Text>>): Schema.FilterIssue | undefined => {
  const names = Object.keys(attributes)
  const odd = names.find((name) => !/^(?!aws\.|amazon\.)(?!.*\.\.)[\w-]([\w.-]{0,254}[\w-])?$/i.test(name))
  if (odd !== undefined) {
    return { path: [odd], issue: "this is not a name of an attribute: letters, digits, `_`, `-` and `.`" }
  }
  const further = names[mostAttributes]
  return further === undefined
    ? undefined
    : { path: [further], issue: `a message has ten attributes at most, and ${mostAttributes} of them can be your own` }
}

/** The keys that shape a message of a text and attributes. */
export const messageKeys = {
  format: oneOf(
    "`raw`: the signed bytes. `cloudevents`: one JSON document, CloudEvents 1.0. `template`: `body`, filled in",
    ["raw", "cloudevents", "template"],
    "raw",
  ),
  body,
  attributes: Schema.Record(
    Schema.String,
    Schema.Union([Schema.String.annotate({ shown: true }), Shape]).annotate(orExpression),
  )
    .annotate({
      description:
        "Attributes in addition to the relay's own; values are templates or expressions. Empty ones are left out",
      examples: [{ region: "{{/data/object/region}}" }],
    })
    .check(Schema.makeFilter(attributesProblem))
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  sign: Schema.optionalKey(SignatureConfig),
}

/** The template of the order key, and of the message group of a FIFO `thing`. The lane reads it too. */
export const key = (thing: string) =>
  textOrShapeOr(
    `A template over the envelope: what \`order\` keeps apart, and the group on a FIFO ${thing}`,
    "{{account_id}}",
  )

/** How batches fill; `size` is the most that the service takes, in words. */
export const batchOf = (size: string) =>
  Schema.Struct({ linger })
    .annotate({ description: `How batches fill: ten events at most, and ${size}` })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({})))
