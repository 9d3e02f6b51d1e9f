/**
 * The settings of a sink's lane, and the options for opening that lane in the
 * journal. `LaneSpecs.ts` derives them from a config.
 */
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
 * digests and rate limits need a single sender.
 */
const isExclusive = ({ order, digest, rateLimit }: LaneConfig): boolean =>
  order === "key" || digest !== undefined || rateLimit !== undefined

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
