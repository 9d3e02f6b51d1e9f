/**
 * Logins to Kafka brokers: by a user and password, or by a token (OAUTHBEARER) of an
 * OAuth server, from a file, or signed for the IAM of Amazon MSK.
 *
 * **Guarantee.** A server's token is renewed after three quarters of its lifetime. A
 * file is read, and a token for MSK is signed, at each login. Both clients log in
 * again later than that and before the broker ends the session, so a session never
 * ends because of an old token. A missing token doesn't use up an event's attempt.
 */
import { readFile } from "node:fs/promises"
import { Clock, Effect, Predicate, Redacted, Schema, type Scope } from "effect"
import { secret, text } from "../../config/schema/Keys.ts"
import { sha256 } from "../../event/IdempotencyKey.ts"
import { parsedJson } from "../../event/Tolerance.ts"
import { userAgent } from "../../runtime/HttpTransport.ts"
import * as AwsClient from "../aws/AwsClient.ts"
import { type Identity, identityKeys, oneIdentity } from "../aws/AwsConfig.ts"
import type { Service } from "../aws/AwsErrors.ts"
import * as AccessTokens from "../http/AccessTokens.ts"
import { keeper, oneLine } from "../ServiceWords.ts"
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
      Schema.isPattern(/^[a-z0-9-]+$/u, { message: 'this is not a region: write it as in "eu-central-1"' }),
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

/** The current token, for the next login. */
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

/**
 * A token for MSK: a URL signed by AWS's Signature Version 4, as base64url. It is valid for 15 minutes from `now`, in
 * epoch milliseconds. See github.com/aws/aws-msk-iam-auth, "Details".
 */
export const mskToken = (credentials: AwsClient.Credentials, region: string, now: number): string => {
  const { accessKeyId, sessionToken } = credentials
  const host = `kafka.${region}.amazonaws.com`
  const scoped = AwsClient.signingScope({ region, service: "kafka-cluster", now })
  // In the order that the signature requires.
  const query = Object.entries({
    Action: "kafka-cluster:Connect",
    "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
    "X-Amz-Credential": [accessKeyId, ...scoped.scope].join("/"),
    "X-Amz-Date": scoped.time,
    "X-Amz-Expires": "900",
    ...(sessionToken !== undefined && { "X-Amz-Security-Token": sessionToken }),
    "X-Amz-SignedHeaders": "host",
  })
    .map((pair) => pair.map(AwsClient.encoded).join("="))
    .join("&")
  const request = ["GET", "/", query, `host:${host}`, "", "host", sha256("")]
  const signature = AwsClient.signatureOf(request, credentials, scoped)
  // The signature doesn't cover the name of the client.
  const url = `https://${host}/?${query}&X-Amz-Signature=${signature}&User-Agent=${AwsClient.encoded(userAgent)}`
  return Buffer.from(url).toString("base64url")
}

const ofMsk = (identity: Identity, region: string): Effect.Effect<Tokens, never, Scope.Scope> => {
  const place = { service, name: region, endpoint: "", profile: identity.profile ?? "" }
  return Effect.map(AwsClient.credentials({ ...identity, region }, place), (credentials) =>
    Effect.zipWith(credentials, Clock.currentTimeMillis, (found, now) => mskToken(found, region, now)),
  )
}

// Finds why a broker refuses a token. Brokers answer `invalid_token` for any cause, so this checks the token itself.

/** A difference of clocks in milliseconds that is ignored. Brokers allow 30 seconds by default. */
const tolerance = 10_000

/** The claims of a JWT, or `undefined` for any other token. */
const claimsOf = (token: string): Readonly<Record<string, unknown>> | undefined => {
  const claims = parsedJson(Buffer.from(token.split(".")[1] ?? "", "base64url").toString())
  return Predicate.isObject(claims) ? claims : undefined
}

/** The words of a claim: a text, or a list of texts. */
const wordsOf = (claim: unknown): ReadonlyArray<string> =>
  [claim].flat().flatMap((text) => (typeof text === "string" ? text.split(" ") : []))

/** The last instant that JavaScript can show, in epoch milliseconds. */
const lastInstant = 8.64e15
/** The instant of a claim in seconds, in epoch milliseconds. */
const instantOf = (claim: unknown): number | undefined =>
  typeof claim === "number" ? Math.max(0, Math.min(claim * 1_000, lastInstant)) : undefined

const shown = (words: ReadonlyArray<string>): string => (words.length === 0 ? "none" : oneLine(words.join(", ")))

/** Advises about a JWT that a broker refused. `now` is in epoch milliseconds. */
export const whyRefused = (
  token: string,
  { audience, scope }: Pick<AccessTokens.OAuthConfig, "audience" | "scope">,
  now: number,
): string => {
  const claims = claimsOf(token)
  if (claims === undefined) {
    return "the broker refused the token, which is not a JWT: brokers can validate only a JWT by the keys of its issuer"
  }
  const { iss, aud, scp, scope: granted = scp, iat, nbf = iat, exp } = claims
  const [from, until] = [instantOf(nbf) ?? 0, instantOf(exp) ?? lastInstant]
  if (now < from - tolerance || now > until + tolerance) {
    const [valid, end, here] = [from, until, now].map((time) => new Date(time).toISOString())
    return `the broker refused the token, which is valid from ${valid} to ${end}, and this machine's clock says ${here}: correct the clock that is wrong, here or at the OAuth server`
  }
  if (audience !== undefined && !wordsOf(aud).includes(audience)) {
    return `the broker refused the token: its audience is ${shown(wordsOf(aud))}, although "audience" asks for ${audience}: allow it at the OAuth server`
  }
  const missing = wordsOf(scope).filter((one) => !wordsOf(granted).includes(one))
  if (missing.length > 0) {
    return `the broker refused the token: the OAuth server left out the scope ${shown(missing)}: allow it for the client there`
  }
  return `the broker refused the token: compare its audience (${shown(wordsOf(aud))}), issuer (${shown(wordsOf(iss))}) and scope (${shown(wordsOf(granted))}) with what the broker expects, and the clocks of both machines; correct "audience" or "scope", or the broker's sasl.oauthbearer.expected.audience or issuer`
}

const refusedByMsk = (): string =>
  `MSK refused the token: the identity lacks ${service.rights}, "sasl.region" is not the cluster's, or this machine's clock is wrong`

/** A login by tokens. `why` advises about a token that the broker refused. */
const tokenLogin = (
  tokens: Tokens,
  extensions: TokenLogin["extensions"] = {},
  why: (token: string, now: number) => string,
): Effect.Effect<TokenLogin> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const run = Effect.runPromiseWith(yield* Effect.context<never>())
    let last = ""
    const token = tokens.pipe(
      Effect.tap((value) => {
        last = value
        return Effect.void
      }),
      Effect.mapError((failure) => kafkaError(noToken, "", failure)),
    )
    return {
      mechanism: "OAUTHBEARER",
      token: () => run(token),
      extensions,
      whyRefused: () => why(last, clock.currentTimeMillisUnsafe()),
    }
  })

/** The login of a config, for the length of a scope. */
export const open = (sasl: SaslConfig): Effect.Effect<NonNullable<ClientOptions["sasl"]>, SinkError, Scope.Scope> => {
  const { mechanism, username = "", password, oauth, tokenFile, extensions, region, ...identity } = sasl
  const byJwt = (tokens: Tokens) => tokenLogin(tokens, extensions, (token, now) => whyRefused(token, oauth ?? {}, now))
  if (oauth !== undefined) return Effect.flatMap(ofServer(oauth), byJwt)
  if (tokenFile !== undefined) return byJwt(ofFile(tokenFile))
  if (region !== undefined) {
    return Effect.flatMap(ofMsk(identity, region), (tokens) => tokenLogin(tokens, {}, refusedByMsk))
  }
  const named = passwordMechanisms.find((one) => one === mechanism) ?? "PLAIN"
  return Effect.succeed({
    mechanism: named,
    username,
    password: password === undefined ? "" : Redacted.value(password),
  })
}
