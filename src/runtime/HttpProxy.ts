/**
 * The proxy that the runtime sends requests through, by the environment
 * (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`), and whether an answer is
 * its own: without that, its troubles would be told as the receiver's.
 */
import process from "node:process"
import { hasProperty } from "effect/Predicate"
import type { Environment } from "./Environment.ts"

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

/** The proxy for requests to a URL; `undefined` where they go straight. */
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

/** The status by which a proxy refused the way to a host; `undefined` for any other error. */
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
