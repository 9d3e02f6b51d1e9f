/**
 * The database's address, in the syntax of PostgreSQL's own clients:
 * `postgres://user@db-1:5432,db-2:5432/relay?sslmode=verify-full`.
 *
 * Several hosts are one cluster, and only one host takes writes. The sender's events never cross a network in
 * plain text unless the url asks for it: the default of `sslmode` is `verify-full`, or `disable` for this
 * machine.
 */
import * as Address from "../../../config/Address.ts"

export const sslModes = ["disable", "require", "verify-ca", "verify-full"] as const
export type SslMode = (typeof sslModes)[number]

export interface Host extends Address.Address {
  /** The displayed name: `db-1:5432`, or the directory of a socket. */
  readonly name: string
}

export interface DatabaseUrl {
  readonly hosts: readonly [Host, ...ReadonlyArray<Host>]
  /** If `undefined`, the user of the process, as with every client of PostgreSQL. */
  readonly user: string | undefined
  readonly password: string | undefined
  /** `undefined` means the database with the user's name. */
  readonly database: string | undefined
  readonly sslMode: SslMode
  /** Whether a login must be bound to the TLS connection. Every login is bound if the server offers it. */
  readonly channelBinding: "prefer" | "require"
}

const usualPort = 5432

const form =
  /^postgres(?:ql)?:\/\/(?:(?<login>[^/?]*)@)?(?<hosts>[^/?]*)(?:\/(?<database>[^/?]*))?(?:\?(?<rest>.*))?$/su

/** The message about a string that isn't a url. It never quotes the string. */
export const expected =
  'a url is "postgres://user@host:5432/database", with several hosts "postgres://user@db-1:5432,db-2:5432/database"'

/** Accepted parameters and their values. They describe the relay's behavior, so they change nothing. */
const known = new Map([["target_session_attrs", ["read-write", "primary"]]])

/** Advice about the parameters of other clients, by their names. */
const instead: ReadonlyArray<readonly [RegExp, string]> = [
  [/^sslrootcert$/, '"journal": { "tls": { "ca": … } } has its file; without it the system\'s authorities are trusted'],
  [/^ssl(cert|key|password)$/, '"journal": { "tls": { "certificate": …, "key": … } } has its files'],
  [/^ssl$/, `write sslmode: ${sslModes.join(", ")}`],
  [/^(current)?schema$|^search_path$/i, '"journal": { "schema": … } has it'],
  [/^(connect_?timeout|pool_timeout)$/i, '"journal": { "connectTimeout": "3 seconds" } has it'],
  [/^(connection_limit|pool_?(size|max|min)?|pool_m(ax|in)_conns|max_?conn.*)$/i, '"journal": { "pool": 8 } has it'],
  [/^password$/, '"journal": { "password": … } has it'],
  [/^(user|dbname|database|hostaddr)$/, "it belongs before the question mark: postgres://user@host:5432/database"],
  [
    /^(pgbouncer|prepare_?threshold|statement_cache.*|prepared_statements)$/i,
    "leave it out: a pooler needs no setting",
  ],
  [/application_name$/, "leave it out: each connection has the relay's name"],
  [/^(options|statement_timeout|lock_timeout)$/, "leave it out: the relay sets what it needs"],
  [
    /^(gss|keepalives|tcp_user|krb|require_auth|load_balance|uselibpq|supa)/i,
    "leave it out: the relay doesn't need it",
  ],
]

/** The message about a parameter that the relay doesn't take. It has the parameter's name, never its value. */
const unknown = (key: string): string => {
  const found = instead.find(([names]) => names.test(key))?.[1]
  if (found !== undefined) return `the relay takes no parameter ${key}: ${found}`
  return `the relay knows no parameter ${key} with this value: "sslmode", "channel_binding" and "host" with a directory may stand there; certificates have the key "tls", and the pool has "pool"`
}

/** What to do about modes that are known elsewhere. */
const insteadOfMode: Readonly<Record<string, string>> = {
  allow: '; "allow" may send events unencrypted',
  prefer: '; "prefer" may send events unencrypted',
  "no-verify": '; "require" encrypts and checks no certificate',
}

const hostOf = (text: string, portOfSocket: string | undefined): Host | string => {
  if (text.startsWith("/")) {
    const port = Number(portOfSocket ?? usualPort)
    return { host: text, port, name: port === usualPort ? text : `${text}:${port}` }
  }
  const address = Address.parse(/:\d+$/u.test(text) ? text : `${text}:${usualPort}`)
  if (address === undefined || address.port < 1 || address.port > 65_535) return expected
  return { ...address, name: Address.format(address) }
}

const isLocal = ({ host }: Host): boolean => host.startsWith("/") || Address.isLoopback({ host })

/** Returns the url, or the problem with it. */
export const parse = (text: string): DatabaseUrl | string => {
  const { login = "", hosts = "", database = "", rest = "" } = form.exec(text)?.groups ?? {}
  if (!form.test(text)) return expected
  const parameters = new URLSearchParams(rest)
  const [user, password] = login.split(/:(.*)/su).map(Address.percentDecoded)
  const name = Address.percentDecoded(database)
  if (name === undefined || (login !== "" && user === undefined))
    return `a % begins two hexadecimal digits; ${expected}`
  if (login.includes(":") && password === undefined) {
    return 'the password has a % that doesn\'t begin two hexadecimal digits: write it as %25, or move the password to "journal": { "password": … }'
  }
  let sslMode: string | undefined
  let directory: string | undefined
  let portOfSocket: string | undefined
  let channelBinding: DatabaseUrl["channelBinding"] = "prefer"
  for (const [key, value] of parameters) {
    if (key === "sslmode") sslMode = value
    else if (key === "channel_binding" && (value === "prefer" || value === "require")) channelBinding = value
    else if (key === "host" && value.startsWith("/")) directory = value
    else if (key === "port" && /^\d{1,5}$/u.test(value)) portOfSocket = value
    else if (known.get(key)?.includes(value) !== true) return unknown(key)
  }
  if (portOfSocket !== undefined && directory === undefined) {
    return "port is for a socket, beside host with its directory; the port of a host follows it: host:5432"
  }
  if (sslMode !== undefined && !sslModes.some((one) => one === sslMode)) {
    return `sslmode is one of ${sslModes.join(", ")}${insteadOfMode[sslMode] ?? ""}`
  }
  const found = (directory === undefined ? hosts.split(",") : [directory]).map((host) => hostOf(host, portOfSocket))
  const all: Array<Host> = []
  for (const host of found) {
    if (typeof host === "string") return host
    all.push(host)
  }
  const usual: SslMode = all.every(isLocal) ? "disable" : "verify-full"
  return {
    hosts: all as [Host, ...Array<Host>],
    user: user || undefined,
    password: password || undefined,
    database: name || undefined,
    sslMode: (sslMode as SslMode | undefined) ?? usual,
    channelBinding,
  }
}
