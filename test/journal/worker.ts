/** A main module as far as the checkpointer is concerned: what it does in a worker thread. */
import { isMainThread } from "node:worker_threads"
import { runWorker } from "../../src/journal/sqlite/JournalWorker.ts"

if (!isMainThread) runWorker()
