/** Reports this relay and the state of its lanes to the other relays on the journal. */
import { Effect, Hash, Layer, Predicate, Redacted, type SchemaAST } from "effect"
import { ActiveConfig } from "../ActiveConfig.ts"
import { format } from "../config/Address.ts"
import type { LaneConfig, RelayConfig } from "../config/Config.ts"
import { partOf, traitOf, written } from "../config/schema/Traits.ts"
import { Lanes } from "../delivery/Lanes.ts"
import { Archive } from "../journal/Archive.ts"
import type { SinkTypes } from "../journal/FleetStatus.ts"
import { sinkTypes } from "../sinks/SinkTypes.ts"
import { RelayInfo } from "./RelayInfo.ts"

const machine = /\b(?:localhost|127(?:\.\d{1,3}){3})(?::\d+)?(?![\w.])|\[::1\](?::\d+)?/gi

const textOf = (text: string): string => text.replaceAll(machine, "(this machine)")

const ofSecret = (value: unknown): string => {
  const host = typeof value === "string" ? /^https?:\/\/([^/?#\s]+)/i.exec(value)?.[1] : undefined
  return host === undefined ? "(secret)" : textOf(host)
}

/** Returns the form of a value that relays compare, with sorted keys. `ast` is its schema, if it has one. */
const compared = (value: unknown, ast?: SchemaAST.AST): unknown => {
  if (ast !== undefined && traitOf(ast, "ownFile") === true) return "(a file)"
  if (ast !== undefined && traitOf(ast, "certificates") === true) return Object.keys(Object(value)).sort()
  if (typeof value === "string") return textOf(value)
  if (Redacted.isRedacted(value)) return ofSecret(Redacted.value(value))
  if (Array.isArray(value)) return value.map((item, index) => compared(item, ast && partOf(ast, index)))
  if (!Predicate.isObject(value) || Object.getPrototypeOf(value) !== Object.prototype) return value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, item]) => [key, compared(item, ast && partOf(ast, key))]),
  )
}

const ofSink = ({ config, renamedFrom: _, ...lane }: LaneConfig): unknown => {
  const schema = sinkTypes[lane.type]?.config
  return { ...Object(compared(lane)), config: compared(config, schema && written(schema)) }
}

const byName = <A extends { readonly name: string }>(all: ReadonlyArray<A>): ReadonlyArray<A> =>
  all.toSorted((a, b) => (a.name < b.name ? -1 : 1))

/**
 * Compares the configs of relays by the parts that affect delivery: webhooks, routes and sinks.
 *
 * Settings of one machine do not count: files, certificates and addresses. A secret counts by its name, and a URL
 * by its host, because it may contain a secret.
 */
export const hashOf = ({ clients, webhooks, sinks, routes }: RelayConfig): string => {
  const all = {
    clients: compared(clients),
    webhooks: compared(byName(webhooks)),
    sinks: byName(sinks).map(ofSink),
    routes: compared(byName(routes)),
  }
  return (Hash.string(JSON.stringify(all)) >>> 0).toString(16).padStart(8, "0")
}

export const layer: Layer.Layer<never, never, Archive | ActiveConfig | Lanes | RelayInfo> = Layer.effectDiscard(
  Effect.gen(function* () {
    const { fleet } = yield* Archive
    if (fleet === undefined) return
    const active = yield* ActiveConfig
    const lanes = yield* Lanes
    const { version } = yield* RelayInfo
    let known: { readonly config: RelayConfig; readonly configHash: string; readonly sinks: SinkTypes } | undefined
    yield* fleet.introduce(() => {
      const { config } = active.current
      if (known?.config !== config) {
        const sinks = Object.fromEntries(config.sinks.map(({ name, type }) => [name, type]))
        known = { config, configHash: hashOf(config), sinks }
      }
      const { configHash, sinks } = known
      const reports = lanes
        .busy()
        .flatMap(({ condition, ...report }) => (condition === "orphaned" ? [] : [{ ...report, condition }]))
      return { version, configHash, sinks, address: format(config.admin.listen), lanes: reports }
    })
  }),
)
