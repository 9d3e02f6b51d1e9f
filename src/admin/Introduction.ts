/** Says to the other relays on the journal who this one is, and how its lanes are. */
import { Effect, Hash, Layer, Schedule } from "effect"
import { ActiveConfig } from "../ActiveConfig.ts"
import { format } from "../config/Address.ts"
import type { RelayConfig } from "../config/Config.ts"
import { Lanes } from "../delivery/Lanes.ts"
import type { LaneReport } from "../journal/FleetStatus.ts"
import { Journal } from "../journal/Journal.ts"
import { RelayInfo } from "./RelayInfo.ts"

/** Tells configs apart, but for what each relay has of its own. A secret counts by its name. */
export const hashOf = ({ clients, webhooks, sinks, routes }: RelayConfig): string =>
  (Hash.string(JSON.stringify({ clients, webhooks, sinks, routes })) >>> 0).toString(16).padStart(8, "0")

export const layer: Layer.Layer<never, never, Journal | ActiveConfig | Lanes | RelayInfo> = Layer.effectDiscard(
  Effect.gen(function* () {
    const { fleet } = yield* Journal
    if (fleet === undefined) return
    const active = yield* ActiveConfig
    const lanes = yield* Lanes
    const { version } = yield* RelayInfo
    let known: { readonly config: RelayConfig; readonly hash: string } | undefined
    const configHash = (): string => {
      const { config } = active.current
      if (known?.config !== config) known = { config, hash: hashOf(config) }
      return known.hash
    }
    let conditions: ReadonlyArray<LaneReport> = []
    const look = Effect.map(lanes.status, (statuses) => {
      conditions = statuses.flatMap(({ name, type, condition, message }) =>
        condition === "orphaned" ? [] : [{ name, type, condition, message }],
      )
    })
    yield* Effect.ignore(look)
    yield* fleet.introduce(() => ({
      version,
      configHash: configHash(),
      address: format(active.current.config.admin.listen),
      lanes: conditions,
    }))
    yield* Effect.forkScoped(Effect.repeat(Effect.ignore(look), Schedule.spaced("1 second")))
  }),
)
