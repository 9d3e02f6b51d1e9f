/** What the running relay tells of itself to `status`, `/readyz` and `/metrics`. */
import { Context, type Effect } from "effect"
import type { RelayConfig } from "../config/Config.ts"
import type { Counters } from "../ingest/Counters.ts"

export class RelayInfo extends Context.Service<
  RelayInfo,
  {
    readonly version: string
    /** The config's file as it was named. */
    readonly configFile: string
    /** The config in force. */
    readonly config: Effect.Effect<RelayConfig>
    /** Epoch milliseconds. */
    readonly startedAt: number
    /** What ingest counts, live. */
    readonly counters: Counters
    /** True from the moment a drain begins: not ready any more. */
    readonly draining: Effect.Effect<boolean>
  }
>()("relay/admin/RelayInfo") {}
