/** Rules for the URLs that events are posted to. No finding repeats one: it may be the secret. */
import { type Address, isLoopback, isWildcard } from "../Address.ts"
import { type Finding, type Path, warning } from "../diagnostics/Source.ts"
import { type Fields, fields } from "../Fields.ts"
import { usual } from "../schema/ConfigFile.ts"
import { parseAddress } from "../schema/Units.ts"

const placeholder = /\{\{.*?\}\}/g

const parse = (text: unknown): URL | undefined => {
  const url = typeof text === "string" ? text.replaceAll(placeholder, "x") : ""
  return URL.canParse(url) ? new URL(url) : undefined
}

const portOf = ({ port, protocol }: URL): number => (port === "" ? (protocol === "https:" ? 443 : 80) : Number(port))

/** Whether a URL leads to a listener of this relay. */
const isOwn = (url: URL, listener: Address): boolean => {
  const host = url.hostname.replace(/^\[|\]$/g, "")
  const isHere = isLoopback(listener) || isWildcard(listener) ? isLoopback({ host }) : host === listener.host
  return listener.port !== 0 && portOf(url) === listener.port && isHere
}

/** The addresses that the relay listens on for deliveries and for its admin API; `undefined` where one is invalid. */
export const listeners = (root: Fields) =>
  [parseAddress(root.listen ?? usual.listen), parseAddress(fields(root.admin).listen ?? usual.adminListen)] as const

export const ownAddressRules = (
  value: unknown,
  at: Path,
  own: ReturnType<typeof listeners>,
): ReadonlyArray<Finding> => {
  const url = parse(value)
  if (url === undefined || !own.some((listener) => listener !== undefined && isOwn(url, listener))) return []
  return [warning(at, "this is the relay's own address: it would send its events to itself", "name the receiver's")]
}

/** The addresses of a service's URLs. A host that begins with a dot stands for all below it. */
interface Known {
  readonly hosts: ReadonlyArray<string>
  readonly paths: ReadonlyArray<string>
  readonly retired: Readonly<Record<string, string>>
}

const isOf = (host: string, known: string): boolean => (known.startsWith(".") ? host.endsWith(known) : host === known)

/** A URL of another host or path than the service's. One of this machine stands for the service in a test. */
export const serviceRules = (value: unknown, at: Path, { hosts, paths, retired }: Known): ReadonlyArray<Finding> => {
  const url = parse(value)
  if (url === undefined || isLoopback({ host: url.hostname.replace(/^\[|\]$/g, "") })) return []
  const host = url.hostname.toLowerCase()
  const [, todo] = Object.entries(retired).find(([known]) => isOf(host, known)) ?? []
  if (todo !== undefined) return [warning(at, "the service has retired the addresses of this host", todo)]
  if (hosts.some((known) => isOf(host, known))) {
    if (paths.length === 0 || paths.some((path) => url.pathname.startsWith(path))) return []
    return [warning(at, "no URL of the service's has this path", `theirs begin with ${paths.join(", ")}`)]
  }
  const theirs = hosts.map((known) => (known.startsWith(".") ? `*${known}` : known)).join(", ")
  return [warning(at, "this is no URL of the service's: it is of another host", `the service's are at ${theirs}`)]
}
