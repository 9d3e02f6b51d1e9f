/**
 * The code that the main module runs in a worker thread. It isn't in `Journals.ts`, so that a worker loads
 * nothing else.
 */
export { runWorker } from "./sqlite/JournalWorker.ts"
