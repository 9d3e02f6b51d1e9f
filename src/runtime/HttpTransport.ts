/**
 * `fetch` with certificates of one's own: Bun takes them with each request,
 * Deno with a client that is made before and closed after.
 */
import { Effect, type Scope } from "effect"

/** PEM texts. */
export interface Certificates {
  /** Trusted instead of the system's authorities. */
  readonly ca?: string
  readonly certificate?: string
  readonly key?: string
}

export type Fetch = (url: string, init: RequestInit) => Promise<Response>

interface DenoClient {
  readonly close: () => void
}

interface DenoLike {
  readonly createHttpClient: (options: {
    readonly caCerts?: ReadonlyArray<string>
    readonly cert?: string
    readonly key?: string
  }) => DenoClient
}

const deno = (globalThis as { readonly Deno?: DenoLike }).Deno

/** A `fetch` for the length of a scope. */
export const make = (certificates: Certificates | undefined): Effect.Effect<Fetch, never, Scope.Scope> => {
  if (certificates === undefined) return Effect.succeed((url, init) => fetch(url, init))
  const { ca, certificate: cert, key } = certificates
  if (deno === undefined) {
    const tls = { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) }
    return Effect.succeed((url, init) => fetch(url, { ...init, tls }))
  }
  return Effect.map(
    Effect.acquireRelease(
      Effect.sync(() =>
        deno.createHttpClient({ ...(ca && { caCerts: [ca] }), ...(cert && { cert }), ...(key && { key }) }),
      ),
      (client) => Effect.sync(() => client.close()),
    ),
    (client): Fetch =>
      (url, init) =>
        fetch(url, { ...init, client } as RequestInit),
  )
}
