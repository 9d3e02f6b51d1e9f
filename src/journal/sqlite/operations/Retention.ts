/**
 * Prunes the log: the oldest rows are deleted when they are older than the
 * retention, or when room is needed.
 *
 * **Guarantee.** An event that a lane still waits for is copied to the pending
 * events in the same transaction, so a lane keeps only its own events on disk.
 */
import { isSurplus } from "../../archive/Room.ts"
import type { Engine } from "../commit/Engine.ts"
import { nothing } from "../commit/LaneStore.ts"
import { setMeta } from "../rows/Rows.ts"

/** Milliseconds of the event loop that one slice may take. */
const budget = 2

/**
 * Deletes whole rows, oldest first, in one short transaction. Reports whether there
 * may be more. Rows received before `before`, in epoch milliseconds, are deleted by
 * age.
 */
export const prune = (engine: Engine, before: number): boolean => {
  const oldest = () => {
    const row = engine.log.oldestRow()
    // The last row stays, because it has the log's last sequence.
    if (row === undefined || row.last >= engine.head) return undefined
    return isSurplus(row.receivedTo, before, engine.space.isTight) ? row : undefined
  }
  // Pruning writes the events that lanes wait for to another table. On a full disk, settlements need that room.
  if (engine.space.isDiskFull() || oldest() === undefined) return false
  const started = performance.now()
  return engine.exclusively(() => {
    let row = oldest()
    const from = row?.first ?? 0
    let pruned = 0
    let kept = 0
    while (row !== undefined) {
      const { first, last } = row
      for (const stored of engine.log.stored(first, engine.lanes.backlogs.pendingWithin(first, last))) {
        engine.pending.add(stored)
        kept = stored.entry.sequence
      }
      engine.log.delete(first)
      engine.space.count()
      pruned = last
      row = oldest()
      // At least one row, however long the transaction took to begin.
      if (performance.now() - started >= budget) break
    }
    if (pruned > 0) engine.lanes.outcomes.pruned(from, pruned + 1)
    if (pruned > 0) setMeta(engine.store.db, "pruned", String(pruned))
    return {
      result: row !== undefined,
      committed: () => {
        engine.pending.last = Math.max(engine.pending.last, kept)
      },
    }
  })
}

/** Deletes the outcomes of events that left the log and are no longer kept. */
export const forgetOutcomes = (engine: Engine): void => {
  const first = engine.log.oldestRow()?.first
  if (first === undefined || first <= 1) return
  engine.apply(() => {
    engine.lanes.outcomes.pruned(0, first)
    return nothing
  })
}

/** Removes some pending events that no lane waits for any more. Reports whether there may be more. */
export const sweep = (engine: Engine): boolean => {
  if (!engine.pending.mayRemove) return false
  engine.apply(() => {
    const swept = engine.pending.sweep(engine.lanes.backlogs, budget)
    return () => engine.pending.swept(swept)
  })
  return engine.pending.mayRemove
}
