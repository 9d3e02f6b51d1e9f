/**
 * Starts the worker when it is first needed, and runs searches: in the worker, or on
 * the event loop if there is no worker.
 */
import { Effect, type Scope } from "effect"
import { eventLoop } from "../../../event/EventLoop.ts"
import type { EventPage, EventQuery } from "../../EventQuery.ts"
import { WorkerEntrypoint } from "../../JournalContext.ts"
import type { JournalError } from "../../JournalError.ts"
import type { SearchIds } from "../../stream/SearchIds.ts"
import type { Engine } from "../commit/Engine.ts"
import * as JournalWorker from "../JournalWorker.ts"
import * as Search from "../search/Search.ts"
import { attempt } from "./OpenEngine.ts"

/** Milliseconds that a search may hold the event loop if there is no worker. */
const searchSlice = 5

/** The worker and the searches of an engine. */
export interface WorkerSearch {
  /** Something was written that the worker is to checkpoint. Starts it unless it runs: it takes 6 MB, so an idle relay has none. */
  readonly written: () => void
  readonly page: (query: EventQuery) => Effect.Effect<EventPage, JournalError>
}

/** Ends the worker with the scope. */
export const make = Effect.fnUntraced(function* (
  engine: Engine,
  searchIds: SearchIds,
): Effect.fn.Return<WorkerSearch, JournalError, Scope.Scope> {
  const entry = yield* WorkerEntrypoint
  let worker: JournalWorker.JournalWorker | undefined
  const need = (): JournalWorker.JournalWorker | undefined => {
    if (entry === undefined) return undefined
    const journal = { path: engine.store.path, searchIds: searchIds.pointers }
    worker ??= JournalWorker.start(entry, journal, {
      checkpoint: (frames) => {
        if (engine.brokenBy === undefined) engine.checkpoints.reported(frames)
      },
      failure: (message, code) => engine.checkpoints.failed(message, code),
    })
    return worker
  }
  yield* Effect.addFinalizer(() => (worker === undefined ? Effect.void : Effect.promise(worker.stop)))
  engine.checkpoints.isOwn = entry === undefined
  const own = yield* attempt(() => engine.guard(() => new Search.Search(engine.store.db, searchIds)))
  const look = Effect.fnUntraced(function* (query: EventQuery) {
    const page = yield* Effect.tryPromise({
      try: async () => engine.guard(() => need()?.search(query)),
      catch: (error) => engine.failed(error),
    })
    if (page !== undefined) return page
    yield* eventLoop.turn
    return yield* attempt(() => engine.guard(() => own.look(query, searchSlice)))
  })
  return { written: () => need()?.written(), page: (query) => Search.page(query, look) }
})
