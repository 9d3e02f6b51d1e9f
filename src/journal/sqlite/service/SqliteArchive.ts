/** The archive on SQLite: the rows of operators' changes, dead letters, replays, imports, searches, status and audit log. */

import { Effect, Schedule } from "effect"
import type { Entry } from "../../../event/Event.ts"
import type { JournalStatus, Reroute } from "../../Archive.ts"
import type { AuditLog } from "../../AuditLog.ts"
import { conditionOf } from "../../archive/AlarmLines.ts"
import * as DeadLetterChanges from "../../archive/DeadLetterChanges.ts"
import { eraseEvents } from "../../archive/Erasure.ts"
import { importEvents } from "../../archive/Imports.ts"
import type { AlsoStored, JournalTables, RemovedLetters, SliceRows } from "../../archive/JournalTables.ts"
import * as Reappending from "../../archive/Reappending.ts"
import { type JournalError, unavailable } from "../../JournalError.ts"
import type { WholeJournal } from "../../JournalType.ts"
import { letterId, parseLetterId, type StoredDeadLetter } from "../../LaneInfo.ts"
import { firstOf, readBytes, slice } from "../../stream/BulkSlices.ts"
import { bodyChecksum, Origin } from "../../stream/Record.ts"
import type { WallClock } from "../../WallClock.ts"
import type { Engine } from "../commit/Engine.ts"
import { allOf, type Committed, nothing } from "../commit/LaneStore.ts"
import * as Erasing from "../operations/Erasing.ts"
import { scrub } from "../operations/Erasing.ts"
import { AuditRows } from "../rows/AuditRows.ts"
import { list, meta } from "../rows/Rows.ts"
import type { SqliteConfig } from "../SqliteConfig.ts"
import { attempt, entriesInSlice, inOneTurn, patient, type Started, sliced } from "./OpenEngine.ts"
import type { WorkerSearch } from "./WorkerSearch.ts"

/**
 * The rows of operators' changes on SQLite. A slice is synchronous: it runs between two turns of the event loop, so
 * nothing changes after it has read and before it stores. The tables of an open engine.
 */
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
    if (gone.length < (removed?.keys.length ?? 0)) throw DeadLetterChanges.lettersChanged
    for (const record of ended) lanes.outcomes.ended(record)
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
        const done = firstOf(sequences, entriesInSlice(), (sequence) => {
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
    // From this journal's own file, or a copy of it, only the events that were lost here are imported, as after
    // restoring a backup.
    importable: (journal, events) =>
      guarded(engine, () =>
        meta(store.db, "identity") === journal ? events.filter(({ sequence }) => engine.losses.has(sequence)) : events,
      ),
    slice: (work) => inOneTurn(engine, work(rows)),
  }
}

const guarded = <A>(engine: Engine, read: () => A): Effect.Effect<A, JournalError> => attempt(() => engine.guard(read))

/** Overwrites former bytes in the file and its write-ahead log, as soon as nothing reads from the log. */
const scrubbed = (engine: Engine): Effect.Effect<ReadonlyArray<string>, JournalError> =>
  sliced(engine, () => scrub(engine)).pipe(
    Effect.repeat({
      until: (damaged) => damaged !== undefined,
      schedule: Schedule.max([Schedule.spaced("20 millis"), Schedule.recurs(500)]),
    }),
    Effect.flatMap((damaged) =>
      damaged === undefined
        ? unavailable(
            `The events are erased, but the write-ahead log of ${engine.store.path} still has copies: another process reads from it, such as a backup. Repeat the command once that has ended.`,
          )
        : Effect.succeed(Erasing.notReached(damaged)),
    ),
  )

/** The part of the archive that concerns events. The tables have the ids of lanes, and operators their names. */
export const eventsOf = (engine: Engine, started: Started, search: WorkerSearch) => {
  const tables = tablesOf(engine)
  const { ids } = engine.lanes
  const keyOf = (id: string): string => {
    const key = parseLetterId(id)
    return key === undefined ? id : letterId(ids.idOf(key.lane), key.sequence)
  }
  const letterOf = ({ lane: id, entry, ...letter }: StoredDeadLetter): StoredDeadLetter => {
    const lane = ids.nameOf(id)
    return { ...letter, id: letterId(lane, letter.sequence), lane, entry: ids.entryOf(entry) }
  }
  const rerouted =
    (reroute: Reroute): Reroute =>
    (event) => {
      const found = reroute(event)
      return found && { ...found, sinks: ids.routes(found.sinks) }
    }
  return {
    deadLetters: ({ lane, before, ...query }) =>
      attempt(() => {
        const own = { ...query, ...(lane && { lane: ids.idOf(lane) }), ...(before && { before: keyOf(before) }) }
        return engine.guard(() => engine.lanes.deadLetters.query(own, readBytes)).map(letterOf)
      }),
    replayDeadLetters: (letters, reroute) =>
      started(Effect.suspend(() => DeadLetterChanges.replay(tables, letters.map(keyOf), reroute && rerouted(reroute)))),
    dropDeadLetters: (letters) => started(Effect.suspend(() => DeadLetterChanges.drop(tables, letters.map(keyOf)))),
    replay: (targets) =>
      started(
        Effect.suspend(() =>
          Reappending.replay(
            tables,
            targets.map((target) => ({ ...target, sinks: ids.routes(target.sinks) })),
          ),
        ),
      ),
    erase: (sequences, giveUp) =>
      started(
        Effect.map(
          eraseEvents(sequences, (part, why) =>
            inOneTurn(
              engine,
              attempt(() => Erasing.erase(engine, part, giveUp, why)),
            ),
          ),
          ({ erased, undelivered }) => ({
            erased,
            undelivered: undelivered.map((one) => ({ ...one, lanes: ids.namesOf(one.lanes) })),
          }),
        ),
      ),
    scrub: started(scrubbed(engine)),
    import: (journal, events) =>
      started(
        Effect.suspend(() =>
          importEvents(
            tables,
            journal,
            events.map((one) => ({ ...one, pending: ids.routes(one.pending) })),
          ),
        ),
      ),
    events: search.page,
    end: Effect.sync(() => String(engine.head)),
    acknowledge: patient(() => engine.acknowledge()),
  } satisfies Partial<WholeJournal>
}

/** The worst that is so. */
const healthOf = ({ brokenBy, isStarting, space, locked }: Engine): JournalStatus["health"] => {
  if (brokenBy !== undefined) return "broken"
  if (isStarting) return "starting"
  if (space.refusal !== undefined) return "full"
  if (locked.message !== "") return "unavailable"
  return "ok"
}

/** The status now, from memory but for the log's oldest row. */
export const statusOf = (engine: Engine, { path, maxSize }: SqliteConfig, wallClock: WallClock): JournalStatus => {
  const { usedBytes, walBytes, freeDiskBytes, filling, message } = engine.space
  const { brokenBy, alarm, head } = engine
  const problems = [engine.space.ballast.problem, engine.store.mark.problem]
  return {
    ...conditionOf(
      healthOf(engine),
      [brokenBy?.message ?? "", message, engine.locked.message, ...problems],
      alarm.raised,
      wallClock,
    ),
    head,
    first: brokenBy === undefined ? (engine.log.oldestRow()?.first ?? head + 1) : 0,
    usedBytes,
    maxBytes: maxSize,
    filling,
    counters: { ...engine.counters },
    engine: { path, walBytes, freeDiskBytes },
  }
}

export const auditOf = (engine: Engine, wallClock: WallClock): AuditLog => {
  const rows = new AuditRows(engine.store.db, wallClock)
  return {
    record: (operation) =>
      patient(() =>
        engine.apply(() => {
          rows.add(operation)
          return nothing
        }),
      ),
    list: (query) => attempt(() => engine.guard(() => rows.list(query))),
  }
}
