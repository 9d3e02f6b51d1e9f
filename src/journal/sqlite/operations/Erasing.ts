/**
 * Erases events, some in a transaction: after a crash each is whole or erased,
 * and the erasure can be started again.
 *
 * SQLite itself overwrites what the rows held, because `secure_delete` is on
 * meanwhile. It is off otherwise, as it makes each deletion write more. Earlier
 * copies are in the file's free space, which `Scrubbing.ts` overwrites.
 */
import type { ErasedEvents } from "../../Archive.ts"
import { erasedAtOnce, erasedEvent } from "../../stream/Erasure.ts"
import type { Removal } from "../../stream/Removal.ts"
import type { Engine } from "../commit/Engine.ts"
import { allOf, type Committed } from "../commit/LaneStore.ts"
import { ErasedRows } from "../rows/ErasedRows.ts"

/** Sets `secure_delete` for the length of some work. */
const securely = <A>({ store: { db } }: Engine, work: () => A): A => {
  const before = db.prepare("PRAGMA secure_delete").get()?.secure_delete
  db.prepare("PRAGMA secure_delete = ON").get()
  try {
    return work()
  } finally {
    db.prepare(`PRAGMA secure_delete = ${Number(before)}`).get()
  }
}

/** Erases events that no lane waits for; with `giveUp` the others too, which end there first. A step is a transaction. */
export const erase = function* (
  engine: Engine,
  sequences: ReadonlyArray<number>,
  giveUp: boolean,
  why: Removal,
): Generator<void, ErasedEvents> {
  const { lanes } = engine
  const rows = engine.guard(() => new ErasedRows(engine.store.db))
  const erased: Array<number> = []
  const undelivered: Array<ErasedEvents["undelivered"][number]> = []
  for (let next = 0; next < sequences.length; next += erasedAtOnce) {
    const part = sequences.slice(next, next + erasedAtOnce)
    const work = () => {
      const done: Array<number> = []
      const left: Array<ErasedEvents["undelivered"][number]> = []
      const givenUp = new Map<string, Array<number>>()
      const committed: Array<Committed> = []
      for (const sequence of part) {
        const waiting = lanes.waitingFor(sequence)
        if (waiting.length > 0 && !giveUp) {
          left.push({ sequence, lanes: waiting })
          continue
        }
        for (const lane of waiting) givenUp.set(lane, [...(givenUp.get(lane) ?? []), sequence])
      }
      for (const [lane, some] of givenUp) committed.push(lanes.giveUp(lane, some, why))
      const isGivenUp = new Set([...givenUp.values()].flat())
      rows.count()
      // Afterwards, because how an event ended may tell what was answered.
      for (const sequence of part) {
        if (left.some((one) => one.sequence === sequence)) continue
        const { isFound, letters } = rows.erase(sequence, why.at)
        // One that was a retry alone, because the log was pruned of it, is gone with that.
        if (isFound || isGivenUp.has(sequence)) done.push(sequence)
        committed.push(...letters.map((letter) => lanes.resized(letter)))
      }
      const inMemory = () => {
        for (const sequence of done) {
          engine.reader.erase(sequence, (entry) => ({ ...entry, event: erasedEvent(entry.event, why.at) }))
        }
      }
      return { result: { done, left }, committed: allOf([...committed, inMemory]) }
    }
    const { done, left } = securely(engine, () => engine.exclusively(work))
    erased.push(...done)
    undelivered.push(...left)
    yield
  }
  return { erased, undelivered }
}

/** Names where copies may be that the relay can't overwrite; `damaged` is the number of pages of the file that it can't read. */
export const notReached = (damaged: number): ReadonlyArray<string> => [
  ...(damaged === 0
    ? []
    : [`damaged pages of the journal's file, ${damaged} of them: \`relay journal check\` names their events`]),
  "blocks of the disk that the file system has freed, and its snapshots",
  "backups, salvaged events, copies that were not finished (`….copying`) and journals that were moved aside: delete them",
  "what sinks have received, and the logs of other systems",
]
