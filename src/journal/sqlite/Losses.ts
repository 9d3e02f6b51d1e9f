/**
 * What was lost while it was owed: its deliveries are not remembered as
 * duplicates, from the moment that the loss is found and across restarts. So a
 * sender repairs the loss by sending again.
 *
 * What had come to all its sinks is remembered as ever: there the bytes on disk
 * were no more than a copy.
 */

import { keyWidth, notDelivered } from "./CommitBatch.ts"
import type { Engine } from "./Engine.ts"
import { ranges } from "./Log.ts"

export class Losses {
  private readonly known: Array<readonly [from: number, to: number]>
  private readonly insert
  private readonly engine: Engine
  private readonly storeSoon: (work: () => void) => void

  constructor(engine: Engine, storeSoon: (work: () => void) => void) {
    this.engine = engine
    this.storeSoon = storeSoon
    const { db } = engine.store
    this.insert = db.prepare("INSERT OR REPLACE INTO hole (first, last) VALUES (?, ?)")
    this.known = db
      .prepare("SELECT first, last FROM hole")
      .all()
      .map(({ first, last }) => [Number(first), Number(last)] as const)
  }

  /** Whether an event is known to be lost. */
  has(sequence: number): boolean {
    return this.known.some(([from, to]) => from <= sequence && sequence <= to)
  }

  /**
   * Forgets those of a range that some lane had yet to pass; all of it where
   * `isOwed` says that it was owed.
   */
  found(from: number, to: number, isOwed = false): void {
    const { log, duplicates } = this.engine
    const row = log.keysOf(log.rowStart(from) - 1, 1)[0]
    if (row === undefined || row.first > from) return
    const forgotten: Array<number> = []
    for (let sequence = from; sequence <= Math.min(to, row.first + row.count - 1); sequence++) {
      const key = (sequence - row.first) * keyWidth
      if (key + keyWidth > row.keys.length || this.has(sequence)) continue
      const route = row.keys.readUInt32LE(key + 12)
      if ((route & notDelivered) !== 0) continue
      if (!isOwed && !this.isPending(sequence, row.routes[route])) continue
      duplicates.forget(row.keys.readUInt32LE(key), row.keys.readUInt32LE(key + 4), row.keys.readUInt32LE(key + 8))
      forgotten.push(sequence)
    }
    if (forgotten.length === 0) return
    const found = ranges(forgotten)
    this.known.push(...found)
    this.storeSoon(() => {
      for (const [first, last] of found) this.insert.run(first, last)
    })
  }

  /** Without a route that can be read, whatever a lane has yet to pass may be for it. */
  private isPending(sequence: number, sinks: ReadonlyArray<string> | undefined): boolean {
    for (const [name, backlog] of this.engine.lanes.backlogs) {
      if ((sinks === undefined || sinks.includes(name)) && backlog.isPending(sequence)) return true
    }
    return false
  }
}
