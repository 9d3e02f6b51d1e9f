/** The admin API of lanes: their last hour, and pausing, resuming, moving and dropping them. */
import { Clock, Effect, Schema } from "effect"
import { HttpApiBuilder, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Lanes } from "../../delivery/Lanes.ts"
import { quarantine } from "../../event/Event.ts"
import { EpochMillis } from "../../event/Quantities.ts"
import { endings } from "../../journal/LaneInfo.ts"
import { sendsAlerts, sinkTypes } from "../../sinks/SinkTypes.ts"
import { History } from "../status/History.ts"
import { LaneHistory } from "../status/Status.ts"
import { apiOf, Count, NotFound, noLane, noSink, Refused, sinkRemoved, Unavailable, unavailable } from "./ApiParts.ts"

const optional = Schema.optionalKey
const name = { name: Schema.String }

/** A year in milliseconds. */
const longestPause = 365 * 86_400_000

const Ending = Schema.Literals(endings).annotate({ message: `ending is one of ${endings.join(", ")}` })

/** Changes of lanes. `move` and `drop` are for lanes without a sink in the config; others get a 409. */
export class LaneGroup extends HttpApiGroup.make("lanes").add(
  HttpApiEndpoint.get("history", "/lanes/:name/history", {
    params: name,
    success: LaneHistory,
    error: [NotFound, Unavailable],
  }),
  /** With `for`, in milliseconds, the pause ends by itself: at `until`. `ending` needs such an end. */
  HttpApiEndpoint.post("pause", "/lanes/:name/pause", {
    params: name,
    query: {
      for: optional(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 1_000, maximum: longestPause }))),
      ending: optional(Ending),
    },
    success: Schema.Struct({ until: optional(EpochMillis), ending: optional(Ending) }),
    error: [NotFound, Refused, Unavailable],
  }),
  HttpApiEndpoint.post("resume", "/lanes/:name/resume", {
    params: name,
    error: [NotFound, Unavailable],
  }),
  HttpApiEndpoint.post("move", "/lanes/:name/move", {
    params: name,
    payload: Schema.Struct({ to: Schema.String }),
    success: Count,
    error: [NotFound, Refused, Unavailable],
  }),
  HttpApiEndpoint.post("drop", "/lanes/:name/drop", {
    params: name,
    success: Count,
    error: [NotFound, Refused, Unavailable],
  }),
) {}

const quarantineStays = `${quarantine} can't be paused: it sends nothing, and what waited for it would not be listed as quarantined`

const needsEnd = "`ending` takes effect when the pause ends, so it needs `for`"

const alertTypes = Object.keys(sinkTypes).filter(sendsAlerts)

const sendsNoAlerts = (name: string, type: string): string =>
  `${name} is a sink of the type ${type}, whose events must be delivered: only a sink that sends alerts (${alertTypes.join(", ")}) can be muted with digest or drop`

export const laneHandlers = HttpApiBuilder.group(
  apiOf(LaneGroup),
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
          LaneInUse: ({ message }) => Effect.fail(new Refused({ message })),
          JournalError: (error) => Effect.fail(unavailable(error)),
        }),
      )
    return handlers.handleAll({
      history: ({ params: { name } }) => Effect.as(requireLane(name), history.lane(name)),
      pause: Effect.fnUntraced(function* ({ params: { name }, query: { for: length, ending = "deliver" } }) {
        if (name === quarantine) return yield* new Refused({ message: quarantineStays })
        const until = length === undefined ? undefined : Math.round((yield* Clock.currentTimeMillis) + length)
        if (ending === "deliver") {
          yield* switched(name, lanes.pause(name, until))
          return until === undefined ? {} : { until }
        }
        if (until === undefined) return yield* new Refused({ message: needsEnd })
        const states = yield* Effect.mapError(lanes.status, unavailable)
        const type = states.find((lane) => lane.name === name)?.type ?? ""
        if (type !== "" && !sendsAlerts(type)) return yield* new Refused({ message: sendsNoAlerts(name, type) })
        yield* switched(name, lanes.mute(name, until, ending))
        return { until, ending }
      }),
      resume: ({ params: { name } }) => switched(name, lanes.resume(name)),
      move: Effect.fnUntraced(function* ({ params: { name }, payload: { to } }) {
        yield* requireLane(name)
        if (!(yield* isLane(to))) return yield* noSink(to)
        if (name === to) return yield* new Refused({ message: "a lane can't be moved to itself" })
        return yield* counted(lanes.move(name, to))
      }),
      drop: Effect.fnUntraced(function* ({ params: { name } }) {
        yield* requireLane(name)
        return yield* counted(lanes.drop(name))
      }),
    })
  }),
)
