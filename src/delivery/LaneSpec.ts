/**
 * The settings of a sink's lane, and the options for opening that lane in the
 * journal. `LaneSpec.ts` derives them from a config.
 */
import { Context, Effect, Layer, type Scope } from "effect"
import type { ClientsConfig, LaneConfig, RelayConfig } from "../config/Config.ts"
import * as Clients from "../enrichment/Clients.ts"
import type { Entry } from "../event/Event.ts"
import { orderKey } from "../formats/Template.ts"
import type { KnownSink, OpenOptions } from "../journal/Journal.ts"
import { misconfigured, type Sink, type SinkError } from "../sinks/Sink.ts"
import { sinkTypes } from "../sinks/SinkTypes.ts"

/** The parts of a lane that the config decides. */
export interface LaneSpec {
  readonly config: LaneConfig
  /** Opens the sink; it closes with the scope. */
  readonly open: Effect.Effect<Sink, SinkError, Scope.Scope>
  /**
   * Returns the order key of an event, or the group of its digest. Called only if the lane keeps order or sends
   * digests. It may throw `Unrenderable`.
   */
  readonly key: (entry: Entry) => string
  /** Appends are refused once the lane's stored events take this many bytes (default: no limit). */
  readonly maxBytes?: number
}

/**
 * Reports whether one relay must send all of the lane's events, because order,
 * digests, alerts and rate limits need a single sender.
 */
const isExclusive = ({ order, alert, rateLimit }: LaneConfig): boolean =>
  order === "key" || alert !== undefined || rateLimit !== undefined

/** Returns the options for opening a lane. `specs` are all sinks of the config. */
export const openOptions = (config: LaneConfig, specs?: ReadonlyArray<LaneSpec>): OpenOptions => ({
  exclusive: isExclusive(config),
  ...(specs !== undefined && { isConfigured: (name) => specs.some(({ config }) => config.name === name) }),
})

/** The sinks that events may be routed to. */
export const knownSinks = (specs: ReadonlyArray<LaneSpec>): ReadonlyArray<KnownSink> =>
  specs.map(({ config }) => ({
    name: config.name,
    renamedFrom: config.renamedFrom,
    exclusive: isExclusive(config),
  }))

/** Makes the spec of a lane from a sink of the config: how to open the sink, and the key of its events. */
export class LaneSpecs extends Context.Service<
  LaneSpecs,
  {
    /** Makes the spec of a sink's lane from its config, without opening the sink. */
    readonly of: (config: LaneConfig) => LaneSpec
    /** Uses the headers of this config for all later requests for client details. */
    readonly renew: (config: RelayConfig) => Effect.Effect<void>
  }
>()("relay/delivery/LaneSpecs") {
  /** Client details are fetched and cached for all sinks together. `journal` is the journal's size in bytes. */
  static readonly layer = (api: ClientsConfig | undefined, journal: number): Layer.Layer<LaneSpecs> =>
    Layer.effect(
      LaneSpecs,
      Effect.gen(function* () {
        const clients = api === undefined ? undefined : yield* Clients.make(api)
        return LaneSpecs.of({
          renew: (config) => Effect.sync(() => config.clients && clients?.renew(config.clients.headers)),
          of: (given) => {
            const config = withinJournal(given, journal)
            const { enrich } = config
            const sink = open(config)
            return {
              config,
              open:
                enrich === undefined || api === undefined || clients === undefined
                  ? sink
                  : Effect.map(sink, (sink) => Clients.enriched(sink, clients, api, enrich)),
              key: orderKey(config),
            }
          },
        })
      }),
    )
}

/** Limits the dead letters of one sink to a quarter of the journal, which leaves space for all others. */
const withinJournal = (config: LaneConfig, journal: number): LaneConfig => {
  const maxDeadLetters = Math.min(config.delivery.maxDeadLetters, journal / 4)
  return { ...config, delivery: { ...config.delivery, maxDeadLetters } }
}

const open = ({ type: name, config }: LaneConfig): LaneSpec["open"] => {
  const type = sinkTypes[name]
  return type === undefined ? Effect.fail(misconfigured(`no sink type is named ${name}`)) : type.open(config)
}
