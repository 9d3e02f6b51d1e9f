/**
 * Emits `relay.lane_resumed` for a sink that `relay.lane_paused` was emitted for,
 * once it delivers again or has left the config, also after a restart.
 *
 * **Guarantee.** While another relay of a fleet has the sink's lane paused, none
 * is emitted.
 */
import { Effect, Layer, Schedule } from "effect"
import { Archive } from "../journal/Archive.ts"
import { takeoverAfter } from "../journal/FleetStatus.ts"
import type { LaneStatus } from "./LaneStatus.ts"
import { Lanes } from "./Lanes.ts"
import { RelayEvents } from "./RelayEvents.ts"

/** Soon after a start a lane counts as running although no attempt was made. */
const isRunning = ({ condition, backlog, attempts }: LaneStatus): boolean =>
  condition === "running" && (backlog === 0 || (attempts.delivered ?? 0) > 0)

export const layer: Layer.Layer<never, never, Archive | Lanes | RelayEvents> = Layer.effectDiscard(
  Effect.gen(function* () {
    const archive = yield* Archive
    const lanes = yield* Lanes
    const own = yield* RelayEvents

    const look = Effect.gen(function* () {
      const paused = own.unresolved("relay.lane_paused")
      if (paused.size === 0) return
      const known = (yield* lanes.status).filter(({ condition }) => condition !== "orphaned")
      const members = archive.fleet === undefined ? [] : (yield* archive.fleet.status).members
      const others = members.filter(({ isSelf, age }) => !isSelf && age <= takeoverAfter).flatMap(({ lanes }) => lanes)
      for (const sink of paused) {
        const lane = known.find(({ name }) => name === sink)
        if (lane !== undefined && !isRunning(lane)) continue
        if (others.some(({ name, condition }) => name === sink && condition !== "running")) continue
        const message = lane === undefined ? "it has left the config" : "it delivers again"
        yield* own.emit("relay.lane_resumed", { sink, message }, sink)
      }
    })
    // The journal reports its own errors.
    yield* Effect.forkScoped(Effect.repeat(Effect.ignore(look), Schedule.spaced("5 seconds")))
  }),
)
