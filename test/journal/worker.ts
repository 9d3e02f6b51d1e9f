/** A main module as the journal's worker needs it. */
import { isMainThread } from "node:worker_threads"
import { runWorker } from "../../src/journal/sqlite/JournalWorker.ts"

if (!isMainThread) runWorker()
