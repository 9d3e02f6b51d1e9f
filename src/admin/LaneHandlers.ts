/** Handlers for a lane's last hour, and to pause, resume, move and drop lanes. */
import { Clock, Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Lanes } from "../delivery/Lanes.ts"
import { quarantine } from "../event/Event.ts"
import * as Api from "./Api.ts"
import { History } from "./History.ts"
import { noLane, noSink, sinkRemoved, unavailable } from "./Refusals.ts"

const quarantineStays = `${quarantine} can't be paused: it sends nothing, and what waited for it would not be listed as quarantined`

export const layer = HttpApiBuilder.group(
  Api.Api,
  "lanes",
  Effect.fn(function* (handlers) {
    const lanes = yield* Lanes
    const history = yield* History
    const isLane = Effect.fnUntraced(function* (name: string) {
      const states = yield* Effect.mapError(lanes.status, unavailable)
      return states.some((lane) => lane.name === name)
    })
    const requireLane = Effect.fnUntraced(function* (name: string) {
      if (!(yield* isLane(name))) return yield* noLane(name)
    })
    const switched = Effect.fnUntraced(function* (name: string, change: ReturnType<typeof lanes.pause>) {
      if (yield* Effect.mapError(change, unavailable)) return
      return yield* (yield* isLane(name)) ? sinkRemoved(name) : noLane(name)
    })
    const counted = (change: ReturnType<typeof lanes.drop>) =>
      change.pipe(
        Effect.map((count) => ({ count })),
        Effect.catchTags({
          LaneInUse: ({ message }) => Effect.fail(new Api.Refused({ message })),
          JournalError: (error) => Effect.fail(unavailable(error)),
        }),
      )
    return handlers.handleAll({
      history: ({ params: { name } }) => Effect.as(requireLane(name), history.lane(name)),
      pause: Effect.fnUntraced(function* ({ params: { name }, query: { for: length } }) {
        if (name === quarantine) return yield* new Api.Refused({ message: quarantineStays })
        const until = length === undefined ? undefined : Math.round((yield* Clock.currentTimeMillis) + length)
        yield* switched(name, lanes.pause(name, until))
        return until === undefined ? {} : { until }
      }),
      resume: ({ params: { name } }) => switched(name, lanes.resume(name)),
      move: Effect.fnUntraced(function* ({ params: { name }, payload: { to } }) {
        yield* requireLane(name)
        if (!(yield* isLane(to))) return yield* noSink(to)
        if (name === to) return yield* new Api.Refused({ message: "a lane can't be moved to itself" })
        return yield* counted(lanes.move(name, to))
      }),
      drop: Effect.fnUntraced(function* ({ params: { name } }) {
        yield* requireLane(name)
        return yield* counted(lanes.drop(name))
      }),
    })
  }),
)
