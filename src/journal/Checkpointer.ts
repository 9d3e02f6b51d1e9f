/**
 * Moves the write-ahead log into the journal's file, off the event loop.
 *
 * **Why so.** SQLite syncs the file only in the pass that reaches the end of
 * the log. Under constant load passes seldom do, and the one that does pays for
 * all before it: 30 ms in which nobody is answered. So a second connection in a
 * worker makes small passes and syncs the file itself after each.
 *
 * **Traps.** The worker's descriptor is never closed: that would drop the
 * process's locks on the file. And only the main connection can bring the log
 * to an end, between two commits: it does when the worker reports it too long.
 */
import { fdatasyncSync, openSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { parentPort, Worker, workerData } from "node:worker_threads"
import { Context } from "effect"
import { errorCode, isFull } from "./Sqlite.ts"

/**
 * Where the worker starts: the URL of the program's main module, which calls
 * {@link runWorker} when it is not the main thread. It can't be this file's own:
 * a compiled binary has but one module. Without it (tests) the journal
 * checkpoints on its own connection.
 */
export const Entry = Context.Reference<URL | undefined>("relay/journal/Checkpointer/Entry", {
  defaultValue: () => undefined,
})

/** Above this many bytes of log the main connection finishes the pass itself: 2 to 3 ms. */
export const logLimit = 16 * 1024 * 1024

const interval = 100

/** Given to the worker with its start: a message sent before it listens is lost under Deno. */
interface WorkerData {
  readonly path: string
}

type FromWorker =
  /** Frames in the log after a pass. */
  { readonly frames: number } | { readonly failed: string; readonly code: number } | "stopped"

/** SQLite's number for a failed fsync: whoever made it, what was written before can't be trusted any more. */
const failedSync = 1034

const sync = (fd: number): void => {
  try {
    fdatasyncSync(fd)
  } catch (error) {
    throw Object.assign(error instanceof Error ? error : new Error(String(error)), { errcode: failedSync })
  }
}

/** The worker's side; called by the main module in a worker thread. */
export const runWorker = (): void => {
  let stop = (): void => {}
  const report = (message: FromWorker): void => parentPort?.postMessage(message)
  const serve = (path: string): void => {
    const db = new DatabaseSync(path)
    db.prepare("PRAGMA busy_timeout = 1000").get()
    db.prepare("PRAGMA wal_autocheckpoint = 0").get()
    db.prepare("PRAGMA synchronous = FULL").run()
    const passive = db.prepare("PRAGMA wal_checkpoint(PASSIVE)")
    const fd = openSync(path, "r+")
    let synced = ""
    const pass = (): void => {
      try {
        const row = passive.get()
        const state = `${row?.log} ${row?.checkpointed}`
        if (state === synced) return
        sync(fd)
        synced = state
        report({ frames: Number(row?.log ?? 0) })
      } catch (error) {
        // A disk may be full for a while: without passes the log would go on growing when it no longer is.
        if (!isFull(error)) clearInterval(timer)
        report({ failed: error instanceof Error ? error.message : String(error), code: errorCode(error) })
      }
    }
    const timer = setInterval(pass, interval)
    stop = () => {
      clearInterval(timer)
      db.close()
    }
  }
  parentPort?.on("message", () => {
    stop()
    report("stopped")
  })
  const { path }: WorkerData = workerData
  serve(path)
}

export interface Checkpointer {
  readonly stop: () => Promise<void>
}

/** Starts the worker on the journal at `path`. */
export const start = (
  entry: URL,
  path: string,
  on: {
    readonly pass: (frames: number) => void
    /** The worker can't go on: an SQLite result code, 0 when it was something else. */
    readonly failure: (message: string, code: number) => void
  },
): Checkpointer => {
  // Not the global Worker: in one of those Deno says that it is the main thread.
  const worker = new Worker(entry, { workerData: { path } satisfies WorkerData })
  const gone = Promise.withResolvers<void>()
  worker.on("message", (message: FromWorker) => {
    if (message === "stopped") gone.resolve()
    else if ("frames" in message) on.pass(message.frames)
    else on.failure(message.failed, message.code)
  })
  worker.on("error", (error) => on.failure(error instanceof Error ? error.message : String(error), 0))
  worker.on("exit", () => gone.resolve())
  return {
    stop: async () => {
      worker.postMessage("stop")
      const deadline = Promise.withResolvers<void>()
      const timer = setTimeout(deadline.resolve, 1000)
      await Promise.race([gone.promise, deadline.promise])
      clearTimeout(timer)
      await worker.terminate()
    },
  }
}
