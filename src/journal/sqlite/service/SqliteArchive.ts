/** The archive's operations on events: dead letters, replays, imports, searches. */
import { Effect, Schedule } from "effect"
import { type JournalError, unavailable } from "../../JournalError.ts"
import { readBytes } from "../../stream/BulkSlices.ts"
import { type Removal, removal } from "../../stream/Removal.ts"
import type { WholeJournal } from "../../WholeJournal.ts"
import type { Engine } from "../commit/Engine.ts"
import * as BulkOperations from "../operations/BulkOperations.ts"
import * as Erasing from "../operations/Erasing.ts"
import { importEvents } from "../operations/Import.ts"
import { attempt, patient, type Started, sliced } from "./EngineEffects.ts"
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

/** Empties the write-ahead log, which holds what was replaced: as soon as nothing reads from it. */
const emptied = (engine: Engine): Effect.Effect<void, JournalError> =>
  attempt(() => engine.guard(() => engine.checkpoints.empty())).pipe(
    Effect.repeat({
      until: (isEmpty) => isEmpty,
      schedule: Schedule.max([Schedule.spaced("20 millis"), Schedule.recurs(500)]),
    }),
    Effect.flatMap((isEmpty) =>
      isEmpty
        ? Effect.void
        : Effect.fail(
            unavailable(
              `The events are erased, but the write-ahead log of ${engine.store.path} still has copies: another process reads from it, such as a backup. Repeat the command once that has ended.`,
            ),
          ),
    ),
  )

/** The part of the archive that concerns events. */
export const eventsOf = (engine: Engine, started: Started, search: WorkerSearch): Events => {
  const byOperator = <A>(work: (why: Removal) => Effect.Effect<A, JournalError>) =>
    started(Effect.flatMap(removal, work))
  return {
    deadLetters: (query) => attempt(() => engine.guard(() => engine.lanes.deadLetters.query(query, readBytes))),
    replayDeadLetters: (ids, reroute) =>
      byOperator((why) => sliced(engine, () => BulkOperations.replayDeadLetters(engine, ids, reroute, why))),
    dropDeadLetters: (ids) =>
      byOperator((why) => sliced(engine, () => BulkOperations.dropDeadLetters(engine, ids, why))),
    replay: (targets) => byOperator((why) => patient(() => BulkOperations.replay(engine, targets, why))),
    erase: (sequences, giveUp) =>
      byOperator((why) => sliced(engine, () => Erasing.erase(engine, sequences, giveUp, why))),
    scrub: started(Effect.as(emptied(engine), Erasing.notReached)),
    import: (journal, events) => started(attempt(() => importEvents(engine, journal, events))),
    events: search.page,
    end: Effect.sync(() => String(engine.head)),
    acknowledge: patient(() => engine.acknowledge()),
  }
}
