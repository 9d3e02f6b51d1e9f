/**
 * Stores the progress of all lanes of a stream in one settlement, a tenth of a
 * second after a lane did something, or immediately if it can't wait. Idle lanes
 * cost nothing.
 *
 * **Guarantee.** If progress can't be stored, its lane keeps it for the next
 * settlement. A lane whose progress the journal refuses doesn't delay the others. A
 * crash repeats that lane's deliveries, at most `duplicateBound` of them, because the
 * lane starts no attempt that could exceed it.
 */
import { Cause, Duration, Effect, Latch, Semaphore } from "effect"
import { repeating } from "../event/Rounds.ts"
import type { JournalError, Log, Settlement } from "../journal/Journal.ts"
import { logBug } from "./Bugs.ts"
import type { Lane } from "./lane/Lane.ts"

/** How often lanes' progress is made durable. A crash repeats the deliveries of this interval. */
export const settleEvery = Duration.millis(100)

const isFenced = (cause: Cause.Cause<JournalError>): boolean => {
  const error = Cause.findErrorOption(cause)
  return error._tag === "Some" && error.value.reason._tag === "JournalFenced"
}

const refuse = (lane: Lane, { message }: JournalError): Effect.Effect<void> => {
  const { name } = lane.config
  const isNews = lane.state.refuse(
    `the journal refuses the progress of this lane, but accepts other lanes' progress: ${message} If it lasts, restart the relay: deliveries that are not stored are repeated`,
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
        const reports: Array<Effect.Effect<void>> = []
        for (const { lane, changes } of taken) {
          const refusal = refused.find(({ lane }) => lane === changes.lane)
          if (refusal === undefined) lane.stored()
          else {
            restore(lane, changes)
            reports.push(refuse(lane, refusal.error))
          }
        }
        return Effect.as(Effect.all(reports, { discard: true }), unstored)
      },
      // The journal itself reports the error.
      onFailure: (cause) => {
        if (isFenced(cause)) return Effect.succeed(unstored)
        const error = Cause.findErrorOption(cause)
        for (const { lane, changes } of taken) {
          restore(lane, changes)
          lane.unstorable =
            error._tag === "Some" ? error.value.message : "internal error; the log has the cause, please report it"
        }
        return Cause.hasDies(cause)
          ? Effect.as(logBug("the progress of the lanes could not be stored", cause), unstored)
          : Effect.succeed(unstored)
      },
    })
  })
  // Uninterruptible, because the lane would lose changes that were taken but neither stored nor restored.
  const settle: Effect.Effect<ReadonlySet<Lane>> = oneAtATime.withPermit(Effect.uninterruptible(settleAll))

  return {
    /** Stores the progress of all lanes. Returns the lanes whose progress is not all on disk. */
    settle,
    /** Runs work between two settlements. */
    between: oneAtATime.withPermit,
    /** Called when a lane did something: its progress is stored soon. */
    active,
    /** Stores it now instead of after `settleEvery`. */
    settleSoon: () => soon.openUnsafe(),
    /** Stores progress forever, whenever a lane did something. */
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
