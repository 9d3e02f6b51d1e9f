/** Reaches the sinks of a config without sending an event: what `validate` and `doctor` have in common. */
import { Duration, Effect } from "effect"
import type { LaneConfig, RelayConfig } from "../../config/Config.ts"
import type { Limits } from "../../sinks/Sink.ts"
import type { AnySinkType } from "../../sinks/Sink.ts"
import { lazily } from "./Program.ts"

/** What does not answer in this time can't be reached. */
export const patience = Duration.seconds(10)

export interface Reached {
  readonly sink: string
  readonly ok: boolean
  /** Why it can't be reached; empty when it can. */
  readonly message: string
  /** What will go wrong for some events all the same. */
  readonly advice: ReadonlyArray<string>
}

const reach = Effect.fnUntraced(function* (
  type: AnySinkType | undefined,
  { config }: LaneConfig,
  limits: Limits,
) {
  // A config that loads names only types that exist.
  if (type === undefined) return []
  const sink = yield* type.open(config)
  yield* sink.check
  return sink.advise === undefined ? [] : yield* sink.advise(limits)
})

/** All at once, each in its own time. */
export const reachAll = Effect.fnUntraced(function* (config: RelayConfig) {
  const { sinkTypes } = yield* lazily(() => import("../../sinks/SinkTypes.ts"))
  const limits = { maxBody: Math.max(0, ...config.webhooks.map(({ maxBody }) => maxBody)) }
  return yield* Effect.forEach(
    config.sinks,
    (lane) =>
      Effect.scoped(reach(sinkTypes[lane.type], lane, limits)).pipe(
        Effect.timeoutOrElse({
          duration: patience,
          orElse: () => Effect.fail({ message: `no answer within ${Duration.format(patience)}` }),
        }),
        Effect.match({
          onSuccess: (advice): Reached => ({ sink: lane.name, ok: true, message: "", advice }),
          onFailure: ({ message }): Reached => ({ sink: lane.name, ok: false, message, advice: [] }),
        }),
      ),
    { concurrency: "unbounded" },
  )
})
