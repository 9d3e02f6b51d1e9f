/**
 * `fetch` as the relay sends with: certificates of one's own (Bun takes them
 * with each request, Deno with a client that is made before and closed after),
 * and one set of names for what goes wrong where each runtime has its own.
 */
import { Effect, type Scope } from "effect"
import manifest from "../../package.json" with { type: "json" }

export const userAgent = `relay/${manifest.version}`

/** PEM texts. */
export interface Certificates {
  /** Trusted instead of the system's authorities. */
  readonly ca?: string
  readonly certificate?: string
  readonly key?: string
}

export type Fetch = (url: string, init: RequestInit) => Promise<Response>

interface DenoLike {
  readonly createHttpClient: (options: {
    readonly caCerts?: ReadonlyArray<string>
    readonly cert?: string
    readonly key?: string
  }) => { readonly close: () => void }
}

const deno = (globalThis as { readonly Deno?: DenoLike }).Deno

/** A `fetch` for the length of a scope. A redirect is an answer like any other, and nothing is decompressed where that can be had. */
export const make = (certificates: Certificates = {}): Effect.Effect<Fetch, never, Scope.Scope> => {
  const { ca, certificate: cert, key } = certificates
  if (deno === undefined) {
    const isPlain = ca === undefined && cert === undefined
    const tls = {
      ...(ca !== undefined && { ca }),
      ...(cert !== undefined && { cert }),
      ...(key !== undefined && { key }),
    }
    const ours = { redirect: "manual", decompress: false, ...(isPlain ? {} : { tls }) } as const
    return Effect.succeed((url, init) => fetch(url, { ...ours, ...init }))
  }
  return Effect.map(
    Effect.acquireRelease(
      Effect.sync(() =>
        deno.createHttpClient({
          ...(ca !== undefined && { caCerts: [ca] }),
          ...(cert !== undefined && { cert }),
          ...(key !== undefined && { key }),
        }),
      ),
      (client) => Effect.sync(() => client.close()),
    ),
    (client): Fetch =>
      (url, init) =>
        fetch(url, { redirect: "manual", ...init, client } as RequestInit),
  )
}

/** Why there was no answer. */
export type Trouble =
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
  | "other"

/** Bun tells by codes, Deno by sentences that hold the URL. The first that fits decides. */
const signs: ReadonlyArray<readonly [RegExp, Trouble]> = [
  [
    /CERT_HAS_EXPIRED|CERT_NOT_YET_VALID|: (Expired|NotValidYet)|certificate (expired|not valid yet)/,
    "expired certificate",
  ],
  [/ALTNAME_INVALID|HOSTNAME_MISMATCH|NotValidForName|not valid for (any )?name/, "certificate of another host"],
  [/INVALID_(CA|PURPOSE)|CERT_RE(VOKED|JECTED)|Revoked|CaUsedAsEndEntity|key usage/, "unfit certificate"],
  [/UNABLE_TO_(VERIFY|GET)|SELF_SIGNED|CERT_|ERR_TLS_CERT|invalid peer certificate/, "untrusted certificate"],
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
  // A path may hold the very words that are looked for.
  return code === "" ? error.message.replace(url, "") : code
}

export const troubleOf = (error: unknown): Trouble => {
  for (let one = error, depth = 0; one instanceof Error && depth < 4; one = one.cause, depth++) {
    const text = textOf(one)
    const found = signs.find(([sign]) => sign.test(text))
    if (found !== undefined) return found[1]
  }
  return "other"
}
