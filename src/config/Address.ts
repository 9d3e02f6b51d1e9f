/** An address that a server listens on: host and port, as in `127.0.0.1:8080`, `[::1]:8080`, or `*:8080` for all. */
import { orUndefined } from "../event/Tolerance.ts"
export interface Address {
  readonly host: string
  readonly port: number
  /** The path of a Unix socket, which only this machine reaches. The port is 0 then. */
  readonly unix?: string
}

export const pattern = "^(\\[[0-9A-Fa-f:.]+\\]|[^\\s:/\\[\\]]+):\\d{1,5}$"
const matcher = new RegExp(pattern, "u")

/** Returns `undefined` if the text is not a host and port. The port may be too large. */
export const parse = (text: string): Address | undefined => {
  if (!matcher.test(text)) return undefined
  const colon = text.lastIndexOf(":")
  return { host: text.slice(0, colon).replace(/^\[|\]$/g, ""), port: Number(text.slice(colon + 1)) }
}

const unixPrefix = "unix:"
/** The longest path of a socket in bytes. The system's limit is 107, and the relay appends its process id. */
const longestPath = 96

/** {@link pattern}, or `unix:PATH`. */
export const listenPattern = `${pattern}|^unix:/`
export const parseListen = (text: string): Address | undefined =>
  text.startsWith(`${unixPrefix}/`) ? { host: "localhost", port: 0, unix: text.slice(unixPrefix.length) } : parse(text)

/** Reports whether a socket can have this path. */
export const isPath = (path: string): boolean =>
  new TextEncoder().encode(path).length <= longestPath && !path.endsWith("/") && !/\p{Cc}/u.test(path)

/** The text that `parseListen` reads. */
export const format = ({ host, port, unix }: Address): string =>
  unix === undefined ? `${host.includes(":") ? `[${host}]` : host}:${port}` : `${unixPrefix}${unix}`

/** Reports whether only this machine can reach it. */
export const isLoopback = ({ host }: Pick<Address, "host">): boolean =>
  host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host)

/** All addresses of this machine, of IPv4 and IPv6. */
export const all = "*"

export const isWildcard = ({ host }: Pick<Address, "host">): boolean => [all, "0.0.0.0", "::", ""].includes(host)

/** Returns the address at which this machine reaches a listener. A wildcard address can't be connected to. */
export const reachable = ({ host, port }: Address): Address => ({
  host: host === "::" ? "::1" : isWildcard({ host }) ? "127.0.0.1" : host,
  port,
})

/** Decodes a part of a URL. Returns `undefined` if it is wrongly encoded. */
export const percentDecoded = (text: string): string | undefined => orUndefined(() => decodeURIComponent(text))
