/**
 * The journal on SQLite (`node:sqlite`, WAL, `synchronous=FULL`): the embedded default.
 *
 * **Guarantee.** It gives the guarantee of `Journal`. One fsync acknowledges every append that waited for it,
 * and stores the lanes' settlements.
 *
 * **Gotcha.** SQLite is synchronous: a commit blocks the event loop for the length of an fsync (0.3 to 3 ms on
 * a good disk). The layer fails if another relay holds the journal, or a newer one wrote it. After `broken` the
 * process must end, because nothing in it can be trusted with the file any more.
 */
import { Clock, Deferred, Effect, Exit, Layer, type Scope } from "effect"
import { stateFile } from "../../runtime/FileSystem.ts"
import type { Archive } from "../Archive.ts"
import type { Appended, Journal } from "../Journal.ts"
import type { JournalBroken, JournalError } from "../JournalError.ts"
import { servicesOf, type WholeJournal } from "../JournalType.ts"
import type { RefusedSettlement } from "../Settlement.ts"
import { SearchIds } from "../stream/SearchIds.ts"
import * as WallClock from "../WallClock.ts"
import type { Engine } from "./commit/Engine.ts"
import { hourOf, type SqliteConfig } from "./SqliteConfig.ts"
import { attempt, keepRoom, openEngine, type Started, start } from "./service/OpenEngine.ts"
import { auditOf, eventsOf, statusOf } from "./service/SqliteArchive.ts"
import { lanesOf } from "./service/SqliteLanes.ts"
import * as WorkerSearch from "./service/WorkerSearch.ts"

export { current as schema } from "./rows/Migrations.ts"

/** The log. The engine knows lanes by their ids, and everything else by their names. */
const logOf = (engine: Engine, started: Started) => {
  const { ids } = engine.lanes
  return {
    appendUnsafe: (event, sinks) => engine.appendUnsafe(event, ids.routes(sinks)),
    append: (event, sinks) =>
      Effect.callback<Appended, JournalError>((resume) => {
        const exit = engine.append(event, ids.routes(sinks), resume)
        if (exit !== undefined) resume(exit)
      }),
    read: (after, limit, reader) => attempt(() => ids.entriesOf(engine.read(after, limit, reader && ids.idOf(reader)))),
    pastLost: (after) =>
      attempt(() => (after < engine.head && engine.read(after, 1).length === 0 ? engine.head : after)),
    settle: (settlements) =>
      started(
        Effect.callback<ReadonlyArray<RefusedSettlement>, JournalError>((resume) => {
          engine.settle(
            ids.isEmpty ? settlements : settlements.map(({ lane, ...one }) => ({ ...one, lane: ids.idOf(lane) })),
            (exit) =>
              resume(
                Exit.map(exit, (refused) => refused.map(({ lane, error }) => ({ lane: ids.nameOf(lane), error }))),
              ),
          )
        }),
      ),
    head: Effect.sync(() => engine.head),
    awaitBeyond: (after, lane) =>
      Effect.callback((resume) => {
        const reached = (through: number) => resume(Effect.succeed(through))
        const cancel = engine.waiting.awaitBeyond(after, lane && ids.idOf(lane), reached)
        return cancel && Effect.sync(cancel)
      }),
    knowSinks: (sinks) => ids.know(sinks),
    mayStart: () => true,
  } satisfies Partial<WholeJournal>
}

/** Opens the journal for the length of a scope. */
const make = Effect.fnUntraced(function* (
  options: SqliteConfig,
): Effect.fn.Return<WholeJournal, JournalError, Scope.Scope> {
  const wallClock = WallClock.make(yield* Clock.Clock)
  const engine = yield* openEngine(options)
  const broken = Deferred.makeUnsafe<never, JournalBroken>()
  const ready = yield* start(engine, options, (error) => Deferred.doneUnsafe(broken, Effect.fail(error)))
  const searchIds = new SearchIds(options.searchIds)
  const search = yield* WorkerSearch.make(engine, searchIds)
  yield* Effect.forkScoped(keepRoom(engine, options.retention, wallClock, search.written))
  return {
    ...logOf(engine, ready.whenOpen),
    ...lanesOf(engine, ready.whenOpen),
    ...eventsOf(engine, ready.whenOpen, search),
    searchIds,
    status: Effect.sync(() => statusOf(engine, options, wallClock)),
    hour: stateFile(hourOf(options.path)),
    audit: auditOf(engine, wallClock),
    broken: Deferred.await(broken),
  }
})

/**
 * Returns the journal of a config, and its archive. Fails with `JournalUnavailable` or `JournalBroken` if it
 * can't be opened.
 */
export const layer = (options: SqliteConfig): Layer.Layer<Journal | Archive, JournalError> =>
  Layer.effectContext(Effect.map(make(options), servicesOf))
