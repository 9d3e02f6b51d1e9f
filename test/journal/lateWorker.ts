/** A main module whose worker loses messages that arrive before it listens, as under Deno. */
import { isMainThread, parentPort } from "node:worker_threads"
import { runWorker } from "../../src/journal/sqlite/JournalWorker.ts"

if (!isMainThread) {
  const lose = () => {}
  parentPort?.on("message", lose)
  setTimeout(() => {
    parentPort?.off("message", lose)
    runWorker()
  }, 100)
}
