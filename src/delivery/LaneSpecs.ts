/** Makes the spec of a lane from a sink of the config: how to open the sink, and the key of its events. */
import { Context, Effect, Layer } from "effect"
import type { ClientsConfig, LaneConfig, RelayConfig } from "../config/Config.ts"
import * as Clients from "../enrichment/Clients.ts"
import { orderKey } from "../formats/Template.ts"
import { misconfigured } from "../sinks/Sink.ts"
import { sinkTypes } from "../sinks/SinkTypes.ts"
import type { LaneSpec } from "./LaneSpec.ts"

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
