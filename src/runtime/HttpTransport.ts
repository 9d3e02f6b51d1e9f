/**
 * `fetch` for outgoing requests: with certificates from the config (Bun takes
 * them with each request, Deno with a client that is closed afterwards), and
 * with the same names for failures on both runtimes.
 */
import { Effect, type Scope } from "effect"
import * as HttpPools from "./HttpPools.ts"
import { relayVersion } from "./Version.ts"

/** The relay's name and version, for the `User-Agent` of every request that it sends. */
export const userAgent = `relay/${relayVersion}`

/** PEM texts. */
export interface Certificates {
  /** Trusted instead of the system's authorities. */
  readonly ca?: string
  /** The client's own, and its key. */
  readonly cert?: string
  readonly key?: string
}

/** `fetch` as the relay uses it. It rejects with the runtime's error, which `failureOf` reads. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

interface DenoLike {
  readonly createHttpClient: (options: {
    readonly proxy?: { readonly transport: "unix"; readonly path: string }
    readonly caCerts?: ReadonlyArray<string>
    readonly cert?: string
    readonly key?: string
  }) => { readonly close: () => void }
}

const deno = (globalThis as { readonly Deno?: DenoLike }).Deno

/** A `fetch` for a scope. It follows no redirect, and decompresses nothing where the runtime allows that. */
export const make = (tls: Certificates = {}): Effect.Effect<Fetch, never, Scope.Scope> => {
  const { ca, ...own } = tls
  if (deno === undefined) {
    const pools = HttpPools.make()
    const isPlain = ca === undefined && own.cert === undefined
    return Effect.succeed(async (url, init) => {
      const pool = pools.next()
      const certificates = isPlain && pool === 0 ? {} : { tls: { ...tls, ...HttpPools.optionsOf(pool) } }
      try {
        const response = await fetch(url, { redirect: "manual", decompress: false, ...certificates, ...init })
        pools.answered(pool, response.status)
        return response
      } catch (error) {
        if (init.signal?.aborted === true) pools.silent(pool)
        throw error
      }
    })
  }
  return Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => deno.createHttpClient({ ...own, ...(ca !== undefined && { caCerts: [ca] }) })),
      (client) => Effect.sync(() => client.close()),
    ),
    (client): Fetch =>
      (url, init) =>
        fetch(url, { redirect: "manual", ...init, client } as RequestInit),
  )
}

/** A `fetch` for a scope that sends every request to a Unix socket. */
export const makeAt = (unix: string): Effect.Effect<Fetch, never, Scope.Scope> =>
  deno === undefined
    ? Effect.succeed((url, init) => fetch(url, { ...init, unix }))
    : Effect.map(
        Effect.acquireRelease(
          Effect.sync(() => deno.createHttpClient({ proxy: { transport: "unix", path: unix } })),
          (client) => Effect.sync(() => client.close()),
        ),
        (client): Fetch =>
          (url, init) =>
            fetch(url, { ...init, client } as RequestInit),
      )

/** Why there was no answer. */
export type Failure =
  | "refused"
  | "reset"
  | "unknown host"
  | "unreachable"
  | "untrusted certificate"
  | "expired certificate"
  | "certificate of another host"
  | "unfit certificate"
  | "failed handshake"
  | "no HTTP"
  | "no HTTP/1.1"
  | "other"

/** The failures that pass by themselves, in words. */
export const passing: Readonly<Partial<Record<Failure, string>>> = {
  refused: "nothing listens there (connection refused)",
  reset: "the connection was closed before an answer came",
  "unknown host": "its host name has no address",
  unreachable: "there is no way to it (unreachable, or timed out)",
  other: "the request failed",
}

/** Bun reports codes, Deno sentences that contain the URL. The first match counts. */
const patterns: ReadonlyArray<readonly [RegExp, Failure]> = [
  [
    /CERT_HAS_EXPIRED|CERT_NOT_YET_VALID|: (Expired|NotValidYet)|certificate (expired|not valid yet)/,
    "expired certificate",
  ],
  [/ALTNAME_INVALID|HOSTNAME_MISMATCH|NotValidForName|not valid for (any )?name/, "certificate of another host"],
  [/INVALID_(CA|PURPOSE)|CERT_RE(VOKED|JECTED)|Revoked|CaUsedAsEndEntity|key usage/, "unfit certificate"],
  [/UNABLE_TO_(VERIFY|GET)|SELF_SIGNED|CERT_|ERR_TLS_CERT|invalid peer certificate/, "untrusted certificate"],
  [/NO_APPLICATION_PROTOCOL|no ?application ?protocol/i, "no HTTP/1.1"],
  [/EPROTO|received fatal alert|received corrupt message|ERR_SSL|ERR_TLS/, "failed handshake"],
  [/ENOTFOUND|EAI_|dns error|DNSResolv/, "unknown host"],
  [/ECONNREFUSED|ConnectionRefused|Connection refused/, "refused"],
  [/EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|unreachable|timed out/, "unreachable"],
  [/Malformed_HTTP|invalid HTTP/, "no HTTP"],
  [/ECONNRESET|EPIPE|ConnectionClosed|Connection reset|Broken pipe|connection closed|SendRequest/, "reset"],
]

const url = /https?:\/\/\S+/gi

const textOf = (error: Error): string => {
  const code = "code" in error && typeof error.code === "string" ? error.code : ""
  // The path of a URL may contain the words that are looked for.
  return code === "" ? error.message.replace(url, "") : code
}

/** Why a request has no answer, by the error of either runtime and the causes within it. */
export const failureOf = (error: unknown): Failure => {
  for (let one = error, depth = 0; one instanceof Error && depth < 4; one = one.cause, depth++) {
    const text = textOf(one)
    const found = patterns.find(([pattern]) => pattern.test(text))
    if (found !== undefined) return found[1]
  }
  return "other"
}
