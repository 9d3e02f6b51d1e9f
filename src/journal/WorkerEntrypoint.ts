/**
 * The URL that a journal uses to start a worker thread: the program's main module, which calls `runWorker` of
 * `Worker.ts` if it isn't on the main thread. It can't be another file, because a compiled binary starts only
 * at that module. Without it (in tests), a journal does its work on the event loop.
 */
import { Context } from "effect"

export const WorkerEntrypoint = Context.Reference<URL | undefined>("relay/journal/WorkerEntrypoint", {
  defaultValue: () => undefined,
})
