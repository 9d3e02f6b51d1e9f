/** A sink as its lane needs it, and how the journal opens that lane. `LaneSpecs.ts` makes them of a config. */
import type { Effect, Scope } from "effect"
import type { LaneConfig } from "../config/Config.ts"
import type { Entry } from "../event/Entry.ts"
import type { KnownSink, OpenOptions } from "../journal/Journal.ts"
import type { Sink, SinkError } from "../sinks/Sink.ts"

/** The parts of a lane that the config decides. */
export interface LaneSpec {
  readonly config: LaneConfig
  /** Opens the sink; it closes with the scope. */
  readonly open: Effect.Effect<Sink, SinkError, Scope.Scope>
  /** The order key of an event, or the group of its digest; only called where the lane keeps either. It may throw `Unrenderable`. */
  readonly key: (entry: Entry) => string
  /** Appends are refused when what the lane keeps takes so many bytes; unlimited when absent. */
  readonly maxBytes?: number
}

/** Only one relay may send its events: it must see all of a key, a group, or a time. */
const isExclusive = ({ order, digest, rateLimit }: LaneConfig): boolean =>
  order === "key" || digest !== undefined || rateLimit !== undefined

/** How the lane of a config is opened; `specs` are all that the config has. */
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
