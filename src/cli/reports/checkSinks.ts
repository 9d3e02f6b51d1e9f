/** Checks that the sinks of a config can be reached, without sending an event, for `validate` and `doctor`. */
import { Deferred, Effect } from "effect"
import type { LaneConfig, RelayConfig } from "../../config/Config.ts"
import { eventTypes, relayEventTypes } from "../../event/EventType.ts"
import { reached } from "../../routing/Explanation.ts"
import * as Router from "../../routing/Router.ts"
import * as Containment from "../../sinks/Containment.ts"
import type { AnySinkType, Limits } from "../../sinks/Sink.ts"
import { sinkTypes } from "../../sinks/SinkTypes.ts"
import { Program, withDeadline } from "../support/Program.ts"
import { bug } from "./exitReport.ts"

export interface SinkCheck {
  readonly sink: string
  readonly ok: boolean
  /** Why the sink can't be reached; empty if it can. */
  readonly message: string
  /** Problems that will make some events fail although the sink can be reached. */
  readonly advice: ReadonlyArray<string>
}

const check = Effect.fnUntraced(function* (type: AnySinkType, { config }: LaneConfig, limits: Limits) {
  const sink = yield* type.open(config)
  yield* sink.check
  return sink.advise === undefined ? [] : yield* sink.advise(limits)
})

/** Checks a sink. A bug in its library counts as a failure of the sink, and must not end the command. */
const contained = Effect.fnUntraced(function* (lane: LaneConfig, limits: Limits) {
  const type = sinkTypes[lane.type]
  // Every type in a loaded config exists.
  if (type === undefined) return []
  const debug = (yield* Program).env.RELAY_DEBUG === "1"
  const broken = yield* Deferred.make<never, { readonly message: string }>()
  const owner: Containment.Owner = {
    type: lane.type,
    libraries: type.libraries ?? [],
    broke: (error) => {
      const message = debug
        ? bug(error, debug)
        : "a bug in its client library; run the command again with RELAY_DEBUG=1 to see the cause"
      Deferred.doneUnsafe(broken, Effect.fail({ message }))
    },
  }
  yield* Containment.register(owner)
  return yield* Effect.raceFirst(Containment.as(owner)(check(type, lane, limits)), Deferred.await(broken))
}, Effect.scoped)

/** Returns the known event types that routes may send to each sink. */
export const typesBySink = (config: RelayConfig): ReadonlyMap<string, ReadonlyArray<string>> => {
  const router = Router.of(config)
  const types = new Map<string, Array<string>>(config.sinks.map(({ name }) => [name, []]))
  for (const type of [...eventTypes, ...relayEventTypes]) {
    const { sinks, conditional } = reached(router.explain(undefined, type))
    for (const sink of [...sinks, ...conditional]) types.get(sink)?.push(type)
  }
  return types
}

/** Reports whether the config of a sink makes its bodies, so that their size isn't the size of received ones. */
const makesBodies = (config: unknown): boolean => Reflect.get(Object(config), "format") === "template"

export const checkSinks = Effect.fnUntraced(function* (config: RelayConfig) {
  const maxBody = Math.max(0, ...config.webhooks.map(({ maxBody }) => maxBody))
  const types = typesBySink(config)
  return yield* Effect.forEach(
    config.sinks,
    (lane) =>
      contained(lane, { maxBody: makesBodies(lane.config) ? 0 : maxBody, eventTypes: types.get(lane.name) ?? [] }).pipe(
        withDeadline((time) => Effect.fail({ message: `no answer within ${time}` })),
        Effect.match({
          onSuccess: (advice): SinkCheck => ({ sink: lane.name, ok: true, message: "", advice }),
          onFailure: ({ message }): SinkCheck => ({ sink: lane.name, ok: false, message, advice: [] }),
        }),
      ),
    { concurrency: "unbounded" },
  )
})
