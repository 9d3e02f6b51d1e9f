/**
 * The main module: the command line, or the journal's worker.
 *
 * A compiled binary starts at this module only, so the worker runs it again (see
 * `journal/JournalContext.ts`). Imports come after the choice, so that
 * neither loads the other.
 */
import { isMainThread } from "./runtime/Thread.ts"

if (isMainThread) {
  const { start } = await import("./cli/start.ts")
  await start(new URL(import.meta.url))
} else {
  const { runWorker } = await import("./journal/Worker.ts")
  runWorker()
}
