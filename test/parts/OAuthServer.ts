/** A real OAuth server for tests: `oidc-provider` on loopback, which issues JWTs for client credentials. */
import { generateKeyPairSync, randomUUID } from "node:crypto"
import { once } from "node:events"
import { createServer, type Server } from "node:http"
import { freePort } from "../lib/port.ts"

/** The registered client, which is the subject of its tokens. */
export const client = { id: "relay", secret: "canary-oauth-client-secret" }
/** The scope that the client may request. */
export const scope = "events:write"
/** A scope that the server refuses to the client. */
export const foreignScope = "events:admin"
/** The default audience of its tokens. */
export const audience = "kafka"

export interface OAuthServer {
  readonly issuer: string
  readonly tokenUrl: string
  readonly jwks: string
  /** Requests a token with client credentials. */
  readonly token: () => Promise<string>
  /** Number of issued tokens. */
  readonly given: () => number
  /** Starts it again on the same port, with the same keys. */
  readonly start: () => Promise<void>
  readonly stop: () => Promise<void>
  /** Restarts it with another signing key. The old key stays published. */
  readonly rotate: () => Promise<void>
}

const signingKey = () => ({
  ...generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" }),
  kid: randomUUID(),
  use: "sig",
  alg: "RS256",
})

/** Starts a server whose tokens live for this many seconds. */
export const startOAuthServer = async (lifetime: number): Promise<OAuthServer> => {
  // The package prints a warning about Bun when it is loaded, so a skipped test must not load it.
  const { default: Provider } = await import("oidc-provider")
  const port = await freePort()
  const issuer = `http://127.0.0.1:${port}`
  let keys = [signingKey()]
  let given = 0
  let server: Server | undefined

  const provider = () => {
    const made = new Provider(issuer, {
      clients: [
        {
          client_id: client.id,
          client_secret: client.secret,
          grant_types: ["client_credentials"],
          redirect_uris: [],
          response_types: [],
          scope,
        },
      ],
      jwks: { keys },
      scopes: [scope, foreignScope],
      cookies: { keys: [randomUUID()] },
      extraTokenClaims: () => ({ sub: client.id }),
      features: {
        devInteractions: { enabled: false },
        clientCredentials: { enabled: true },
        resourceIndicators: {
          enabled: true,
          defaultResource: ({ oidc }) => `urn:${oidc.body?.audience ?? audience}`,
          getResourceServerInfo: (_, resource) => ({
            scope,
            audience: resource.slice("urn:".length),
            accessTokenTTL: lifetime,
            accessTokenFormat: "jwt",
          }),
        },
      },
    })
    made.on("client_credentials.issued", () => {
      given += 1
    })
    return made
  }

  const start = async () => {
    server = createServer(provider().callback()).listen(port, "127.0.0.1")
    await once(server, "listening")
  }
  const stop = async () => {
    if (server === undefined) return
    const closed = once(server, "close")
    server.close()
    server.closeAllConnections()
    await closed
    server = undefined
  }
  await start()
  return {
    issuer,
    tokenUrl: `${issuer}/token`,
    jwks: `${issuer}/jwks`,
    token: async () => {
      const authorization = `Basic ${btoa(`${client.id}:${client.secret}`)}`
      const body = new URLSearchParams({ grant_type: "client_credentials", scope })
      const answer = await fetch(`${issuer}/token`, { method: "POST", headers: { authorization }, body })
      return ((await answer.json()) as { readonly access_token: string }).access_token
    },
    given: () => given,
    start,
    stop,
    rotate: async () => {
      keys = [signingKey(), ...keys.slice(0, 1)]
      await stop()
      await start()
    },
  }
}
