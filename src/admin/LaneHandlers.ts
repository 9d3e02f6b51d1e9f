/** A lane over the last hour; pausing, resuming, moving and dropping lanes. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Lanes } from "../delivery/Lanes.ts"
import { quarantine } from "../event/Event.ts"
import * as Api from "./Api.ts"
import { History } from "./History.ts"
import { noLane, unavailable } from "./Refusals.ts"

const quarantineStays = `${quarantine} can't be paused: it sends nothing, and what waited for it would not be listed as quarantined`

export const layer = HttpApiBuilder.group(
  Api.Api,
  "lanes",
  Effect.fn(function* (handlers) {
    const lanes = yield* Lanes
    const history = yield* History
    const requireLane = Effect.fnUntraced(function* (name: string) {
      const states = yield* Effect.mapError(lanes.status, unavailable)
      if (!states.some((lane) => lane.name === name)) return yield* noLane(name)
    })
    const switched = (name: string, change: ReturnType<typeof lanes.pause>) =>
      Effect.flatMap(Effect.mapError(change, unavailable), (exists) =>
        exists ? Effect.void : Effect.fail(noLane(name)),
      )
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
      pause: ({ params: { name } }) =>
        name === quarantine
          ? Effect.fail(new Api.Refused({ message: quarantineStays }))
          : switched(name, lanes.pause(name)),
      resume: ({ params: { name } }) => switched(name, lanes.resume(name)),
      move: Effect.fnUntraced(function* ({ params: { name }, payload: { to } }) {
        yield* requireLane(name)
        yield* requireLane(to)
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
