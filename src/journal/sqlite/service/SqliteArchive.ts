/** The archive's operations on events: dead letters, replays, imports, searches. */
import { Effect } from "effect"
import type { JournalError } from "../../JournalError.ts"
import { readBytes } from "../../stream/BulkSlices.ts"
import { type Removal, removal } from "../../stream/Removal.ts"
import type { WholeJournal } from "../../WholeJournal.ts"
import type { Engine } from "../commit/Engine.ts"
import * as BulkOperations from "../operations/BulkOperations.ts"
import { importEvents } from "../operations/Import.ts"
import { attempt, patient, type Started, sliced } from "./EngineEffects.ts"
import type { WorkerSearch } from "./WorkerSearch.ts"

type Events = Pick<
  WholeJournal,
  "deadLetters" | "replayDeadLetters" | "dropDeadLetters" | "replay" | "import" | "events" | "end" | "acknowledge"
>

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
    import: (journal, events) => started(attempt(() => importEvents(engine, journal, events))),
    events: search.page,
    end: Effect.sync(() => String(engine.head)),
    acknowledge: patient(() => engine.acknowledge()),
  }
}
