/**
 * A client of an AWS service, and the requests that it makes.
 *
 * **Gotcha.** The SDK's own retries are turned off; the lane retries.
 */
import { createHmac } from "node:crypto"
import { Agent as HttpAgent } from "node:http"
import { Agent as HttpsAgent } from "node:https"
import type { SNSClientConfig } from "@aws-sdk/client-sns"
import { Effect, Redacted, type Scope } from "effect"
import { hasProperty } from "effect/Predicate"
import { sha256 } from "../../event/IdempotencyKey.ts"
import { userAgent } from "../../runtime/HttpTransport.ts"
import { mayHaveMoved } from "../Connections.ts"
import { oneLine } from "../ServiceWords.ts"
import type { SinkError } from "../Sink.ts"
import type { Identity } from "./AwsConfig.ts"
import * as AwsErrors from "./AwsErrors.ts"

// The connections of a client to AWS.
// **Guarantee.** A connection that was idle for 15 seconds is not used again. After an attempt without an answer, no
// idle connection is. A NAT or a firewall may have dropped it silently, and each such connection would cost a timeout.

/** Milliseconds. Firewalls drop connections after half a minute of silence and more. */
const longestIdle = 15_000

interface AwsConnections {
  /** The SDK's option for a client. */
  readonly requestHandler: { readonly httpAgent: HttpAgent; readonly httpsAgent: HttpsAgent }
  /** Closes the connections without a request. */
  readonly closeIdle: () => void
  /** Closes all. */
  readonly close: () => void
}

export const makeConnections = (idle = longestIdle): AwsConnections => {
  // The lane limits the requests in flight.
  const options = { keepAlive: true, maxSockets: Number.POSITIVE_INFINITY, timeout: idle }
  const requestHandler = { httpAgent: new HttpAgent(options), httpsAgent: new HttpsAgent(options) }
  const closeIdle = (): void => {
    for (const agent of Object.values(requestHandler)) {
      for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy()
    }
  }
  const close = (): void => {
    for (const agent of Object.values(requestHandler)) agent.destroy()
  }
  return { requestHandler, closeIdle, close }
}

// The credentials that sign the requests, and their sources.

/** Milliseconds for one request to a source. Nobody aborts it, and every attempt waits for it. */
const credentialsTimeout = 3_000

/** The SDK tries one source after another, and reports only that all have failed. The lane retries. */
const once = { timeout: 1_000, maxRetries: 0 }

const load = () => import("@aws-sdk/credential-providers")
type Providers = Awaited<ReturnType<typeof load>>

const textIn = (error: unknown, key: string): string => {
  const text: unknown = hasProperty(error, key) ? error[key] : ""
  return typeof text === "string" ? text : ""
}

/**
 * Requests credentials once more from the endpoint of a container or pod, to read
 * its error. Returns `undefined` if there is no such endpoint.
 */
const ofContainer = async ({ fromHttp }: Providers): Promise<AwsErrors.CredentialSource | undefined> => {
  const { AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: relative, AWS_CONTAINER_CREDENTIALS_FULL_URI: full } = process.env
  const address = relative ? `http://169.254.170.2${relative}` : full
  if (!address) return undefined
  try {
    await fromHttp(once)()
    return undefined
  } catch (error) {
    const texts = ["message", "Code", "Message"].map((key) => textIn(error, key)).filter((text) => text !== "")
    // The path may be a secret.
    const at = URL.canParse(address) ? new URL(address).origin : "which is not a URL"
    const isRefusal = /status: 4\d\d|not accepted|Invalid URL|ENOENT|EACCES/.test(texts.join(" "))
    return { name: `the container's endpoint for credentials (${at})`, words: oneLine(texts.join(", ")), isRefusal }
  }
}

/** AWS's usual sources, or a profile. Any error here is about the credentials. */
const found = (providers: Providers, { profile }: Identity, clientConfig: object) => {
  const chain = providers.fromNodeProviderChain({
    ...once,
    clientConfig,
    // Otherwise a file is read only once in the life of the process.
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
const credentialsOf = Effect.fnUntraced(function* (config: Identity, { requestHandler }: AwsConnections) {
  const { credentials, role } = config
  const own = credentials && {
    accessKeyId: credentials.accessKeyId,
    secretAccessKey: Redacted.value(credentials.secretAccessKey),
    ...(credentials.sessionToken && { sessionToken: Redacted.value(credentials.sessionToken) }),
  }
  if (own !== undefined && role === undefined) return () => own
  const providers = yield* Effect.promise(load)
  const timeouts = {
    connectionTimeout: credentialsTimeout,
    requestTimeout: credentialsTimeout,
    throwOnRequestTimeout: true,
  }
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

export interface Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string | undefined
  readonly expiration?: Date | undefined
}

/** Looks up credentials for signatures that no client of the SDK makes. Each run looks at the sources again. */
export const credentials = Effect.fnUntraced(function* (
  config: Identity & Pick<ClientConfig, "region">,
  place: AwsErrors.Place,
): Effect.fn.Return<Effect.Effect<Credentials, SinkError>, never, Scope.Scope> {
  const connections = yield* Effect.acquireRelease(
    Effect.sync(() => makeConnections()),
    ({ close }) => Effect.sync(close),
  )
  const look = yield* credentialsOf(config, connections)
  const region = () => Promise.resolve(config.region)
  return Effect.tryPromise({
    try: async () => {
      const source = look()
      return typeof source === "function" ? source({ callerClientConfig: { region } }) : source
    },
    catch: (error) => AwsErrors.sinkErrorOf(AwsErrors.ofThrown(error), place),
  })
})

// Signature Version 4, for requests that no client of the SDK makes.

const hmac = (key: string | Buffer, text: string): Buffer => createHmac("sha256", key).update(text).digest()

/** Percent-encodes all characters except RFC 3986's unreserved ones. */
export const encoded = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)

/** The region, the service and the time of a signature. `now` is in epoch milliseconds. */
interface SigningScope {
  readonly region: string
  readonly service: string
  readonly now: number
}

/** The time and the scope of a signature, in AWS's form. */
export const signingScope = ({ region, service, now }: SigningScope) => {
  const time = new Date(now).toISOString().replace(/[-:]|\.\d+/g, "")
  return { time, scope: [time.slice(0, 8), region, service, "aws4_request"] }
}

/** The signature of a canonical request. */
export const signatureOf = (
  request: ReadonlyArray<string>,
  { secretAccessKey }: Credentials,
  { time, scope }: ReturnType<typeof signingScope>,
): string => {
  const text = ["AWS4-HMAC-SHA256", time, scope.join("/"), sha256(request.join("\n"))].join("\n")
  return hmac(scope.reduce<string | Buffer>(hmac, `AWS4${secretAccessKey}`) as Buffer, text).toString("hex")
}

/** A request as it is signed. Path and query are encoded, and the query is in the order that the signature requires. */
interface Unsigned {
  readonly method: string
  readonly host: string
  readonly path: string
  readonly query: string
  /** Names are in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** The SHA-256 of the body, in hexadecimal. */
  readonly hash: string
}

/** Returns the headers of a request with its signature. */
export const signedHeaders = (
  { method, host, path, query, headers, hash }: Unsigned,
  credentials: Credentials,
  signing: SigningScope,
): Readonly<Record<string, string>> => {
  const { accessKeyId, sessionToken } = credentials
  const scoped = signingScope(signing)
  const own: Readonly<Record<string, string>> = {
    ...headers,
    "x-amz-content-sha256": hash,
    "x-amz-date": scoped.time,
    ...(sessionToken !== undefined && { "x-amz-security-token": sessionToken }),
  }
  const all = Object.entries({ ...own, host }).sort(([one], [other]) => (one < other ? -1 : 1))
  const names = all.map(([name]) => name).join(";")
  const request = [method, path, query, ...all.map(([name, value]) => `${name}:${value}`), "", names, hash]
  const signature = signatureOf(request, credentials, scoped)
  const credential = [accessKeyId, ...scoped.scope].join("/")
  const authorization = `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${names}, Signature=${signature}`
  return { ...own, authorization }
}

/** The options that every client of the SDK takes. */
type Options = Pick<
  SNSClientConfig,
  "region" | "maxAttempts" | "customUserAgent" | "requestHandler" | "endpoint" | "profile" | "credentials"
>

interface ClientConfig extends Identity {
  readonly region: string
  readonly endpoint?: string
}

/** Makes a request with the client. An interruption aborts it. */
type Ask<Client> = <A>(
  request: (client: Client, options: { readonly abortSignal: AbortSignal }) => Promise<A>,
) => Effect.Effect<A, SinkError>

/** Properties of all types of sinks that use AWS's SDK. */
export const traits = { libraries: ["@aws-sdk/", "@aws/", "@smithy/"], concurrency: 8 } as const

/** Opens a client for a scope. */
export const open = <Client>(
  make: (options: Options) => Client,
  config: ClientConfig,
  place: AwsErrors.Place,
): Effect.Effect<Ask<Client>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const connections = yield* Effect.acquireRelease(
      Effect.sync(() => makeConnections()),
      ({ close }) => Effect.sync(close),
    )
    const credentials = yield* credentialsOf(config, connections)
    const options: Options = {
      region: config.region,
      maxAttempts: 1,
      customUserAgent: [userAgent.split("/") as [string, string]],
      requestHandler: connections.requestHandler,
      ...(config.endpoint !== undefined && { endpoint: config.endpoint }),
      ...(config.profile !== undefined && { profile: config.profile }),
    }
    let client: Client | undefined
    const current = (): Client => {
      client ??= make({ ...options, credentials: credentials() })
      return client
    }
    /** The SDK keeps credentials, also those that AWS refuses: another client looks for them again. */
    const doubt = (error: AwsErrors.AwsError) =>
      Effect.sync(() => {
        if (AwsErrors.isOfCredentials(error)) client = undefined
      })
    const closeIdle = Effect.sync(connections.closeIdle)
    return (request) =>
      Effect.tryPromise({
        try: (abortSignal) => request(current(), { abortSignal }),
        catch: AwsErrors.ofThrown,
      }).pipe(
        Effect.tapError(doubt),
        Effect.onInterrupt(() => closeIdle),
        Effect.mapError((error) => AwsErrors.sinkErrorOf(error, place)),
        Effect.tapError((error) => (mayHaveMoved(error) ? closeIdle : Effect.void)),
      )
  })
