/**
 * Emits `relay.lane_resumed` for a sink once it delivers again or has left the
 * config, if `relay.lane_paused` was emitted for it, also before a restart.
 *
 * **Guarantee.** While the sink's lane is paused at another relay of a fleet, no
 * event is emitted.
 */
import { Effect, Layer, Schedule } from "effect"
import { Archive } from "../journal/Archive.ts"
import { takeoverAfter } from "../journal/FleetStatus.ts"
import type { LaneStatus } from "./LaneStatus.ts"
import { Lanes } from "./Lanes.ts"
import { RelayEvents } from "./RelayEvents.ts"

/**
 * Shortly after a start, a lane is "running" before it has made an attempt. So a
 * delivery is required unless the backlog is empty.
 */
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
