/** The archive's operations on events: dead letters, replays, imports, searches. */
import { Effect, Schedule } from "effect"
import * as DeadLetterChanges from "../../archive/DeadLetterChanges.ts"
import { importEvents } from "../../archive/Imports.ts"
import * as Reappending from "../../archive/Reappending.ts"
import { type JournalError, unavailable } from "../../JournalError.ts"
import { readBytes } from "../../stream/BulkSlices.ts"
import { removal } from "../../stream/Removal.ts"
import type { WholeJournal } from "../../WholeJournal.ts"
import type { Engine } from "../commit/Engine.ts"
import * as Erasing from "../operations/Erasing.ts"
import { scrub } from "../operations/Scrubbing.ts"
import { attempt, patient, type Started, sliced } from "./EngineEffects.ts"
import { tablesOf } from "./SqliteTables.ts"
import type { WorkerSearch } from "./WorkerSearch.ts"

type Events = Pick<
  WholeJournal,
  | "deadLetters"
  | "replayDeadLetters"
  | "dropDeadLetters"
  | "replay"
  | "erase"
  | "scrub"
  | "import"
  | "events"
  | "end"
  | "acknowledge"
>

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

/** The part of the archive that concerns events. */
export const eventsOf = (engine: Engine, started: Started, search: WorkerSearch): Events => {
  const tables = tablesOf(engine)
  return {
    deadLetters: (query) => attempt(() => engine.guard(() => engine.lanes.deadLetters.query(query, readBytes))),
    replayDeadLetters: (ids, reroute) => started(DeadLetterChanges.replay(tables, ids, reroute)),
    dropDeadLetters: (ids) => started(DeadLetterChanges.drop(tables, ids)),
    replay: (targets) => started(Reappending.replay(tables, targets)),
    erase: (sequences, giveUp) =>
      started(Effect.flatMap(removal, (why) => sliced(engine, () => Erasing.erase(engine, sequences, giveUp, why)))),
    scrub: started(scrubbed(engine)),
    import: (journal, events) => started(importEvents(tables, journal, events)),
    events: search.page,
    end: Effect.sync(() => String(engine.head)),
    acknowledge: patient(() => engine.acknowledge()),
  }
}
