/**
 * Reports what happens in a lane: to the log, and as the relay's own events.
 *
 * **Guarantee.** Each dead letter is counted in one `relay.dead_letter`. A burst
 * makes one event, a second after its first dead letter. A lasting stream makes one
 * every ten seconds, so that the relay's own events don't double the load. Pending
 * dead letters are announced when the relay stops.
 */
import { Clock, Duration, Effect, Fiber } from "effect"
import { quarantine } from "../event/Event.ts"
import * as Monotonic from "../event/Monotonic.ts"
import type { LaneEvents } from "./lane/LaneState.ts"
import { ownWebhook, RelayEvents } from "./RelayEvents.ts"

/** Milliseconds: the time to collect a burst, and the least time between two announcements of a lane. */
const collectFor = 1_000
const announceEvery = 10_000
/** Time limit for storing the last announcements when the relay stops. */
const stopTimeout = Duration.seconds(2)

/** Makes the event handlers of a lane. The caller supplies the handlers that concern its progress. */
export type Announce = (name: string, progress: Pick<LaneEvents, "settle" | "active">) => LaneEvents

type First = {
  readonly reason: string
  readonly message: string
  readonly event_id: string
  readonly event_type: string
}

/** The dead letters of a lane that are not yet announced: their number and the first of them. */
class Pending {
  /** Monotonic milliseconds of the last announcement. */
  announcedAt = Number.NEGATIVE_INFINITY
  count = 0
  first: First | undefined
  timer: Fiber.Fiber<void> | undefined
}

export const make = Effect.gen(function* () {
  const own = yield* RelayEvents
  const clock = yield* Clock.Clock
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const now = () => Monotonic.millis(clock)
  // By lane name, so that a restarted lane keeps its entry.
  const lanes = new Map<string, Pending>()

  const announceDeadLetters = (name: string, pending: Pending) =>
    Effect.suspend(() => {
      const { first, count } = pending
      if (first === undefined) return Effect.void
      pending.announcedAt = now()
      pending.count = 0
      pending.first = undefined
      pending.timer = undefined
      const { reason, message, event_id, event_type } = first
      return Effect.logWarning(`sink ${name}: dead letter (${reason}): ${message}`).pipe(
        Effect.annotateLogs({ sink: name, reason, event: event_id, type: event_type, count }),
        Effect.andThen(own.emit("relay.dead_letter", { sink: name, count, ...first }, name)),
      )
    })

  yield* Effect.addFinalizer(() =>
    Effect.forEach(lanes, ([name, pending]) =>
      Effect.andThen(
        pending.timer === undefined ? Effect.void : Fiber.interrupt(pending.timer),
        Effect.timeoutOption(announceDeadLetters(name, pending), stopTimeout),
      ),
    ),
  )

  const announce: Announce = (name, progress) => {
    const pending = lanes.get(name) ?? new Pending()
    lanes.set(name, pending)
    return {
      deadLettered: ({ event }, reason, message) => {
        if (name === quarantine || event.webhook === ownWebhook) return
        pending.count += 1
        pending.first ??= { reason, message, event_id: event.id, event_type: event.type }
        const wait = Duration.millis(Math.max(collectFor, pending.announcedAt + announceEvery - now()))
        pending.timer ??= run(Effect.delay(Effect.uninterruptible(announceDeadLetters(name, pending)), wait))
      },
      paused: (reason, message) => {
        run(
          Effect.logWarning(`sink ${name} does not deliver: ${message}`).pipe(
            Effect.annotateLogs({ sink: name, reason }),
            Effect.andThen(own.emit("relay.lane_paused", { sink: name, message }, name)),
          ),
        )
      },
      resumed: () => {
        run(Effect.annotateLogs(Effect.logInfo(`sink ${name} is resumed`), { sink: name }))
      },
      ...progress,
      append: (event) => own.append(event, name),
      defect: (cause) => {
        run(
          Effect.logError(
            `sink ${name}: internal error; its event is retried or becomes a dead letter, and the lane continues; please report it`,
            cause,
          ).pipe(Effect.annotateLogs({ sink: name })),
        )
      },
    }
  }
  return announce
})
