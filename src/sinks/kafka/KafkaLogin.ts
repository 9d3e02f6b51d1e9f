/**
 * Logins to Kafka brokers: by a user and password, or by a token (OAUTHBEARER) of
 * an OAuth server or from a file.
 *
 * **Guarantee.** A server's token is renewed after three quarters of its lifetime,
 * and a file is read at each login. Both clients log in again later than that and
 * before the broker ends the session, so a session never ends because of an old
 * token. A token that can't be had costs no event an attempt.
 */
import { readFile } from "node:fs/promises"
import { Effect, Redacted, Schema, type Scope } from "effect"
import { secret, text } from "../../config/schema/Keys.ts"
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
const tokenKeys: Keys = { needs: [["oauth", "tokenFile"]], may: ["extensions"] }

const mechanisms = [...passwordMechanisms, "OAUTHBEARER"] as const

const quoted = (keys: ReadonlyArray<string>): string => keys.map((key) => `"${key}"`).join(" or ")

/** Reports a key that the mechanism needs, or that it doesn't have. */
const loginProblem = (sasl: { readonly mechanism: (typeof mechanisms)[number] }): Schema.FilterIssue | undefined => {
  const { mechanism, ...keys } = sasl
  const { needs, may } = mechanism === "OAUTHBEARER" ? tokenKeys : passwordKeys
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
  .check(Schema.makeFilter(loginProblem))
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
  const { mechanism, username = "", password, oauth, tokenFile, extensions } = sasl
  if (oauth !== undefined) return Effect.flatMap(ofServer(oauth), (tokens) => tokenLogin(tokens, extensions))
  if (tokenFile !== undefined) return tokenLogin(ofFile(tokenFile), extensions)
  const named = passwordMechanisms.find((one) => one === mechanism) ?? "PLAIN"
  return Effect.succeed({
    mechanism: named,
    username,
    password: password === undefined ? "" : Redacted.value(password),
  })
}
