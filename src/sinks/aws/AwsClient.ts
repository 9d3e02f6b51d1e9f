/**
 * A client of one of AWS's services, and requests by it.
 *
 * **Gotcha.** The SDK's own retries are turned off; the lane retries.
 */
import type { SNSClientConfig } from "@aws-sdk/client-sns"
import { Effect, type Scope } from "effect"
import { userAgent } from "../../runtime/HttpTransport.ts"
import { mayHaveMoved } from "../Connections.ts"
import type { SinkError } from "../Sink.ts"
import type { Identity } from "./AwsConfig.ts"
import * as AwsConnections from "./AwsConnections.ts"
import * as AwsCredentials from "./AwsCredentials.ts"
import * as AwsErrors from "./AwsErrors.ts"

/** The options that every client of the SDK takes. */
type Options = Pick<
  SNSClientConfig,
  "region" | "maxAttempts" | "customUserAgent" | "requestHandler" | "endpoint" | "profile" | "credentials"
>

export interface ClientConfig extends Identity {
  readonly region: string
  readonly endpoint?: string
}

/** Asks for something by the client; an interruption aborts the request. */
export type Ask<Client> = <A>(
  request: (client: Client, options: { readonly abortSignal: AbortSignal }) => Promise<A>,
) => Effect.Effect<A, SinkError>

/** The traits of all types of sinks over AWS's SDK. */
export const traits = { libraries: ["@aws-sdk/", "@aws/", "@smithy/"], concurrency: 8 } as const

/** Opens a client for a scope. */
export const open = <Client>(
  make: (options: Options) => Client,
  config: ClientConfig,
  place: AwsErrors.Place,
): Effect.Effect<Ask<Client>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const connections = yield* Effect.acquireRelease(
      Effect.sync(() => AwsConnections.make()),
      ({ close }) => Effect.sync(close),
    )
    const credentials = yield* AwsCredentials.of(config, connections)
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
