/**
 * Decides who may use the admin API.
 *
 * It listens on loopback, but any page in a browser on the same machine can send
 * requests there. So the Host must be the relay's (against DNS rebinding), and a
 * change must not come from a page of another site or from a plain form. If the
 * config has tokens, one is required. `Authorization.ts` checks for each endpoint
 * what the token's role allows. Probes are answered before the guard (`Probes.ts`).
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

/**
 * The content types that a page can send to another site without a preflight request
 * (Fetch, "CORS-safelisted request-header").
 */
const form = /^(application\/x-www-form-urlencoded|multipart\/form-data|text\/plain)\b/i

const reads: ReadonlySet<string> = new Set(["GET", "HEAD"])

/** Returns the name in a Host header or URL, without its port and brackets. */
const nameOf = (host: string): string =>
  host
    .replace(/:[0-9]+$/, "")
    .replace(/^\[|\]$/g, "")
    .toLowerCase()

const isAddress = (name: string): boolean => /^[0-9.]+$/.test(name) || name.includes(":")

/** Compares with an HMAC under a random key, so that the duration reveals nothing about either text. */
const blind = hmacSha256(crypto.randomUUID())
const encoder = new TextEncoder()
const blinded = (text: string): string => Buffer.from(blind(encoder.encode(text))).toString("hex")

/** The name and role of a request's sender, or why the request is refused. */
export interface Admitted {
  readonly name: string
  readonly role: Role
  readonly problem?: Problem.Problem
}

/**
 * The caller if no token is required. The admin API then listens only on loopback,
 * so the caller is a user of this machine, and the address would add nothing.
 */
const local: Admitted = { name: "local", role: "operate" }

/** Makes the check of requests: who sends them, and whether they may pass. */
export const make = (admin: AdminConfig) => {
  const { listen } = admin
  const tokens = tokensOf(admin).map(({ name, role, value }) => ({
    name,
    role,
    blinded: blinded(Redacted.value(value)),
  }))
  // A name can be rebound, but an address can't. So if the API listens on all addresses, any address is accepted.
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
    // A client that knows the token may use any name.
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
