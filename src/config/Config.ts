/**
 * The config as the relay uses it: everything resolved, defaulted and decoded.
 *
 * `ConfigFile.ts` describes the file, and `Load.ts` makes this of it.
 */
import { Duration } from "effect"
import { type Bytes, type DailyHours, days, type EpochMillis, type Millis } from "../event/Quantities.ts"
import type { Sender } from "../routing/Foreign.ts"
import type { Route } from "../routing/Router.ts"
import type { Certificate } from "./Certificate.ts"
import type { ConfigFile, Lane } from "./schema/ConfigFile.ts"

// The rule by which a sender without deliveries counts as silent.

export interface SilentAfter {
  readonly duration: Duration.Duration
  /** If set, only time within these hours counts. */
  readonly within?: DailyHours
}

/** Returns when a sender whose last delivery was at `since` becomes silent. */
export const silentAt = (since: EpochMillis, { duration, within }: SilentAfter): EpochMillis => {
  let left = Duration.toMillis(duration)
  if (within === undefined) return since + left
  for (const [begin, end] of days(since, within)) {
    const from = Math.max(since, begin)
    const length = Math.max(0, end - from)
    if (length >= left) return from + left
    left -= length
  }
  return since + left
}

/** The signing secret of the embedded config. It is public, so it is refused beyond loopback. */
export const developmentSecret = "relay-development-secret"

/** The limit of all bodies in flight together, so no single body can be larger. */
export const maxInFlight: Bytes = 64 * 1024 * 1024

export type StopWaits = ConfigFile["drain"]

/** The time that a stop has after its waits to finish requests and attempts, and to close the journal. */
export const drainTime = Duration.seconds(24)

/** The time from the first signal until the process exits, whatever is unfinished. */
export const stopDeadline = ({ delay, refuse }: StopWaits): Duration.Duration =>
  Duration.sum(Duration.sum(delay, refuse), drainTime)

/** The paths of the probes: `probes` serves them beside the webhooks. */
export const probePaths = { health: "/healthz", ready: "/readyz" } as const

/** PEM texts. */
export type Tls = NonNullable<ConfigFile["tls"]>

/** A signing secret of a webhook. Without `expires` it never expires. */
export type Secret = Webhook["secrets"][number]

/** A webhook of the sender: its path, and how its deliveries are verified and answered. */
export interface Webhook extends Omit<ConfigFile["webhooks"][string], "id" | "silentAfter" | "verify" | "event"> {
  readonly name: string
  readonly ids: ReadonlyArray<string>
  /** If absent, the sender is never reported as silent. */
  readonly silentAfter?: SilentAfter
  /** Set for another sender than the scheduling service. */
  readonly sender?: Sender
}

/** How a sink's events are delivered, retried and dead-lettered. */
export type Delivery = ConfigFile["delivery"]

interface Policy<Sends extends string> {
  readonly sends: Sends
  /** Whether the sink also receives the recoveries of failures that are routed to it. */
  readonly resolves: boolean
}

/** The events of one key within `wait` are one message. */
export interface DigestPolicy extends Policy<"digest">, Omit<NonNullable<(typeof Lane.Type)["digest"]>, "by"> {}

/** The events of one key are an alert. Those that change it are messages, and it counts the others. */
export interface ChangesPolicy extends Policy<"changes">, Omit<NonNullable<(typeof Lane.Type)["alert"]>, "by"> {
  /** Set if each alert is an incident of its own at the service, so that no message is of several alerts. */
  readonly incidents?: true
}

/**
 * Which events of a lane are messages. A sink's key `alert` decodes to it, and so do the short forms `digest` and
 * `resolve`: with `resolve` alone, each event is a message.
 */
export type AlertPolicy = Policy<"each"> | DigestPolicy | ChangesPolicy

/** The settings that every sink has, whatever its type. */
export interface LaneConfig extends Omit<typeof Lane.Type, "concurrency" | "digest" | "alert"> {
  readonly name: string
  readonly type: string
  readonly concurrency: number
  /** If absent, each event is a message, and the sink receives only events that are routed to it. */
  readonly alert?: AlertPolicy
  /** The type's own config, decoded by its schema: what `SinkType.open` takes. */
  readonly config: unknown
}

/** Returns the policy of a lane that sends digests. */
export const digestOf = (lane?: Pick<LaneConfig, "alert">): DigestPolicy | undefined =>
  lane?.alert?.sends === "digest" ? lane.alert : undefined

/** Returns the policy of a lane whose alerts have a state. */
export const changesOf = (lane?: Pick<LaneConfig, "alert">): ChangesPolicy | undefined =>
  lane?.alert?.sends === "changes" ? lane.alert : undefined

/** A collector of traces and logs. */
export type Otlp = NonNullable<ConfigFile["telemetry"]["otlp"]>

/** The sender's API for client details (webhook interface, section 4.2). `baseUrl` has no slash at its end. */
export type ClientsConfig = NonNullable<ConfigFile["clients"]>

/** A journal's type, and the keys that only this type has. */
export interface JournalConfig {
  readonly type: string
  readonly [key: string]: unknown
}

export type AdminConfig = ConfigFile["admin"]
export type AdminToken = NonNullable<AdminConfig["tokens"]>[number]
export type Role = AdminToken["role"]

/** The name of `admin.token`, which everyone shares. */
export const onlyToken = "admin"

/** Returns the tokens of the admin API; empty if it requires none. */
export const tokensOf = ({ token, tokens = [] }: AdminConfig): ReadonlyArray<AdminToken> =>
  token === undefined ? tokens : [{ name: onlyToken, role: "operate", value: token }]

/** The permissions of a Unix socket. */
export type Socket = NonNullable<ConfigFile["socket"]>

/** The keys of the file that are decoded in another way, or used only while the config loads. */
type Replaced = "$schema" | "journal" | "delivery" | "webhooks" | "sinks" | "routes"

export interface RelayConfig extends Omit<ConfigFile, Replaced> {
  /** All certificates that are in use and can be read. */
  readonly certificates: ReadonlyArray<Certificate>
  readonly journal: JournalConfig
  readonly webhooks: ReadonlyArray<Webhook>
  readonly sinks: ReadonlyArray<LaneConfig>
  readonly routes: ReadonlyArray<Route>
}

// Decides when a secret or a certificate is about to expire, for the relay's own events, `relay status`, `relay doctor`
// and the page.

/** The time before a secret's expiry at which it is announced. */
export const noticeOfExpiry: Millis = 14 * 86_400_000

type Period = { readonly notBefore: EpochMillis; readonly notAfter: EpochMillis }

/** Returns the notice for a certificate: at most a third of its lifetime, because short certificates are renewed late. */
export const noticeOf = ({ notBefore, notAfter }: Period): Millis =>
  Math.min(noticeOfExpiry, Math.floor((notAfter - notBefore) / 3))

export const isExpiring = (certificate: Period, now: EpochMillis): boolean =>
  certificate.notAfter - now <= noticeOf(certificate)

interface Expiring {
  readonly expires?: EpochMillis
}

/** Reports whether a secret expires within this time. With 0, reports whether it has expired. */
export const expiresWithin = ({ expires }: Expiring, time: Millis, now: EpochMillis): boolean =>
  expires !== undefined && expires - now <= time

/** Reports whether every secret of a webhook has expired, so that no delivery can be verified. */
export const haveExpired = (secrets: ReadonlyArray<Expiring>, now: EpochMillis): boolean =>
  secrets.length > 0 && secrets.every((secret) => expiresWithin(secret, 0, now))

/** Returns the successor of a secret: another secret of the same webhook that expires later. */
export const successorOf = <S extends Expiring>({ expires = 0 }: S, secrets: ReadonlyArray<S>): S | undefined =>
  secrets.find((other) => other.expires === undefined || other.expires > expires)
