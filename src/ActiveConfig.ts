/**
 * The active config and the routing table that is compiled from it. A reload
 * replaces both together.
 *
 * **Gotcha.** `current` is a plain field, because ingest reads it with every
 * request. Read it again at each use: a kept copy is an older version.
 */
import { Context, Effect, Layer } from "effect"
import type { RelayConfig, Webhook } from "./config/Config.ts"
import type { HmacFactory } from "./event/Signature.ts"
import { makeTable, type RoutingTable } from "./routing/Router.ts"

/** One version of the config. */
export interface Version {
  readonly config: RelayConfig
  readonly table: RoutingTable<Webhook>
}

export class ActiveConfig extends Context.Service<
  ActiveConfig,
  {
    readonly current: Version
    /** Puts a config in force for whatever is received from then on. */
    readonly replace: (config: RelayConfig) => Effect.Effect<void>
  }
>()("relay/ActiveConfig") {
  static readonly make = (config: RelayConfig, hmac: HmacFactory): ActiveConfig["Service"] => {
    const compile = (config: RelayConfig): Version => ({ config, table: makeTable(config, hmac) })
    const active = {
      current: compile(config),
      replace: (next: RelayConfig) =>
        Effect.sync(() => {
          active.current = compile(next)
        }),
    }
    return active
  }

  static readonly layer = (config: RelayConfig, hmac: HmacFactory): Layer.Layer<ActiveConfig> =>
    Layer.sync(ActiveConfig, () => ActiveConfig.make(config, hmac))
}
