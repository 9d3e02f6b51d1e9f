/** The credentials that sign the requests, and their sources. */

import { Effect, Redacted } from "effect"
import { hasProperty } from "effect/Predicate"
import { oneLine } from "../ServiceWords.ts"
import type { Identity } from "./AwsConfig.ts"
import type { AwsConnections } from "./AwsConnections.ts"
import * as AwsErrors from "./AwsErrors.ts"

/** Milliseconds for one request to a source. Nobody aborts it, and every attempt waits for it. */
const timeout = 3_000

/** The SDK tries one source after another, and reports only that all have failed. The lane retries. */
const once = { timeout: 1_000, maxRetries: 0 }

const load = () => import("@aws-sdk/credential-providers")
type Providers = Awaited<ReturnType<typeof load>>

const textIn = (error: unknown, key: string): string => {
  const text: unknown = hasProperty(error, key) ? error[key] : ""
  return typeof text === "string" ? text : ""
}

/** Asks the endpoint of a container or pod once more, for its error. Returns `undefined` without such an endpoint. */
const ofContainer = async ({ fromHttp }: Providers): Promise<AwsErrors.CredentialSource | undefined> => {
  const { AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: relative, AWS_CONTAINER_CREDENTIALS_FULL_URI: full } = process.env
  const address = relative ? `http://169.254.170.2${relative}` : full
  if (!address) return undefined
  try {
    await fromHttp(once)()
    return undefined
  } catch (error) {
    const said = ["message", "Code", "Message"].map((key) => textIn(error, key)).filter((text) => text !== "")
    // The path may be a secret.
    const at = URL.canParse(address) ? new URL(address).origin : "which is not a URL"
    const isRefusal = /status: 4\d\d|not accepted|Invalid URL|ENOENT|EACCES/.test(said.join(" "))
    return { name: `the container's endpoint for credentials (${at})`, words: oneLine(said.join(", ")), isRefusal }
  }
}

/** AWS's usual places, or a profile. An error of it is about the credentials. */
const found = (providers: Providers, { profile }: Identity, clientConfig: object) => {
  const chain = providers.fromNodeProviderChain({
    ...once,
    clientConfig,
    // Or a file is read once in the life of the process.
    ignoreCache: true,
    ...(profile !== undefined && { profile }),
  })
  return (identity: Parameters<typeof chain>[0]) =>
    chain(identity).catch(async (cause: unknown) => {
      const role = process.env.AWS_ROLE_ARN
      // STS has refused a token for a role.
      if (role !== undefined && hasProperty(cause, "$metadata")) throw new AwsErrors.RoleRefused(role, cause)
      throw new AwsErrors.NoCredentials(await ofContainer(providers), cause)
    })
}

/** Makes a function that gives the SDK's option for a client, which looks for credentials at their sources again. */
export const of = Effect.fnUntraced(function* (config: Identity, { requestHandler }: AwsConnections) {
  const { credentials, role } = config
  const own = credentials && {
    accessKeyId: credentials.accessKeyId,
    secretAccessKey: Redacted.value(credentials.secretAccessKey),
    ...(credentials.sessionToken && { sessionToken: Redacted.value(credentials.sessionToken) }),
  }
  if (own !== undefined && role === undefined) return () => own
  const providers = yield* Effect.promise(load)
  const timeouts = { connectionTimeout: timeout, requestTimeout: timeout, throwOnRequestTimeout: true }
  const clientConfig = { maxAttempts: 1, requestHandler: { ...requestHandler, ...timeouts } }
  return () => {
    const base = own ?? found(providers, config, clientConfig)
    if (role === undefined) return base
    const assume = providers.fromTemporaryCredentials({
      params: {
        RoleArn: role.arn,
        RoleSessionName: "relay",
        ...(role.externalId !== undefined && { ExternalId: role.externalId }),
      },
      masterCredentials: base,
      clientConfig,
    })
    return (identity: Parameters<typeof assume>[0]) =>
      assume(identity).catch((cause: unknown) => {
        throw cause instanceof AwsErrors.NoCredentials ? cause : new AwsErrors.RoleRefused(role.arn, cause)
      })
  }
})
