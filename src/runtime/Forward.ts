/**
 * Hands requests on to the process that has taken over an address. Clients send
 * them on connections that they opened before.
 */
import { type Address, format, reachable } from "../config/Address.ts"
import * as Environment from "./Environment.ts"
import * as Hold from "./Hold.ts"
import type { Handler } from "./RequestGuard.ts"

/** Sends requests to an address of this machine. Its certificate isn't checked: only a process of this user listens there. */
export const forwardTo = (address: Address, isTls: boolean): Handler => {
  const target = reachable(address)
  const { unix } = address
  const origin = `${isTls ? "https" : "http"}://${unix === undefined ? format(target) : target.host}`
  Environment.goDirect([target.host])
  return async (request) => {
    const { pathname, search } = new URL(request.url)
    const headers = new Headers(request.headers)
    headers.delete("connection")
    const options = {
      method: request.method,
      headers,
      body: request.body,
      redirect: "manual",
      signal: request.signal,
      // Bun's own: the answer goes on as it came.
      decompress: false,
      tls: { rejectUnauthorized: false },
      ...(unix !== undefined && { unix }),
    } as const
    return fetch(`${origin}${pathname}${search}`, options).then(
      ({ body, status, headers }) => new Response(body, { status, headers }),
      () => Hold.refuse(request),
    )
  }
}
