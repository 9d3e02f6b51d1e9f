/** Reports this relay and the state of its lanes to the other relays on the journal. */
import { Effect, Layer, Schedule } from "effect"
import { ActiveConfig } from "../ActiveConfig.ts"
import { format } from "../config/Address.ts"
import type { RelayConfig } from "../config/Config.ts"
import { Lanes } from "../delivery/Lanes.ts"
import { Archive } from "../journal/Archive.ts"
import type { LaneReport } from "../journal/FleetStatus.ts"
import { hashOf } from "./ConfigHash.ts"
import { RelayInfo } from "./RelayInfo.ts"

export const layer: Layer.Layer<never, never, Archive | ActiveConfig | Lanes | RelayInfo> = Layer.effectDiscard(
  Effect.gen(function* () {
    const { fleet } = yield* Archive
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
      conditions = statuses.flatMap(({ name, type, condition, message, oldestAt }) =>
        condition === "orphaned" ? [] : [{ name, type, condition, message, oldestAt }],
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
