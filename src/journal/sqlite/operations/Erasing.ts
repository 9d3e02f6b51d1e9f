/**
 * Erases events, some in a transaction: after a crash each is whole or erased,
 * and the erasure can be started again.
 *
 * SQLite itself overwrites what the rows held, because `secure_delete` is on
 * meanwhile. It is off otherwise, as it makes each deletion write more. Earlier
 * copies are in the file's free space, which `Scrubbing.ts` overwrites.
 */
import type { ErasedEvents } from "../../Archive.ts"
import { chooseErased, elsewhere, erasedAtOnce, erasedEvent, resultOf } from "../../stream/Erasure.ts"
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
      const choice = chooseErased(part, (sequence) => lanes.waitingFor(sequence), giveUp)
      const waiting = choice.givenUp.flatMap(({ sequence, lanes }) => lanes.map((lane) => ({ lane, sequence })))
      const committed: Array<Committed> = []
      for (const [lane, some] of Map.groupBy(waiting, ({ lane }) => lane)) {
        const sequences = some.map(({ sequence }) => sequence)
        committed.push(lanes.giveUp(lane, sequences, why))
      }
      rows.count()
      const found = new Set<number>()
      // Afterwards, because how an event ended may tell what was answered.
      for (const sequence of choice.wanted) {
        const { isFound, letters } = rows.erase(sequence, why.at)
        if (isFound) found.add(sequence)
        committed.push(...letters.map((letter) => lanes.resized(letter)))
      }
      const result = resultOf(choice, found)
      const inMemory = () => {
        for (const sequence of result.erased) {
          engine.reader.erase(sequence, (entry) => ({ ...entry, event: erasedEvent(entry.event, why.at) }))
        }
      }
      return { result, committed: allOf([...committed, inMemory]) }
    }
    const done = securely(engine, () => engine.exclusively(work))
    erased.push(...done.erased)
    undelivered.push(...done.undelivered)
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
  ...elsewhere,
]
