/**
 * The place where a journal may start a worker thread: the URL of the program's main
 * module, which calls `runWorker` of `Worker.ts` when it is not the main
 * thread. A compiled binary starts at no other module, so it can't be another file.
 * Without it (tests) a journal does its work on the event loop.
 */
import { Context } from "effect"

export const WorkerEntrypoint = Context.Reference<URL | undefined>("relay/journal/WorkerEntrypoint", {
  defaultValue: () => undefined,
})
