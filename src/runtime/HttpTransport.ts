/**
 * `fetch` for outgoing requests, with certificates from the config and the same
 * names for failures on both runtimes. Bun takes certificates with each request,
 * Deno with a client that is closed afterwards.
 */
import process from "node:process"
import { Effect, type Scope } from "effect"
import { hasProperty } from "effect/Predicate"
import type { Environment } from "./Environment.ts"
import { relayVersion } from "./Version.ts"

// Chooses the pool of connections for a request under Bun.
// A NAT or a firewall may silently drop idle connections, and each of them then causes a timeout. A service may have
// moved to another address while the server at the old one still answers. Bun can't close pooled connections on
// request. But requests with different TLS options use different pools, also over plain `http://`. So an option that
// changes nothing for a client selects the pool.

/** Milliseconds. Firewalls drop connections that were idle for half a minute or longer. */
const longestIdle = 15_000
/** Milliseconds. A server may still accept events although the host name now leads to another address. */
const maxAge = 600_000
/**
 * Milliseconds after which a pool that is no longer used is empty. This is longer
 * than Bun keeps an idle connection.
 */
const emptyAfter = 330_000
/**
 * Minimum milliseconds between two pool changes because of an answer, since a
 * failing service gives such an answer each time.
 */
const betweenMoves = 30_000
/** Reports whether the host name may now lead to another server, judged by an answer's status. */
const mayHaveMoved = (status: number): boolean => status >= 500 || status === 404 || status === 410 || status === 421
/** The number of pools in addition to the default pool, which is cheapest. They are used in turn. */
const pools = 32

interface HttpPools {
  /** Returns the pool for the next request; 0 is the default pool. */
  readonly next: () => number
  /** Called when a request in this pool had no answer in time, so that the next requests use another pool. */
  readonly silent: (pool: number) => void
  /** Called when a request in this pool was answered with this status. */
  readonly answered: (pool: number, status: number) => void
}

/** Makes the pools of a sink; `now` is in monotonic milliseconds. */
export const makePools = (now: () => number = () => performance.now()): HttpPools => {
  let pool = 0
  let leftAt = Number.NEGATIVE_INFINITY
  let usedAt: number | undefined
  /** When the default pool was first used again after it was left. */
  let defaultSince: number | undefined
  const current = (): number => (now() - leftAt > emptyAfter ? 0 : pool)
  const leave = (): void => {
    pool = (pool % pools) + 1
    leftAt = now()
    defaultSince = undefined
  }
  const isStale = (): boolean =>
    (usedAt !== undefined && now() - usedAt > longestIdle) ||
    (defaultSince !== undefined && now() - defaultSince > maxAge)
  return {
    next: () => {
      if (isStale()) leave()
      usedAt = now()
      const chosen = current()
      if (chosen === 0) defaultSince ??= usedAt
      return chosen
    },
    silent: (used) => {
      // Requests that were in flight together fail together, so only the first of them changes the pool.
      if (used === current()) leave()
    },
    answered: (used, status) => {
      if (used === current() && mayHaveMoved(status) && now() - leftAt > betweenMoves) leave()
    },
  }
}

/** TLS options that name a pool by the seconds over which a server's renegotiations count: 600 by default. */
const poolOptions = (pool: number): object => (pool === 0 ? {} : { clientRenegotiationWindow: 600 + pool })

/** The relay's name and version, for the `User-Agent` of all its requests. */
export const userAgent = `relay/${relayVersion}`

/** PEM texts. */
export interface Certificates {
  /** Certificate authorities to trust instead of the system's. */
  readonly ca?: string
  /** The client's certificate, and its key. */
  readonly cert?: string
  readonly key?: string
}

/** `fetch` as the relay uses it. It rejects with the runtime's error, which `failureOf` classifies. */
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

/** A `fetch` for a scope. It follows no redirect, and decompresses nothing if the runtime allows that. */
export const make = (tls: Certificates = {}): Effect.Effect<Fetch, never, Scope.Scope> => {
  const { ca, ...own } = tls
  if (deno === undefined) {
    const pools = makePools()
    const isPlain = ca === undefined && own.cert === undefined
    return Effect.succeed(async (url, init) => {
      const pool = pools.next()
      const certificates = isPlain && pool === 0 ? {} : { tls: { ...tls, ...poolOptions(pool) } }
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

/** Makes a `fetch` for a scope that sends every request to a Unix socket. */
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

/** The cause of a missing answer. */
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

/** Descriptions of the failures that may end without a change. */
export const passing: Readonly<Partial<Record<Failure, string>>> = {
  refused: "nothing listens there (connection refused)",
  reset: "the connection was closed before an answer came",
  "unknown host": "its host name has no address",
  unreachable: "it can't be reached (unreachable, or timed out)",
  other: "the request failed",
}

/** Bun reports codes, and Deno reports sentences that contain the URL. The first match is used. */
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
  // Without URLs, because their paths may contain the words of a pattern.
  return code === "" ? error.message.replace(url, "") : code
}

/** Returns why a request got no answer, from the error of either runtime and its causes. */
export const failureOf = (error: unknown): Failure => {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 4; cause = cause.cause, depth++) {
    const text = textOf(cause)
    const found = patterns.find(([pattern]) => pattern.test(text))
    if (found !== undefined) return found[1]
  }
  return "other"
}

// The proxy that the runtime sends requests through, from the environment (`HTTP_PROXY`,
// `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`), and whether an answer is the proxy's own. Otherwise the
// proxy's troubles would be reported as the receiver's.

/** A proxy that the environment names. */
export interface HttpProxy {
  /** The host and port. The URL is not shown, because it may contain a password. */
  readonly name: string
  /** The variable that names it. */
  readonly variable: string
}

const isExcepted = ({ hostname, host }: URL, list: string): boolean =>
  list
    .split(",")
    .map((item) =>
      item
        .trim()
        .toLowerCase()
        .replace(/^\*?\./, ""),
    )
    .some(
      (item) => item === "*" || item === host || item === hostname || (item !== "" && hostname.endsWith(`.${item}`)),
    )

/** The proxy for requests to a URL. `undefined` if they go directly. */
export const proxyFor = (url: string, env: Environment = process.env): HttpProxy | undefined => {
  const target = new URL(url)
  const scheme = target.protocol === "https:" ? "https" : "http"
  // The runtime uses the first variable that is not empty.
  const names = [`${scheme}_proxy`, `${scheme}_proxy`.toUpperCase(), "all_proxy", "ALL_PROXY"]
  const variable = names.find((name) => (env[name] ?? "") !== "")
  if (variable === undefined || isExcepted(target, env.no_proxy || env.NO_PROXY || "")) return undefined
  const address = (env[variable] ?? "").replace(/^(?!https?:\/\/)/i, "http://")
  return { name: URL.canParse(address) ? new URL(address).host : `of ${variable}`, variable }
}

/** Returns the status with which a proxy refused a tunnel to a host, or `undefined` for any other error. */
export const refusedTunnel = (error: unknown): number | undefined => {
  if (!(error instanceof Error)) return undefined
  if (hasProperty(error, "code") && error.code === "ERR_PROXY_TUNNEL") {
    return hasProperty(error, "status") && typeof error.status === "number" ? error.status : 0
  }
  // Deno reports it in words, in the last of the error's causes.
  if (/tunnel error/.test(error.message)) return /authorization required/.test(error.message) ? 407 : 0
  return refusedTunnel(error.cause)
}

/** Returns a suffix for messages that names the proxy for a URL, or an empty string if there is none. */
export const ofTheWay = (url: string): string => {
  const proxy = proxyFor(url)
  return proxy === undefined ? "" : ` (through the proxy ${proxy.name})`
}

/** Reports whether an answer came from a proxy itself. Squid and proxies that implement RFC 9209 say so in a header. */
export const isItsOwn = ({ status, headers }: { readonly status: number; readonly headers: Pick<Headers, "get"> }) =>
  status === 407 || headers.get("x-squid-error") !== null || /;\s*error\s*=/.test(headers.get("proxy-status") ?? "")

// Reads a response to its end, so that the connection can be used again. Aborts it if that would
// take too long.

/** Maximum bytes that are read of a response. */
export const maxResponse = 64 * 1024
/** Milliseconds after which a response is aborted. Its status is already known. */
const drainTimeout = 1_000

/**
 * The body as far as it was read: some services put the verdict there and not into the status. `response.body` is
 * touched last, because the stream costs as much as four headers.
 */
export const drain = async (
  response: Response,
  abort: AbortController,
  limit = maxResponse,
): Promise<ReadonlyArray<Uint8Array>> => {
  if (response.status === 204) return []
  const length = response.headers.get("content-length")
  if (length === "0") return []
  const chunks: Array<Uint8Array> = []
  const timer = setTimeout(() => abort.abort(), drainTimeout)
  try {
    if (length !== null && Number(length) <= limit) chunks.push(new Uint8Array(await response.arrayBuffer()))
    else if (response.body !== null && !(await endsWithin(response.body, limit, chunks))) abort.abort()
  } catch {
    // Either side ended it early, but the status is known.
  } finally {
    clearTimeout(timer)
  }
  return chunks
}

const endsWithin = async (
  body: ReadableStream<Uint8Array>,
  limit: number,
  chunks: Array<Uint8Array>,
): Promise<boolean> => {
  const reader = body.getReader()
  for (let bytes = 0; bytes < limit; ) {
    const { done, value } = await reader.read()
    if (done) return true
    chunks.push(value)
    bytes += value.byteLength
  }
  return false
}
