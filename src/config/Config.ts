/**
 * The config as the relay uses it: everything resolved, defaulted and decoded.
 *
 * `ConfigFile.ts` describes the file, and `Load.ts` makes this of it.
 */
import { DateTime, Duration, type Redacted } from "effect"
import type { Bytes, EpochMillis, Millis } from "../event/Quantities.ts"
import type * as Template from "../formats/Template.ts"
import type { Route } from "../routing/Router.ts"
import type { Address } from "./Address.ts"
import type { Certificate } from "./Certificate.ts"

// The rule by which a sender without deliveries counts as silent.

/** Hours of each day, in minutes after midnight. If they end before they begin, they end on the next day. */
export interface Hours {
  readonly from: number
  readonly to: number
}

export interface SilentAfter {
  readonly duration: Duration.Duration
  /** If set, only time within these hours counts. */
  readonly within?: { readonly hours: Hours; readonly timeZone: string }
}

const twoDigits = (value: number): string => String(value).padStart(2, "0")

/** `08:00`, from minutes after midnight. */
export const clockOf = (minutes: number): string => `${twoDigits(Math.floor(minutes / 60))}:${twoDigits(minutes % 60)}`

const dayMinutes = 24 * 60

/** The length of the hours on a day without a clock change. */
export const lengthOf = ({ from, to }: Hours): Millis => (to > from ? to - from : to + dayMinutes - from) * 60_000

/** Returns when a sender whose last delivery was at `since` becomes silent. */
export const silentAt = (since: EpochMillis, { duration, within }: SilentAfter): EpochMillis => {
  let left = Duration.toMillis(duration)
  if (within === undefined) return since + left
  const { hours, timeZone } = within
  const { year, month, day } = DateTime.toParts(DateTime.makeZonedUnsafe(since, { timeZone }))
  const instant = (day: number, minute: number): EpochMillis =>
    DateTime.makeZonedUnsafe({ year, month, day, minute }, { timeZone, adjustForTimeZone: true }).epochMilliseconds
  const to = hours.to > hours.from ? hours.to : hours.to + dayMinutes
  // The hours of the day before may end after `since`.
  for (let next = day - 1; ; next++) {
    const from = Math.max(since, instant(next, hours.from))
    const length = Math.max(0, instant(next, to) - from)
    if (length >= left) return from + left
    left -= length
  }
}

/** The signing secret of the embedded config. It is public, so it is refused beyond loopback. */
export const developmentSecret = "relay-development-secret"

/** The limit of all bodies in flight together, so no single body can be larger. */
export const maxInFlight: Bytes = 64 * 1024 * 1024

/** The waits of a stop before the port closes: it first accepts deliveries for `delay`, then refuses them for `refuse`. */
export interface StopWaits {
  readonly delay: Duration.Duration
  readonly refuse: Duration.Duration
}

/** The time that a stop has after its waits to finish requests and attempts, and to close the journal. */
export const drainTime = Duration.seconds(24)

/** The time from the first signal until the process exits, whatever is unfinished. */
export const stopDeadline = ({ delay, refuse }: StopWaits): Duration.Duration =>
  Duration.sum(Duration.sum(delay, refuse), drainTime)

/** The paths of the probes: `probes` serves them beside the webhooks. */
export const probePaths = { health: "/healthz", ready: "/readyz" } as const

/** PEM texts. */
export interface Tls {
  readonly certificate: string
  readonly key: Redacted.Redacted<string>
}

/** A signing secret of a webhook. Without `expires` it never expires. */
export interface Secret {
  readonly name: string
  readonly value: Redacted.Redacted<string>
  readonly expires?: EpochMillis
}

/** A webhook of the sender: its path, and how its deliveries are verified and answered. */
export interface Webhook {
  readonly name: string
  readonly ids: ReadonlyArray<string>
  readonly path: string
  readonly secrets: ReadonlyArray<Secret>
  readonly headers: { readonly signature: string; readonly webhookId: string }
  readonly unknownTypes: "route" | "quarantine" | "reject"
  readonly undecodable: "quarantine" | "reject"
  readonly respond: number
  readonly maxBody: Bytes
  readonly commitTimeout: Duration.Duration
  readonly strictId: boolean
  /** If absent, the sender is never reported as silent. */
  readonly silentAfter?: SilentAfter
}

/** How a sink's events are delivered, retried and dead-lettered. */
export interface Delivery {
  readonly timeout: Duration.Duration
  readonly retry: {
    readonly maxAge: Duration.Duration
    /** If absent, there is no limit. */
    readonly maxAttempts?: number
    readonly initial: Duration.Duration
    readonly max: Duration.Duration
  }
  /** The lane pauses after this many failures in a row, over at least three different events. */
  readonly pauseAfter: number
  /** The lane pauses when more events than this wait for a retry. */
  readonly maxRetrying: number
  /** The lane pauses when its dead letters are larger than this. It is at most a quarter of the journal. */
  readonly maxDeadLetters: Bytes
}

/** The settings that every sink has, whatever its type. */
export interface LaneConfig {
  readonly name: string
  readonly type: string
  readonly delivery: Delivery
  readonly concurrency: number
  readonly order: "none" | "key"
  /** The template of the key that orders events or groups them into digests, e.g. `{{account_id}}`. */
  readonly key: Template.Text
  /** Events of one key within the window are sent as one message. */
  readonly digest?: { readonly wait: Duration.Duration; readonly maxEvents: number }
  /** If set, client details are added to its events. The value is the reaction if they can't be fetched. */
  readonly enrich?: "deliver" | "wait" | "deadLetter"
  /** Whether the sink also receives the recoveries of failures that are routed to it. */
  readonly resolves?: boolean
  readonly rateLimit?: { readonly events: number; readonly per: Duration.Duration }
  readonly backlog?: { readonly max: number; readonly whenFull: "refuse" | "deadLetter" }
  readonly renamedFrom?: string
  /** The type's own config, decoded by its schema: what `SinkType.open` takes. */
  readonly config: unknown
}

/** A collector of traces and logs. */
export interface Otlp {
  /** The base URL, to which `/v1/traces` and `/v1/logs` are added. It is redacted because it may contain a key. */
  readonly url: Redacted.Redacted<string>
  readonly headers: Readonly<Record<string, Redacted.Redacted<string>>>
  /** From 0 to 1. */
  readonly sampleRate: number
  readonly serviceName: string
  readonly attributes: Readonly<Record<string, string>>
}

/** The sender's API for client details (webhook interface, section 4.2). */
export interface ClientsConfig {
  /** Has no slash at its end. */
  readonly baseUrl: string
  readonly headers: Readonly<Record<string, Redacted.Redacted<string>>>
  readonly timeout: Duration.Duration
  readonly concurrency: number
  readonly rateLimit?: { readonly events: number; readonly per: Duration.Duration }
  readonly cache: { readonly lifetime: Duration.Duration; readonly entries: number }
  /** JSON Pointers to the client's id, by patterns of event types. */
  readonly events: Readonly<Record<string, string>>
}

/** A journal's type, and the keys that only this type has. */
export interface JournalConfig {
  readonly type: string
  readonly [key: string]: unknown
}

/** Limits of the quarantine; `maxShare` is in percent of the journal's size. */
interface QuarantineConfig {
  readonly maxSize: Bytes
  readonly maxShare: number
  readonly maxAge?: Duration.Duration
}

/** The rights of an admin token: `read` sees everything, and `operate` also makes changes. */
export const roles = ["read", "operate"] as const
export type Role = (typeof roles)[number]

export interface AdminToken {
  readonly name: string
  readonly role: Role
  readonly value: Redacted.Redacted<string>
}

/** The admin API has one token for all, or several with names, or none. */
export interface AdminConfig {
  readonly listen: Address
  readonly token?: Redacted.Redacted<string>
  readonly tokens?: ReadonlyArray<AdminToken>
}

/** The name of `admin.token`, which everyone shares. */
export const onlyToken = "admin"

/** Returns the tokens of the admin API; empty if it requires none. */
export const tokensOf = ({ token, tokens = [] }: AdminConfig): ReadonlyArray<AdminToken> =>
  token === undefined ? tokens : [{ name: onlyToken, role: "operate", value: token }]

/** The permissions of a Unix socket. */
export interface Socket {
  readonly mode: number
  readonly group?: string
}

export interface RelayConfig {
  readonly listen: Address
  readonly socket?: Socket
  /** Whether this listener also answers the probes. */
  readonly probes: boolean
  readonly idleTimeout: Duration.Duration
  /** Maximum bytes of a request line with its headers. If absent, the runtime's own limit applies. */
  readonly maxHeaders?: Bytes
  /** The header in which a proxy sends the sender's address. */
  readonly addressHeader?: string
  readonly tls?: Tls
  readonly drain: StopWaits
  /** All certificates that are in use and can be read. */
  readonly certificates: ReadonlyArray<Certificate>
  readonly admin: AdminConfig
  readonly telemetry: { readonly otlp?: Otlp }
  readonly clients?: ClientsConfig
  readonly journal: JournalConfig
  readonly quarantine: QuarantineConfig
  readonly webhooks: ReadonlyArray<Webhook>
  readonly sinks: ReadonlyArray<LaneConfig>
  readonly routes: ReadonlyArray<Route>
  readonly tests: ReadonlyArray<{
    readonly event: string
    readonly webhook?: string
    readonly object?: unknown
    /** A file beside the config with the event's body. */
    readonly sample?: string
    readonly to: ReadonlyArray<string>
    /** The files next to the config that hold the expected payload of each sink. */
    readonly payloads: Readonly<Record<string, string>>
  }>
}
