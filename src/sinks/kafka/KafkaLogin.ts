/**
 * Logins to Kafka brokers: by a user and password, or by a token (OAUTHBEARER) of
 * an OAuth server, from a file, or signed for the IAM of Amazon MSK.
 *
 * **Guarantee.** A server's token is renewed after three quarters of its lifetime. A
 * file is read, and a token for MSK is signed, at each login. Both clients log in again later than that and
 * before the broker ends the session, so a session never ends because of an old
 * token. A token that can't be had costs no event an attempt.
 */
import { createHash, createHmac } from "node:crypto"
import { readFile } from "node:fs/promises"
import { Clock, Effect, Redacted, Schema, type Scope } from "effect"
import { secret, text } from "../../config/schema/Keys.ts"
import { userAgent } from "../../runtime/HttpTransport.ts"
import * as AwsClient from "../aws/AwsClient.ts"
import { type Identity, identityKeys, oneIdentity } from "../aws/AwsConfig.ts"
import type { Service } from "../aws/AwsErrors.ts"
import * as AccessTokens from "../http/AccessTokens.ts"
import { keeper } from "../ServiceWords.ts"
import { misconfigured, type SinkError } from "../Sink.ts"
import { type ClientOptions, kafkaError, noToken, passwordMechanisms, type TokenLogin, textOf } from "./KafkaClient.ts"

interface Keys {
  /** A login needs exactly one key of each list. */
  readonly needs: ReadonlyArray<ReadonlyArray<string>>
  readonly may: ReadonlyArray<string>
}

const passwordKeys: Keys = { needs: [["username"], ["password"]], may: [] }
const mskKeys: Keys = { needs: [["region"]], may: Object.keys(identityKeys) }
const tokenKeys: Keys = { needs: [["oauth", "tokenFile"]], may: ["extensions"] }

const msk = "AWS_MSK_IAM"
const mechanisms = [...passwordMechanisms, "OAUTHBEARER", msk] as const
const otherKeys: Readonly<Record<string, Keys>> = { OAUTHBEARER: tokenKeys, [msk]: mskKeys }

const quoted = (keys: ReadonlyArray<string>): string => keys.map((key) => `"${key}"`).join(" or ")

/** Reports a key that the mechanism needs, or that it doesn't have. */
const loginProblem = (sasl: { readonly mechanism: (typeof mechanisms)[number] }): Schema.FilterIssue | undefined => {
  const { mechanism, ...keys } = sasl
  const { needs, may } = otherKeys[mechanism] ?? passwordKeys
  const known = [...needs.flat(), ...may]
  const foreign = Object.keys(keys).find((key) => !known.includes(key))
  if (foreign !== undefined) {
    return { path: [foreign], issue: `"${foreign}" is not a part of ${mechanism}: take it out, or change "mechanism"` }
  }
  for (const choice of needs) {
    const [first, second] = choice.filter((key) => Object.hasOwn(keys, key))
    if (first === undefined) return { path: choice.slice(0, 1), issue: `${mechanism} needs ${quoted(choice)}` }
    if (second !== undefined)
      return { path: [second], issue: `"${first}" and "${second}" exclude each other: take one out` }
  }
  return undefined
}

/** Reports an extension that brokers would refuse (RFC 7628, section 3.1). */
const extensionProblem = (extensions: Readonly<Record<string, string>>): Schema.FilterIssue | undefined => {
  for (const [name, value] of Object.entries(extensions)) {
    if (!/^[A-Za-z]+$/.test(name) || name === "auth")
      return { path: [name], issue: "the name of an extension has letters only" }
    if (!/^[\x20-\x7e]+$/.test(value)) return { path: [name], issue: "an extension is visible ASCII, and not empty" }
  }
  return undefined
}

export const SaslConfig = Schema.Struct({
  mechanism: Schema.Literals(mechanisms).annotate({ description: "How to log in" }),
  username: Schema.optionalKey(text("The user that the relay logs in as, with PLAIN and SCRAM")),
  password: Schema.optionalKey(secret("Its password")),
  oauth: Schema.optionalKey(
    AccessTokens.OAuthConfig.annotate({
      description: "With OAUTHBEARER: gets the token by OAuth 2.0 client credentials",
    }),
  ),
  tokenFile: Schema.optionalKey(
    text("With OAUTHBEARER: the file that holds the token, read at each login", {
      examples: ["/var/run/secrets/tokens/kafka"],
    }).check(Schema.isPattern(/^\//u, { message: 'write the whole path, as in "/var/run/secrets/tokens/kafka"' })),
  ),
  extensions: Schema.optionalKey(
    Schema.Record(Schema.String, Schema.String.annotate({ shown: true }))
      .annotate({
        description:
          "With OAUTHBEARER: extensions that the broker requires, such as `logicalCluster` of Confluent Cloud",
      })
      .check(Schema.makeFilter(extensionProblem)),
  ),
  region: Schema.optionalKey(
    text("With AWS_MSK_IAM: the region of the cluster", { examples: ["eu-central-1"] }).check(
      Schema.isPattern(/^[a-z0-9-]+$/u, { message: 'this is no region: write it as in "eu-central-1"' }),
    ),
  ),
  ...identityKeys,
})
  .annotate({
    description: "Log in to the brokers",
    otherNames: [
      ["user login", "username"],
      ["pass", "password"],
      ["strategy type", "mechanism"],
      ["enabled enable", "", 'take this key out: "sasl" needs no switch'],
    ],
  })
  .check(Schema.makeFilter(loginProblem), oneIdentity)
export type SaslConfig = typeof SaslConfig.Type

/** Milliseconds that a token is used for new logins. Platformatic renews a session, at most as long, after 80 %. */
const heldFor = (seconds = 0): number => seconds * 750

/** The token in force, for the next login. */
type Tokens = Effect.Effect<string, SinkError>

const ofServer = (oauth: AccessTokens.OAuthConfig): Effect.Effect<Tokens, SinkError, Scope.Scope> =>
  Effect.map(AccessTokens.make(oauth, { keep: keeper(oauth), heldFor }), ({ current }) =>
    Effect.map(current, Redacted.value),
  )

const ofFile = (path: string): Tokens => {
  const unfit = (why: string) => misconfigured(`the file of "sasl.tokenFile" ${why}: ${path}`)
  return Effect.tryPromise({
    try: () => readFile(path, "utf8"),
    catch: (error) => unfit(`can't be read (${error instanceof Error ? textOf(error, "code") : ""})`),
  }).pipe(
    Effect.map((text) => text.trim()),
    Effect.filterOrFail(
      (token) => /^[\x21-\x7e]+$/.test(token),
      () => unfit("holds no token"),
    ),
  )
}

const service: Service = {
  name: "MSK",
  thing: "cluster",
  endpointKey: "brokers",
  rights:
    "kafka-cluster:Connect and kafka-cluster:WriteDataIdempotently on the cluster, and kafka-cluster:DescribeTopic and kafka-cluster:WriteData on the topic",
  advice: {},
}

/** Percent-encodes all but the characters that RFC 3986 reserves nothing for. */
const encoded = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)
const hmac = (key: string | Buffer, text: string): Buffer => createHmac("sha256", key).update(text).digest()
const hash = (text: string): string => createHash("sha256").update(text).digest("hex")

/**
 * A token for MSK: a URL signed by AWS's Signature Version 4, as base64url. It is valid for 15 minutes from `now`, in
 * epoch milliseconds. See github.com/aws/aws-msk-iam-auth, "Details".
 */
export const mskToken = (credentials: AwsClient.Credentials, region: string, now: number): string => {
  const { accessKeyId, secretAccessKey, sessionToken } = credentials
  const host = `kafka.${region}.amazonaws.com`
  const time = new Date(now).toISOString().replace(/[-:]|\.\d+/g, "")
  const scope = [time.slice(0, 8), region, "kafka-cluster", "aws4_request"]
  // In the order that the signature wants.
  const query = Object.entries({
    Action: "kafka-cluster:Connect",
    "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
    "X-Amz-Credential": [accessKeyId, ...scope].join("/"),
    "X-Amz-Date": time,
    "X-Amz-Expires": "900",
    ...(sessionToken !== undefined && { "X-Amz-Security-Token": sessionToken }),
    "X-Amz-SignedHeaders": "host",
  })
    .map((pair) => pair.map(encoded).join("="))
    .join("&")
  const request = ["GET", "/", query, `host:${host}`, "", "host", hash("")].join("\n")
  const text = ["AWS4-HMAC-SHA256", time, scope.join("/"), hash(request)].join("\n")
  const signature = hmac(scope.reduce<string | Buffer>(hmac, `AWS4${secretAccessKey}`) as Buffer, text).toString("hex")
  // The signature doesn't cover the name of the client.
  const url = `https://${host}/?${query}&X-Amz-Signature=${signature}&User-Agent=${encoded(userAgent)}`
  return Buffer.from(url).toString("base64url")
}

const ofMsk = (identity: Identity, region: string): Effect.Effect<Tokens, never, Scope.Scope> => {
  const place = { service, name: region, endpoint: "", profile: identity.profile ?? "" }
  return Effect.map(AwsClient.credentials({ ...identity, region }, place), (credentials) =>
    Effect.zipWith(credentials, Clock.currentTimeMillis, (found, now) => mskToken(found, region, now)),
  )
}

const refused =
  'the broker refused the token: compare its issuer, audience and scope with what the broker expects, and the clocks of both machines; correct "sasl"'

/** A login by tokens. */
const tokenLogin = (tokens: Tokens, extensions: TokenLogin["extensions"] = {}): Effect.Effect<TokenLogin> =>
  Effect.map(Effect.context<never>(), (context) => {
    const token = Effect.mapError(tokens, (failure) => kafkaError(noToken, "", failure))
    const run = Effect.runPromiseWith(context)
    return { mechanism: "OAUTHBEARER", token: () => run(token), extensions, whyRefused: () => refused }
  })

/** The login of a config, for the length of a scope. */
export const open = (sasl: SaslConfig): Effect.Effect<NonNullable<ClientOptions["sasl"]>, SinkError, Scope.Scope> => {
  const { mechanism, username = "", password, oauth, tokenFile, extensions, region, ...identity } = sasl
  if (oauth !== undefined) return Effect.flatMap(ofServer(oauth), (tokens) => tokenLogin(tokens, extensions))
  if (tokenFile !== undefined) return tokenLogin(ofFile(tokenFile), extensions)
  if (region !== undefined) return Effect.flatMap(ofMsk(identity, region), (tokens) => tokenLogin(tokens))
  const named = passwordMechanisms.find((one) => one === mechanism) ?? "PLAIN"
  return Effect.succeed({
    mechanism: named,
    username,
    password: password === undefined ? "" : Redacted.value(password),
  })
}
