/**
 * What happens in a lane, told: to the log, and as the relay's own events.
 *
 * **Promise.** Each dead letter is counted in one `relay.dead_letter`. A burst is
 * told at once, a second after it began, and what goes on every ten seconds: a
 * poisoned stream must not double itself. What is untold when the relay stops is
 * told then.
 */
import { Clock, Duration, Effect, Fiber } from "effect"
import { quarantine } from "../event/Event.ts"
import type { LaneEvents } from "./lane/Outcome.ts"
import { ownWebhook, RelayEvents } from "./RelayEvents.ts"

/** Milliseconds: how long a burst is gathered, and how far apart two tellings of a lane are at least. */
const gatherFor = 1_000
const announceEvery = 10_000
/** How long the journal may take for what is told when the relay stops. */
const lastWord = Duration.seconds(2)

/** What a lane of a name tells; `settle` asks that its progress be stored now. */
export type Announce = (name: string, settle: () => void) => LaneEvents

type First = {
  readonly reason: string
  readonly message: string
  readonly event_id: string
  readonly event_type: string
}

/** The dead letters of a lane that are yet to be told, by their first. */
class Untold {
  /** Monotonic milliseconds. */
  toldAt = Number.NEGATIVE_INFINITY
  count = 0
  first: First | undefined
  telling: Fiber.Fiber<void> | undefined
}

export const make = Effect.gen(function* () {
  const own = yield* RelayEvents
  const clock = yield* Clock.Clock
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  // A lane that ends and begins anew has the same.
  const lanes = new Map<string, Untold>()

  const tell = (name: string, untold: Untold) =>
    Effect.suspend(() => {
      const { first, count } = untold
      if (first === undefined) return Effect.void
      untold.toldAt = now()
      untold.count = 0
      untold.first = undefined
      untold.telling = undefined
      const { reason, message, event_id, event_type } = first
      return Effect.logWarning(`sink ${name}: dead letter (${reason}): ${message}`).pipe(
        Effect.annotateLogs({ event: event_id, type: event_type, count }),
        Effect.andThen(own.emit("relay.dead_letter", { sink: name, count, ...first }, name)),
      )
    })

  yield* Effect.addFinalizer(() =>
    Effect.forEach(lanes, ([name, untold]) =>
      Effect.andThen(
        untold.telling === undefined ? Effect.void : Fiber.interrupt(untold.telling),
        Effect.timeoutOption(tell(name, untold), lastWord),
      ),
    ),
  )

  const announce: Announce = (name, settle) => {
    const untold = lanes.get(name) ?? new Untold()
    lanes.set(name, untold)
    return {
      deadLettered: ({ event }, reason, message) => {
        if (name === quarantine || event.webhook === ownWebhook) return
        untold.count += 1
        untold.first ??= { reason, message, event_id: event.id, event_type: event.type }
        const wait = Math.max(gatherFor, untold.toldAt + announceEvery - now())
        untold.telling ??= run(Effect.delay(Effect.uninterruptible(tell(name, untold)), Duration.millis(wait)))
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
        run(
          Effect.logError(
            `sink ${name}: a bug in relay; what it met is tried again or given up, and the lane goes on`,
            cause,
          ),
        )
      },
    }
  }
  return announce
})
