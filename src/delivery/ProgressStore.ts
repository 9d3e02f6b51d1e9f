/**
 * Stores the progress of the lanes over one stream, of all of them in one
 * settlement: a tenth of a second after a lane did something, or at once if it
 * can't wait. Lanes that do nothing cost nothing.
 *
 * **Guarantee.** What could not be stored stays with its lane and goes with the
 * next settlement. A lane whose progress the journal refuses holds up no other:
 * a crash sends again what it did, and it stops at its bound.
 */
import { Cause, Duration, Effect, Latch, Semaphore } from "effect"
import { repeating } from "../event/Rounds.ts"
import type { JournalError, Log, Settlement } from "../journal/Journal.ts"
import { logBug } from "./Bugs.ts"
import type { Lane } from "./lane/Lane.ts"

/** How soon lanes' progress is made durable. A crash repeats deliveries of this time. */
export const settleEvery = Duration.millis(100)

const isFenced = (cause: Cause.Cause<JournalError>): boolean => {
  const error = Cause.findErrorOption(cause)
  return error._tag === "Some" && error.value.reason._tag === "JournalFenced"
}

const refuse = (lane: Lane, { message }: JournalError): Effect.Effect<void> => {
  const { name } = lane.config
  const isNews = lane.state.refuse(
    `the journal refuses the progress of this lane, and takes that of others: ${message} If it lasts, restart the relay: what is not stored is sent again`,
  )
  return isNews
    ? Effect.annotateLogs(Effect.logError(`sink ${name}: ${lane.state.refused}`), { sink: name })
    : Effect.void
}

export const make = Effect.fnUntraced(function* (log: Log, get: (name: string) => Lane | undefined) {
  const oneAtATime = yield* Semaphore.make(1)
  /** Lanes whose progress may have changed since it was taken. */
  const changed = new Set<string>()
  const isChanged = Latch.makeUnsafe(false)
  const soon = Latch.makeUnsafe(false)
  const active = (name: string): void => {
    changed.add(name)
    isChanged.openUnsafe()
  }

  const settleAll = Effect.suspend(() => {
    const taken = [...changed].flatMap((name) => {
      const lane = get(name)
      const changes = lane?.progress.takeChanges()
      return lane === undefined || changes === undefined ? [] : [{ lane, changes }]
    })
    changed.clear()
    isChanged.closeUnsafe()
    const unstored = new Set<Lane>()
    const restore = (lane: Lane, changes: Settlement): void => {
      lane.progress.restore(changes)
      unstored.add(lane)
      active(changes.lane)
    }
    if (taken.length === 0) return Effect.succeed(unstored)
    return Effect.matchCauseEffect(log.settle(taken.map(({ changes }) => changes)), {
      onSuccess: (refused) => {
        const told: Array<Effect.Effect<void>> = []
        for (const { lane, changes } of taken) {
          const refusal = refused.find((one) => one.lane === changes.lane)
          if (refusal === undefined) lane.stored()
          else {
            restore(lane, changes)
            told.push(refuse(lane, refusal.error))
          }
        }
        return Effect.as(Effect.all(told, { discard: true }), unstored)
      },
      // The journal reports what is wrong.
      onFailure: (cause) => {
        if (isFenced(cause)) return Effect.succeed(unstored)
        const error = Cause.findErrorOption(cause)
        for (const { lane, changes } of taken) {
          restore(lane, changes)
          lane.unstorable = error._tag === "Some" ? error.value.message : "a bug in relay; the log has its cause"
        }
        return Cause.hasDies(cause)
          ? Effect.as(logBug("the progress of the lanes could not be stored", cause), unstored)
          : Effect.succeed(unstored)
      },
    })
  })
  // Uninterruptible: changes that were taken and neither stored nor restored would be lost to the lane.
  const settle: Effect.Effect<ReadonlySet<Lane>> = oneAtATime.withPermit(Effect.uninterruptible(settleAll))

  return {
    /** Stores the progress of all lanes; gives those of which not all is on disk. */
    settle,
    /** Runs work while no settlement is under way. */
    between: oneAtATime.withPermit,
    /** A lane did something: its progress is stored soon. */
    active,
    /** Has it stored now. */
    settleSoon: () => soon.openUnsafe(),
    /** Stores what changes, for ever. */
    keepSettling: repeating(
      "collecting the progress of the lanes",
      isChanged.await.pipe(
        Effect.andThen(Effect.timeoutOption(soon.await, settleEvery)),
        Effect.andThen(soon.close),
        Effect.andThen(settle),
      ),
    ),
  }
})
