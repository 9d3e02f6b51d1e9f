/**
 * The rules of who may use the admin API.
 *
 * It listens on loopback, but any page in a browser on the same machine can send
 * requests there. So the Host must be the relay's (against DNS rebinding), a
 * change must not come from a page of another site nor be what a bare form
 * sends, and where there are tokens one is required. What its role allows is
 * checked by endpoint, in `Authorization.ts`. Probes are answered before
 * (`Probes.ts`).
 */
import { Redacted } from "effect"
import { isLoopback, isWildcard } from "../config/Address.ts"
import { type AdminConfig, type Role, tokensOf } from "../config/Config.ts"
import { hmacSha256 } from "../event/Signature.ts"
import type * as Problem from "../runtime/Problem.ts"

const misdirected: Problem.Problem = {
  status: 421,
  title: "This host is not the relay's",
  detail: "use localhost, a loopback address, or the address of admin.listen",
}
const foreign: Problem.Problem = {
  status: 403,
  title: "A page of another site can't make changes",
}
const unauthorized: Problem.Problem = {
  status: 401,
  title: "The admin token is missing or wrong",
  detail: "send admin.token of the config, or one of admin.tokens, as a bearer token",
  headers: { "www-authenticate": "Bearer" },
}

/** All that a page can send elsewhere without being asked first (Fetch, "CORS-safelisted request-header"). */
const form = /^(application\/x-www-form-urlencoded|multipart\/form-data|text\/plain)\b/i

const reads: ReadonlySet<string> = new Set(["GET", "HEAD"])

/** The name in a Host header or URL, without its port and brackets. */
const nameOf = (host: string): string =>
  host
    .replace(/:[0-9]+$/, "")
    .replace(/^\[|\]$/g, "")
    .toLowerCase()

const isAddress = (name: string): boolean => /^[0-9.]+$/.test(name) || name.includes(":")

/** Compares by HMAC under a random key: the time that it takes tells nothing of either text. */
const blind = hmacSha256(crypto.randomUUID())
const encoder = new TextEncoder()
const blinded = (text: string): string => Buffer.from(blind(encoder.encode(text))).toString("hex")

/** The name and role that a request has, and why it is refused, if it is. */
export interface Admitted {
  readonly name: string
  readonly role: Role
  readonly problem?: Problem.Problem
}

/**
 * Whoever needs no token. Without one the admin API listens on loopback alone,
 * so this is a user of this machine, and the peer's address would say no more.
 */
const local: Admitted = { name: "local", role: "operate" }

/** Checks requests: who asks, and whether the request may pass. */
export const make = (admin: AdminConfig) => {
  const { listen } = admin
  const tokens = tokensOf(admin).map(({ name, role, value }) => ({
    name,
    role,
    blinded: blinded(Redacted.value(value)),
  }))
  // An address can't be rebound, a name can: beyond loopback any address will do.
  const ours = (name: string): boolean =>
    isLoopback({ host: name }) || name === listen.host.toLowerCase() || (isWildcard(listen) && isAddress(name))

  const holderOf = (authorization: string) => {
    if (!authorization.startsWith("Bearer ")) return undefined
    const given = blinded(authorization.slice("Bearer ".length))
    return tokens.find((token) => token.blinded === given)
  }

  return ({ method, headers }: Request): Admitted => {
    const name = nameOf(headers.get("host") ?? "")
    const holder = holderOf(headers.get("authorization") ?? "")
    const { name: caller, role } = holder ?? local
    const admitted = { name: caller, role }
    const refused = (problem: Problem.Problem): Admitted => ({ ...admitted, problem })
    // A client that knows the token may come by any name.
    if (!ours(name) && holder === undefined) return refused(misdirected)
    if (!reads.has(method)) {
      const site = headers.get("sec-fetch-site")
      if (site !== null && site !== "same-origin" && site !== "none") return refused(foreign)
      const origin = headers.get("origin")
      if (form.test(headers.get("content-type") ?? "")) return refused(foreign)
      if (origin !== null && !(URL.canParse(origin) && new URL(origin).host === headers.get("host")))
        return refused(foreign)
    }
    return tokens.length === 0 || holder !== undefined ? admitted : refused(unauthorized)
  }
}
