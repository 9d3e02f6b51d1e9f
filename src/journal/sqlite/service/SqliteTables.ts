/**
 * The rows of operators' changes on SQLite. A slice is synchronous: it runs
 * between two turns of the event loop, so nothing changes after it has read and
 * before it stores.
 */
import { Effect } from "effect"
import type { Entry } from "../../../event/Entry.ts"
import type { AlsoStored, JournalTables, RemovedLetters, SliceRows } from "../../archive/JournalTables.ts"
import { type JournalError, unavailable } from "../../JournalError.ts"
import type { StoredDeadLetter } from "../../LaneInfo.ts"
import { firstOf, slice } from "../../stream/BulkSlices.ts"
import { bodyChecksum, Origin } from "../../stream/Record.ts"
import type { Engine } from "../commit/Engine.ts"
import { allOf, type Committed } from "../commit/LaneStore.ts"
import { meta } from "../rows/Meta.ts"
import { list } from "../rows/Rows.ts"
import { attempt, inOneTurn } from "./EngineEffects.ts"

/** The tables of an open engine. */
export const tablesOf = (engine: Engine): JournalTables => {
  const { lanes, store } = engine

  const removeAll = ({ keys, outcome, copies, why }: RemovedLetters): ReadonlyArray<Committed> =>
    keys.flatMap((key, index) => lanes.removeDeadLetter(key, outcome, why, copies[index]) ?? [])

  /** Makes changes in one transaction. Returns the number of those that there was something for. */
  const changeAll = (change: () => ReadonlyArray<Committed>) =>
    attempt(() =>
      engine.exclusively(() => {
        const done = change()
        return { result: done.length, committed: allOf(done) }
      }),
    )

  const storeAlso = ({ removed, ended = [], imported = [], letters = [] }: AlsoStored): Committed => {
    const gone = removed === undefined ? [] : removeAll(removed)
    if (gone.length < (removed?.keys.length ?? 0))
      throw unavailable("Dead letters have changed meanwhile. Look again, and repeat it.")
    for (const one of ended) lanes.outcomes.ended(one)
    const note = store.db.prepare("INSERT OR REPLACE INTO imported (journal, sequence, lanes) VALUES (?, ?, ?)")
    for (const { journal, sequence, lanes } of imported) note.run(journal, sequence, JSON.stringify(lanes))
    return allOf([...gone, ...letters.map((letter) => lanes.addDeadLetter(letter))])
  }

  const rows: SliceRows = {
    letters: (keys) =>
      guarded(engine, () => {
        const letters: Array<StoredDeadLetter> = []
        const done = firstOf(keys, slice.letters, (key) => {
          const letter = lanes.deadLetters.get(key)
          if (letter !== undefined) letters.push(letter)
          return letter?.entry.event.body.length ?? 0
        })
        return { done, letters }
      }),
    entries: (sequences) =>
      guarded(engine, () => {
        const logged = engine.log.finder()
        const entries = new Map<number, Entry>()
        const done = firstOf(sequences, slice.entries, (sequence) => {
          const entry = engine.pending.find(sequence) ?? logged(sequence) ?? lanes.find(sequence)
          if (entry !== undefined) entries.set(sequence, entry)
          return entry?.event.body.length ?? 0
        })
        return { done, entries }
      }),
    received: (entries) =>
      Effect.sync(
        () => new Set(entries.filter(({ event }) => engine.duplicates.find(event, bodyChecksum(event)) !== "new")),
      ),
    importedFor: (journal, sequences) =>
      guarded(engine, () => {
        const find = store.db.prepare("SELECT lanes FROM imported WHERE journal = ? AND sequence = ?")
        return new Map(sequences.map((sequence) => [sequence, list<string>(find.get(journal, sequence)?.lanes)]))
      }),
    append: (entries, origin, also) =>
      attempt(() => {
        if (origin === Origin.delivered) engine.deliverWith(entries, (copies) => storeAlso(also(copies)))
        else engine.appendWith(entries, origin, (copies) => storeAlso(also(copies)))
      }),
    giveBack: (keys, why) => changeAll(() => keys.flatMap((key) => lanes.giveBack(key, why) ?? [])),
    remove: (removed) => changeAll(() => removeAll(removed)),
  }

  return {
    whyFull: () => engine.space.message,
    logOf: () => "own",
    // Of this journal's own file, or a copy of it, only the events that were lost here: after a backup was restored.
    importable: (journal, events) =>
      guarded(engine, () =>
        meta(store.db, "identity") === journal ? events.filter(({ sequence }) => engine.losses.has(sequence)) : events,
      ),
    slice: (work) => inOneTurn(engine, work(rows)),
  }
}

const guarded = <A>(engine: Engine, read: () => A): Effect.Effect<A, JournalError> => attempt(() => engine.guard(read))
