/** Checks that the sinks of a config can be reached, without sending an event: for `validate` and `doctor`. */
import { Effect } from "effect"
import type { LaneConfig, RelayConfig } from "../../config/Config.ts"
import type { AnySinkType, Limits } from "../../sinks/Sink.ts"
import { withDeadline } from "./deadline.ts"
import { lazily } from "./Program.ts"

export interface SinkCheck {
  readonly sink: string
  readonly ok: boolean
  /** Why it can't be reached; empty where it can. */
  readonly message: string
  /** What will fail for some events although the sink can be reached. */
  readonly advice: ReadonlyArray<string>
}

const check = Effect.fnUntraced(function* (type: AnySinkType | undefined, { config }: LaneConfig, limits: Limits) {
  // The types of a config that loads exist.
  if (type === undefined) return []
  const sink = yield* type.open(config)
  yield* sink.check
  return sink.advise === undefined ? [] : yield* sink.advise(limits)
})

/** Checks all sinks at once. */
export const checkSinks = Effect.fnUntraced(function* (config: RelayConfig) {
  const { sinkTypes } = yield* lazily(() => import("../../sinks/SinkTypes.ts"))
  const limits = { maxBody: Math.max(0, ...config.webhooks.map(({ maxBody }) => maxBody)) }
  return yield* Effect.forEach(
    config.sinks,
    (lane) =>
      Effect.scoped(check(sinkTypes[lane.type], lane, limits)).pipe(
        withDeadline((time) => Effect.fail({ message: `no answer within ${time}` })),
        Effect.match({
          onSuccess: (advice): SinkCheck => ({ sink: lane.name, ok: true, message: "", advice }),
          onFailure: ({ message }): SinkCheck => ({ sink: lane.name, ok: false, message, advice: [] }),
        }),
      ),
    { concurrency: "unbounded" },
  )
})
