/**
 * What happens in a lane, told: to the log, and as the relay's own events.
 * One `relay.dead_letter` a lane in ten seconds, with the count: a poisoned
 * stream must not double itself.
 */
import { Clock, Effect } from "effect"
import { quarantine } from "../event/Event.ts"
import type { LaneEvents } from "./Landing.ts"
import { ownWebhook, RelayEvents } from "./RelayEvents.ts"

/** Milliseconds. */
const announceEvery = 10_000

/** What a lane of a name tells; `settle` asks that its progress be stored now. */
export type Announce = (name: string, settle: () => void) => LaneEvents

export const make = Effect.gen(function* () {
  const own = yield* RelayEvents
  const clock = yield* Clock.Clock
  const run = Effect.runForkWith(yield* Effect.context<never>())

  const announce: Announce = (name, settle) => {
    let announcedAt = Number.NEGATIVE_INFINITY
    let unannounced = 0
    return {
      deadLettered: (entry, reason, message) => {
        if (name === quarantine || entry.event.webhook === ownWebhook) return
        unannounced += 1
        const now = clock.currentTimeMillisUnsafe()
        if (now - announcedAt < announceEvery) return
        const facts = {
          sink: name,
          count: unannounced,
          reason,
          message,
          event_id: entry.event.id,
          event_type: entry.event.type,
        }
        announcedAt = now
        unannounced = 0
        run(
          Effect.logWarning(`sink ${name}: dead letter (${reason}): ${message}`).pipe(
            Effect.annotateLogs({ event: entry.event.id, type: entry.event.type, count: facts.count }),
            Effect.andThen(own.emit("relay.dead_letter", facts, name)),
          ),
        )
      },
      paused: (message) => {
        run(
          Effect.logWarning(`sink ${name} is paused: ${message}`).pipe(
            Effect.andThen(own.emit("relay.lane_paused", { sink: name, message }, name)),
          ),
        )
      },
      resumed: () => {
        run(Effect.logInfo(`sink ${name} goes on`))
      },
      settle,
      defect: (cause) => {
        run(Effect.logError(`sink ${name}: a bug while sending; the event is parked and the lane goes on`, cause))
      },
    }
  }
  return announce
})
