/**
 * The sinks that are open, by type and resolved config.
 *
 * **Guarantee.** A sink keeps its connections while a lane uses it. A reload that
 * changes only a lane's name or its delivery settings opens no connection.
 */
import { Effect, Equal, Hash, RcMap, type Scope } from "effect"
import type { LaneConfig } from "../config/Config.ts"
import type { Sink, SinkError } from "../sinks/Sink.ts"
import { sinkTypes } from "../sinks/SinkTypes.ts"
import { Tracing } from "../telemetry/Tracing.ts"
import type { LaneSpec } from "./LaneSpec.ts"
import * as LazySink from "./LazySink.ts"

/** A sink in use by a lane. It stays open until its scope closes. */
export interface AcquiredSink extends Pick<LazySink.LazySink, "sink" | "ensureOpen" | "within"> {
  readonly scope: Scope.Closeable
}

/** Sinks of the same type and config share one key. A sink without a config is identified by its `open` effect. */
class SinkKey implements Equal.Equal {
  readonly type: string
  readonly config: unknown
  readonly open: Effect.Effect<Sink, SinkError, Scope.Scope>

  constructor(type: string, config: unknown, open: SinkKey["open"]) {
    this.type = type
    this.config = config
    this.open = open
  }

  [Equal.symbol](that: unknown): boolean {
    return (
      that instanceof SinkKey &&
      this.type === that.type &&
      Equal.equals(this.config, that.config) &&
      (this.config !== undefined || this.open === that.open)
    )
  }

  [Hash.symbol](): number {
    return Hash.combine(Hash.hash(this.config))(Hash.hash(this.type))
  }
}

/** The part of a lane's config that concerns its sink. */
const sinkConfig = ({ config, digest, key, enrich }: LaneConfig) => config && [config, digest && key, enrich]
const keyOf = ({ config, open }: LaneSpec) => new SinkKey(config.type, sinkConfig(config), open)

export const make = Effect.gen(function* () {
  const tracing = yield* Tracing
  const pool = yield* RcMap.make({
    lookup: ({ type, open }: SinkKey) => LazySink.make({ type, libraries: sinkTypes[type]?.libraries ?? [] }, open),
  })
  return {
    /** Reports whether a lane of any stream uses this sink. */
    isOpen: (spec: LaneSpec) => RcMap.has(pool, keyOf(spec)),
    /**
     * Acquires a sink for a lane until the scope closes. It opens on first use, unless another lane has already opened
     * it.
     */
    acquire: Effect.fnUntraced(function* (spec: LaneSpec, user: LazySink.User) {
      const { name, type } = spec.config
      const { sink, ensureOpen, within, use } = yield* RcMap.get(pool, keyOf(spec))
      yield* use(user)
      return { sink: tracing === undefined ? sink : tracing.traced(sink, name, type), ensureOpen, within }
    }),
  }
})
export type Pool = Effect.Success<typeof make>
