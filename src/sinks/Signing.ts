/**
 * The relay's own signature of a message, over the body as it is sent, in formats
 * for which receivers have libraries. All are HMAC-SHA256.
 *
 * | scheme | signed | header |
 * |---|---|---|
 * | `sender` | the body | `sha256=`, uppercase hexadecimal (webhook interface, section 5.1) |
 * | `github` | the body | `sha256=`, lowercase hexadecimal ("Validating webhook deliveries") |
 * | `stripe` | time`.`body | `t=`seconds`,v1=`hexadecimal ("Verify webhook signatures manually") |
 * | `standardWebhooks` | id`.`time`.`body | three headers (Standard Webhooks, "Signature scheme") |
 *
 * **Gotcha.** The time is the attempt's, not the event's, because receivers refuse a
 * time that is minutes old. The last two schemes can carry a signature for each of
 * several secrets, so a secret can be rotated without a gap.
 */
import { createHmac } from "node:crypto"
import { Redacted, Schema } from "effect"
import { oneOf, optionalHeaderName, secret } from "../config/schema/Keys.ts"
import { hmacSha256, sign } from "../event/Signature.ts"
import { masked } from "./Sink.ts"

const schemes = ["sender", "github", "stripe", "standardWebhooks"] as const
type Scheme = (typeof schemes)[number]

/** Schemes with one header, and its usual name. */
const usualHeader = {
  sender: "x-relay-signature",
  github: "x-hub-signature-256",
  stripe: "stripe-signature",
} as const

/** The bytes of a secret of Standard Webhooks: base64, with or without its prefix. */
const standardKey = (secret: string): Buffer => Buffer.from(secret.replace(/^whsec_/, ""), "base64")

const isStandard = (secret: string): boolean => {
  const bytes = standardKey(secret).length
  const isBase64 = /^(whsec_)?(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(secret)
  return isBase64 && bytes >= 24 && bytes <= 64
}

type Secrets = Redacted.Redacted<string> | ReadonlyArray<Redacted.Redacted<string>>

const secretsOf = (secrets: Secrets): ReadonlyArray<string> =>
  (Redacted.isRedacted(secrets) ? [secrets] : secrets).map((one) => Redacted.value(one))

const problemsOf = ({ scheme, secret, header }: Config): ReadonlyArray<Schema.FilterIssue> => {
  const secrets = secretsOf(secret)
  const takesSeveral = scheme === "stripe" || scheme === "standardWebhooks"
  const problems = [
    secrets.length === 0 && { path: ["secret"], issue: "one secret at least signs" },
    secrets.length > 1 &&
      !takesSeveral && {
        path: ["secret"],
        issue: `"scheme": "${scheme}" has room for one signature; "stripe" and "standardWebhooks" take several secrets`,
      },
    scheme === "standardWebhooks" &&
      !secrets.every(isStandard) && {
        path: ["secret"],
        issue: "a secret of Standard Webhooks is the base64 of 24 to 64 bytes, with or without `whsec_` before it",
      },
    scheme === "standardWebhooks" &&
      header !== undefined && { path: ["header"], issue: "Standard Webhooks has header names of its own" },
  ]
  return problems.filter((problem) => problem !== false)
}

interface Config {
  readonly scheme: Scheme
  readonly secret: Secrets
  readonly header?: string
}

const key =
  "The key of the HMAC-SHA256; with `stripe` and `standardWebhooks` also several, each with a signature of its own"

export const SignatureConfig = Schema.Struct({
  scheme: oneOf(
    "`sender`: as the sender signs. `github`: as GitHub does. `stripe`: with the time, as Stripe does. `standardWebhooks`: with the time and an id",
    schemes,
    "sender",
  ),
  secret: Schema.Union([secret(key), Schema.Array(secret(key))]).annotate({
    description: key,
    expected: "a secret, or a list of secrets",
  }),
  header: optionalHeaderName(
    "The header; by default `x-relay-signature`, `x-hub-signature-256` or `stripe-signature`, by the scheme",
  ),
})
  .annotate({ description: "Signs the body that is sent" })
  .check(Schema.makeFilter(problemsOf))
export type SignatureConfig = typeof SignatureConfig.Type

/** The values that are signed together with the body. */
export interface Signed {
  /** It is the same for each attempt. */
  readonly id: string
  /** Time of the attempt, in epoch milliseconds. */
  readonly at: number
}

type Headers = Readonly<Record<string, string>>

/** Makes the headers that sign a body. */
export const signer = ({
  scheme,
  secret,
  header,
}: SignatureConfig): ((body: Uint8Array, signed: Signed) => Headers) => {
  const secrets = secretsOf(secret)
  if (scheme === "standardWebhooks") {
    const keys = secrets.map(standardKey)
    return (body, { id, at }) => {
      const seconds = Math.floor(at / 1_000)
      // An id with a full stop could be taken for an id and a time.
      const own = id.replaceAll(".", "%2E")
      const digests = keys.map((key) =>
        createHmac("sha256", key).update(`${own}.${seconds}.`).update(body).digest("base64"),
      )
      return {
        "webhook-id": own,
        "webhook-timestamp": String(seconds),
        "webhook-signature": digests.map((digest) => `v1,${digest}`).join(" "),
      }
    }
  }
  const name = (header ?? usualHeader[scheme]).toLowerCase()
  if (scheme === "stripe") {
    return (body, { at }) => {
      const seconds = Math.floor(at / 1_000)
      const digests = secrets.map((key) => createHmac("sha256", key).update(`${seconds}.`).update(body).digest("hex"))
      return { [name]: [`t=${seconds}`, ...digests.map((digest) => `v1=${digest}`)].join(",") }
    }
  }
  const hmac = hmacSha256(secrets[0] ?? "")
  return (body) => ({ [name]: scheme === "github" ? sign(hmac, body).toLowerCase() : sign(hmac, body) })
}

/** Returns a function that signs bodies with the time of a clock. Without a clock it masks the values for a preview. */
export const bodySigner = (config: SignatureConfig, now?: () => number) => {
  const sign = signer(config)
  return (body: Uint8Array, id: string): Headers =>
    now === undefined ? previewed(sign(body, { id, at: 0 })) : sign(body, { id, at: now() })
}

/** Headers as a preview shows them: a masked secret signs nothing, and the time differs with each attempt. */
export const previewed = (headers: Headers): Headers =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, name === "webhook-id" ? value : masked]))
