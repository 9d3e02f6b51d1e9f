/** How a sink of the config becomes a lane: what opens it, and the key of its events. */
import { Context, Effect, Layer } from "effect"
import type { ClientsConfig, LaneConfig } from "../config/Config.ts"
import * as Clients from "../enrichment/Clients.ts"
import * as Enriched from "../enrichment/Enriched.ts"
import * as OrderKey from "../formats/OrderKey.ts"
import { misconfigured } from "../sinks/Sink.ts"
import { sinkTypes } from "../sinks/SinkTypes.ts"
import type { LaneSpec } from "./RunningLanes.ts"

export class LaneSpecs extends Context.Service<LaneSpecs, { readonly of: (config: LaneConfig) => LaneSpec }>()(
  "relay/delivery/LaneSpecs",
) {
  /** Client details are fetched and cached for all sinks together. */
  static readonly layer = (api: ClientsConfig | undefined): Layer.Layer<LaneSpecs> =>
    Layer.effect(
      LaneSpecs,
      Effect.gen(function* () {
        const clients = api === undefined ? undefined : yield* Clients.make(api)
        return LaneSpecs.of({
          of: (config) => {
            const { enrich } = config
            const sink = open(config)
            return {
              config,
              open:
                enrich === undefined || api === undefined || clients === undefined
                  ? sink
                  : Effect.map(sink, (sink) => Enriched.over(sink, clients, api, enrich)),
              key: OrderKey.compile(config),
            }
          },
        })
      }),
    )
}

const open = ({ type: name, config }: LaneConfig): LaneSpec["open"] => {
  const type = sinkTypes[name]
  return type === undefined ? Effect.fail(misconfigured(`no sink type is named ${name}`)) : type.open(config)
}
