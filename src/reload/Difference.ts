/**
 * The difference between two configs, as `relay reload` prints it, and the reports on
 * a reload and a restart.
 *
 * **Guarantee.** It has names and keys, never a value: any of them may be a
 * secret or contain one.
 */
import { Equal, Schema } from "effect"
import type { LaneConfig, RelayConfig, Webhook } from "../config/Config.ts"
import { Diagnostic } from "../config/diagnostics/Diagnostic.ts"
import { EpochMillis } from "../event/Quantities.ts"

export const Difference = Schema.Struct({
  what: Schema.Literals(["clients", "listener", "webhook", "secret", "sink", "route"]),
  /** A secret's name begins with its webhook's: `scheduling/2026-11`. */
  name: Schema.String,
  change: Schema.Literals(["added", "removed", "changed", "renamed"]),
  /** The keys that changed (`delivery.timeout`), or the former name of a renamed sink. */
  details: Schema.Array(Schema.String),
})
export type Difference = typeof Difference.Type

/** The result of a reload: its changes and its warnings. */
export const Reloaded = Schema.Struct({
  /** The path of the file that the relay read. */
  file: Schema.String,
  /** When the file was last changed; absent for the embedded defaults. */
  changedAt: Schema.optionalKey(Schema.Finite),
  changes: Schema.Array(Difference),
  /** A note that an operator should read. */
  notes: Schema.Array(Schema.String),
  warnings: Schema.Array(Diagnostic),
})

/** The answering process and the last restart. */
export const RestartStatus = Schema.Struct({
  pid: Schema.Int,
  /** Why a restart failed, so that this process continues. */
  failure: Schema.optionalKey(Schema.String),
  /** Milliseconds without an open journal, if this process took over from another. */
  took: Schema.optionalKey(Schema.Finite),
  /**
   * Duration of the last start in milliseconds, if a restart stops this process and the service manager starts it
   * again.
   */
  stops: Schema.optionalKey(Schema.Finite),
})
export type Reloaded = typeof Reloaded.Type
export type RestartStatus = typeof RestartStatus.Type

/** The active config, and whether a newer one was refused. */
export const ReloadStatus = Schema.Struct({
  loadedAt: EpochMillis,
  /** Why the last reload was refused; empty if it was not. */
  refusal: Schema.String,
  /** Set if the file was replaced and the relay can't read the new one, because a container mounts the file itself. */
  isReplaced: Schema.optionalKey(Schema.Literal(true)),
})
export type ReloadStatus = typeof ReloadStatus.Type

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype

/** The keys whose values differ. Nested keys are joined with dots, down to `depth`. */
const keys = (before: Fields, after: Fields, depth: number): ReadonlyArray<string> =>
  [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((key) => {
    const [a, b] = [before[key], after[key]]
    if (Equal.equals(a, b)) return []
    if (depth > 1 && isFields(a) && isFields(b)) return keys(a, b, depth - 1).map((below) => `${key}.${below}`)
    return [key]
  })

/** Keys that a reload can change. */
const live: ReadonlySet<string> = new Set<keyof RelayConfig>([
  "certificates",
  "drain",
  "webhooks",
  "sinks",
  "routes",
  "tests",
])
const tls = "tls"
const journal: keyof RelayConfig = "journal"
const clients: keyof RelayConfig = "clients"
/** Keys that only a restart changes, apart from some keys below them. */
const sections: ReadonlySet<string> = new Set<keyof RelayConfig>(["admin", "clients", "journal"])
/** The keys below `clients` that a reload can change. */
const ofClients: ReadonlyArray<string> = ["headers"]

/** The part that a reload can't change: the other may have thousands of routes, and is not looked at. */
const fixed = (config: RelayConfig): Fields =>
  Object.fromEntries(Object.entries(config).filter(([key]) => !live.has(key)))

/**
 * The keys that differ and that only a restart changes: `listen`, `journal.path`. `ofJournal` are the journal's keys
 * that a reload may change.
 */
export const needingRestart = (
  before: RelayConfig,
  after: RelayConfig,
  ofJournal: ReadonlyArray<string> = [],
): ReadonlyArray<string> => {
  const [a, b] = [fixed(before), fixed(after)]
  return keys(a, b, 1).flatMap((key) => {
    const [was, is] = [a[key], b[key]]
    // A certificate is renewed; whether there is TLS at all stays as it is.
    if (key === tls && isFields(was) && isFields(is)) return []
    if (!sections.has(key) || !isFields(was) || !isFields(is)) return key
    const liveBelow = key === journal ? ofJournal : key === clients ? ofClients : []
    const below = keys(was, is, 1).filter((one) => !liveBelow.includes(one))
    return below.map((one) => `${key}.${one}`)
  })
}

interface Named {
  readonly name: string
}

const compare = <A extends Named>(
  what: Difference["what"],
  before: ReadonlyArray<A>,
  after: ReadonlyArray<A>,
  fields: (item: A) => Fields,
): ReadonlyArray<Difference> => {
  const was = new Map(before.map((item) => [item.name, item]))
  const is = new Set(after.map(({ name }) => name))
  return [
    ...after.flatMap((item): ReadonlyArray<Difference> => {
      const { name } = item
      const earlier = was.get(name)
      if (earlier === undefined) return [{ what, name, change: "added", details: [] }]
      const details = keys(fields(earlier), fields(item), 3)
      return details.length === 0 ? [] : [{ what, name, change: "changed", details }]
    }),
    ...before.flatMap(
      ({ name }): ReadonlyArray<Difference> => (is.has(name) ? [] : [{ what, name, change: "removed", details: [] }]),
    ),
  ]
}

const ofWebhook = ({ secrets: _, ...webhook }: Webhook): Fields => webhook
const secretsOf = ({ name, secrets }: Webhook) =>
  secrets.map((secret) => ({ ...secret, name: `${name}/${secret.name}` }))

/**
 * The keys are as in the file: the keys of its type next to the keys of every sink. A former name is not a difference.
 */
const ofSink = ({ config, renamedFrom: _, ...lane }: LaneConfig): Fields => ({
  ...lane,
  ...(isFields(config) ? config : { config }),
})

const sinks = (before: ReadonlyArray<LaneConfig>, after: ReadonlyArray<LaneConfig>): ReadonlyArray<Difference> => {
  const was = new Set(before.map(({ name }) => name))
  const renamed = after.filter(({ name, renamedFrom }) => !was.has(name) && was.has(renamedFrom ?? ""))
  const from = new Map(renamed.map(({ name, renamedFrom = "" }) => [renamedFrom, name]))
  return [
    ...renamed.map(
      ({ name, renamedFrom = "" }): Difference => ({ what: "sink", name, change: "renamed", details: [renamedFrom] }),
    ),
    ...compare(
      "sink",
      before.map((sink) => ({ ...sink, name: from.get(sink.name) ?? sink.name })),
      after,
      ofSink,
    ),
  ]
}

const section = (
  what: "clients" | "listener",
  name: "clients" | "drain" | "tls",
  before: RelayConfig,
  after: RelayConfig,
): ReadonlyArray<Difference> => {
  const [was, is] = [before[name], after[name]]
  if (was === undefined || is === undefined) return []
  const details = keys({ ...was }, { ...is }, 1)
  return details.length === 0 ? [] : [{ what, name, change: "changed", details }]
}

/** The differences that a reload can apply. */
export const between = (before: RelayConfig, after: RelayConfig): ReadonlyArray<Difference> => {
  const secretsOfThoseIn = ({ webhooks }: RelayConfig, other: RelayConfig) =>
    webhooks.filter(({ name }) => other.webhooks.some((webhook) => webhook.name === name)).flatMap(secretsOf)
  return [
    ...section("listener", "tls", before, after),
    ...section("listener", "drain", before, after),
    ...section("clients", "clients", before, after),
    ...compare("webhook", before.webhooks, after.webhooks, ofWebhook),
    ...compare("secret", secretsOfThoseIn(before, after), secretsOfThoseIn(after, before), (secret) => ({ ...secret })),
    ...sinks(before.sinks, after.sinks),
    ...compare("route", before.routes, after.routes, (route) => ({ ...route })),
  ]
}

/** Names the file that was read, and the time of its last change. */
export const headline = ({ file, changedAt }: { readonly file: string; readonly changedAt?: EpochMillis }): string => {
  const when = changedAt === undefined ? "" : `, last changed at ${new Date(changedAt).toISOString()},`
  return `${file}${when} was reloaded`
}

const signs = { added: "+", removed: "-", changed: "~", renamed: ">" } as const

/** One line: `~ sink lake: topic, delivery.timeout`. */
export const show = ({ what, name, change, details }: Difference): string => {
  const more = change === "renamed" ? ` from ${details.join()}` : details.length === 0 ? "" : `: ${details.join(", ")}`
  return `${signs[change]} ${what} ${name}${more}`
}

// The words about a file that is mounted by itself and was replaced outside the container. The page has them too.

/** Says why a file that was replaced can't be read, and what to do about it. */
export const replaced = (file: string) => ({
  message: `${file} was replaced outside the container, and its new content can't be read inside`,
  action: "mount the directory, or restart the container",
})
