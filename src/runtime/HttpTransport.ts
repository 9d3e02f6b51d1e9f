/**
 * `fetch` for outgoing requests: with certificates from the config (Bun takes
 * them with each request, Deno with a client that is closed afterwards), and
 * with the same names for failures on both runtimes.
 */
import process from "node:process"
import { Effect, type Scope } from "effect"
import { hasProperty } from "effect/Predicate"
import type { Environment } from "./Environment.ts"
import { relayVersion } from "./Version.ts"

// Chooses the pool of connections for a request under Bun.
//
// A NAT or a firewall may drop an idle connection without a word, and each one
// then costs a time-out. A service may have moved to another address while the
// server at the old one goes on answering. Bun closes no pooled connection on
// request. Requests with different TLS options have different pools, also over
// plain `http://`, so an option that changes nothing for a client names the pool.

/** Milliseconds. Firewalls drop connections after half a minute of silence and more. */
const longestIdle = 15_000
/** Milliseconds. A server at an address that the name has left may go on accepting events. */
const maxAge = 600_000
/** Milliseconds, longer than Bun keeps an idle connection. After that a pool that was left is empty. */
const emptyAfter = 330_000
/** Milliseconds between two pools that are left because of an answer: a service that is down answers so each time. */
const betweenMoves = 30_000
/** Answers of a server that the name may no longer lead to. */
const mayHaveMoved = (status: number): boolean => status >= 500 || status === 404 || status === 410 || status === 421
/** The number of pools beside the default one, which costs least. They are used in turn. */
const pools = 32

interface HttpPools {
  /** Returns the pool for the next request; 0 is the default pool. */
  readonly next: () => number
  /** A request by this pool had no answer in time: the pool is left. */
  readonly silent: (pool: number) => void
  /** A request by this pool was answered with this status. */
  readonly answered: (pool: number, status: number) => void
}

/** Makes the pools of a sink; `now` is in monotonic milliseconds. */
export const makePools = (now: () => number = () => performance.now()): HttpPools => {
  let pool = 0
  let leftAt = Number.NEGATIVE_INFINITY
  let usedAt: number | undefined
  /** When the default pool is first used since it was left. */
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
      // Requests that were in flight together are silent together.
      if (used === current()) leave()
    },
    answered: (used, status) => {
      if (used === current() && mayHaveMoved(status) && now() - leftAt > betweenMoves) leave()
    },
  }
}

/** TLS options that name a pool by the seconds over which a server's renegotiations count: 600 by default. */
const poolOptions = (pool: number): object => (pool === 0 ? {} : { clientRenegotiationWindow: 600 + pool })

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

// The proxy that the runtime sends requests through, from the environment (`HTTP_PROXY`,
// `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`), and whether an answer is the proxy's own. Otherwise the
// proxy's troubles would be reported as the receiver's.

/** A proxy that the environment names. */
export interface HttpProxy {
  /** Its host and port; its URL may hold a password. */
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
  // The runtime takes the first that is not empty.
  const names = [`${scheme}_proxy`, `${scheme}_proxy`.toUpperCase(), "all_proxy", "ALL_PROXY"]
  const variable = names.find((name) => (env[name] ?? "") !== "")
  if (variable === undefined || isExcepted(target, env.no_proxy || env.NO_PROXY || "")) return undefined
  const address = (env[variable] ?? "").replace(/^(?!https?:\/\/)/i, "http://")
  return { name: URL.canParse(address) ? new URL(address).host : `of ${variable}`, variable }
}

/** The status with which a proxy refused the way to a host. `undefined` for any other error. */
export const refusedTunnel = (error: unknown): number | undefined => {
  if (!(error instanceof Error)) return undefined
  if (hasProperty(error, "code") && error.code === "ERR_PROXY_TUNNEL") {
    return hasProperty(error, "status") && typeof error.status === "number" ? error.status : 0
  }
  // Deno says it in words, at the end of its causes.
  if (/tunnel error/.test(error.message)) return /authorization required/.test(error.message) ? 407 : 0
  return refusedTunnel(error.cause)
}

/** Names who answered or failed at a URL, if that may be the proxy: empty without one. */
export const ofTheWay = (url: string): string => {
  const proxy = proxyFor(url)
  return proxy === undefined ? "" : ` (through the proxy ${proxy.name})`
}

/** Whether a proxy gave an answer itself: Squid says so, and so do those that know RFC 9209. */
export const isItsOwn = ({ status, headers }: { readonly status: number; readonly headers: Pick<Headers, "get"> }) =>
  status === 407 || headers.get("x-squid-error") !== null || /;\s*error\s*=/.test(headers.get("proxy-status") ?? "")

// Reads a response to its end, so that the connection can be used again. Aborts it if that would
// take too long.

/** Bytes of a response that are read. */
export const maxResponse = 64 * 1024
/** Milliseconds after which a response is aborted: its status is known. */
const drainTimeout = 1_000

/**
 * The body as far as it was read: some services put the verdict there and not into the status. `response.body` is
 * touched last, because the stream costs as much as four headers.
 */
export const drain = async (response: Response, abort: AbortController): Promise<ReadonlyArray<Uint8Array>> => {
  if (response.status === 204) return []
  const length = response.headers.get("content-length")
  if (length === "0") return []
  const chunks: Array<Uint8Array> = []
  const timer = setTimeout(() => abort.abort(), drainTimeout)
  try {
    if (length !== null && Number(length) <= maxResponse) chunks.push(new Uint8Array(await response.arrayBuffer()))
    else if (response.body !== null && !(await endsWithin(response.body, maxResponse, chunks))) abort.abort()
  } catch {
    // Cut off by either side: the status is known.
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
