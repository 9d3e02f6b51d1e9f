/**
 * Forgets the oldest rows of the log: those that every lane has passed, and
 * that are older than the retention or in the way of new ones.
 */
import type { Engine } from "./Engine.ts"

/** Milliseconds of the event loop that one slice may take. */
const budget = 2

/**
 * Deletes whole rows, oldest first, in one short transaction; whether there may
 * be more. `before` is in epoch milliseconds: rows received earlier go by age.
 */
export const prune = (engine: Engine, before: number): boolean => {
  const kept = Math.min(engine.lanes.passed, engine.head - 1)
  const mayGo = (): number | undefined => {
    const row = engine.log.oldestRow()
    // The last row stays: it says where the log had come to.
    if (row === undefined || row.last > kept) return undefined
    return row.receivedTo < before || engine.space.isTight ? row.first : undefined
  }
  if (mayGo() === undefined) return false
  const started = performance.now()
  return engine.exclusively(() => {
    let first = mayGo()
    while (first !== undefined && performance.now() - started < budget) {
      engine.log.delete(first)
      engine.space.count()
      first = mayGo()
    }
    return { result: first !== undefined }
  })
}
