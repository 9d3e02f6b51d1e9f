/**
 * Logins to Kafka brokers: by a user and password, or by a token (OAUTHBEARER) of
 * an OAuth server.
 *
 * **Guarantee.** A token is renewed after three quarters of its lifetime. Both
 * clients log in again later than that and before the broker ends the session, so
 * a session never ends because of an old token. A token that can't be had costs no
 * event an attempt.
 */
import { Effect, Redacted, Schema, type Scope } from "effect"
import { secret, text } from "../../config/schema/Keys.ts"
import * as AccessTokens from "../http/AccessTokens.ts"
import { keeper } from "../ServiceWords.ts"
import type { SinkError } from "../Sink.ts"
import { type ClientOptions, kafkaError, noToken, passwordMechanisms, type TokenLogin } from "./KafkaClient.ts"

/** The keys that a login by a mechanism needs, and the keys that it may have. */
const keysOf = {
  password: { needs: ["username", "password"], may: [] },
  token: { needs: ["oauth"], may: ["extensions"] },
} as const

const mechanisms = [...passwordMechanisms, "OAUTHBEARER"] as const

/** Reports a key that the mechanism needs, or that it doesn't have. */
const loginProblem = (sasl: { readonly mechanism: (typeof mechanisms)[number] }): Schema.FilterIssue | undefined => {
  const { mechanism, ...keys } = sasl
  const { needs, may } = keysOf[mechanism === "OAUTHBEARER" ? "token" : "password"]
  const known: ReadonlyArray<string> = [...needs, ...may]
  const foreign = Object.keys(keys).find((key) => !known.includes(key))
  if (foreign !== undefined) {
    return { path: [foreign], issue: `"${foreign}" is not a part of ${mechanism}: take it out, or change "mechanism"` }
  }
  const missing = needs.find((key) => !Object.hasOwn(keys, key))
  return missing && { path: [missing], issue: `${mechanism} needs "${missing}"` }
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

const refused =
  'the broker refused the token: compare its issuer, audience and scope with what the broker expects, and the clocks of both machines; correct "sasl"'

/** A login by tokens of an OAuth server. */
const tokenLogin = Effect.fnUntraced(function* (
  oauth: AccessTokens.OAuthConfig,
  extensions: TokenLogin["extensions"] = {},
): Effect.fn.Return<TokenLogin, SinkError, Scope.Scope> {
  const { current } = yield* AccessTokens.make(oauth, { keep: keeper(oauth), heldFor })
  const run = Effect.runPromiseWith(yield* Effect.context<never>())
  const token = Effect.mapBoth(current, {
    onSuccess: Redacted.value,
    onFailure: (failure) => kafkaError(noToken, "", failure),
  })
  return { mechanism: "OAUTHBEARER", token: () => run(token), extensions, whyRefused: () => refused }
})

/** The login of a config, for the length of a scope. */
export const open = (sasl: SaslConfig): Effect.Effect<NonNullable<ClientOptions["sasl"]>, SinkError, Scope.Scope> => {
  const { mechanism, username = "", password, oauth, extensions } = sasl
  if (oauth !== undefined) return tokenLogin(oauth, extensions)
  const named = passwordMechanisms.find((one) => one === mechanism) ?? "PLAIN"
  return Effect.succeed({
    mechanism: named,
    username,
    password: password === undefined ? "" : Redacted.value(password),
  })
}
