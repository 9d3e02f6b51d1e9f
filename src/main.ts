/**
 * Where the program starts: the command line, or the journal's worker.
 *
 * A compiled binary has but one module, so the worker is this module again
 * (see `journal/WorkerEntrypoint.ts`). Everything is imported after that choice is
 * made: neither side loads the other.
 */
import { isMainThread } from "./runtime/Thread.ts"

if (isMainThread) {
  const { start } = await import("./cli/support/start.ts")
  await start(new URL(import.meta.url))
} else {
  const { runWorker } = await import("./journal/Journals.ts")
  await runWorker()
}
