/**
 * The sinks that are open, by type and resolved config.
 *
 * **Guarantee.** As long as a lane uses a sink its connections stay: a reload
 * that changes only how a lane delivers, or its name, opens nothing.
 */
import { type Effect, Equal, Hash, RcMap, type Scope } from "effect"
import type { Sink, SinkError } from "../sinks/Sink.ts"
import { sinkTypes } from "../sinks/SinkTypes.ts"
import * as LazySink from "./LazySink.ts"

/** Two sinks of one type and config are one. One without a config is known by what opens it. */
export class SinkKey implements Equal.Equal {
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

/** A sink is closed when the last scope that uses it is. */
export const make = RcMap.make({
  lookup: ({ type, open }: SinkKey) => LazySink.make({ type, libraries: sinkTypes[type]?.libraries ?? [] }, open),
})
export type Pool = Effect.Success<typeof make>
