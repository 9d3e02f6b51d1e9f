/** The code that the main module runs in a worker thread. Apart from `Journals.ts`, so that a worker loads nothing else. */
export { runWorker } from "./sqlite/JournalWorker.ts"
