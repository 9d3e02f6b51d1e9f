/**
 * The journal's worker thread does the slow work: it checkpoints the write-ahead log, indexes the log, and
 * searches it.
 *
 * SQLite syncs the file only in a checkpoint that reaches the end of the log. Under constant load few
 * checkpoints do, and such a checkpoint pays for all earlier ones: for 30 ms no request is answered. So a
 * second connection makes small checkpoints and syncs the file itself after each.
 *
 * **Gotcha.** The worker's descriptor is never closed, because that would drop the process's locks on the file.
 * Only the main connection can reach the end of the log, between two commits: see `Checkpoints.ts`.
 */
import { fdatasyncSync, openSync } from "node:fs"
import type { DatabaseSync } from "node:sqlite"
import { parentPort, Worker, workerData } from "node:worker_threads"
import { orUndefined } from "../../event/Tolerance.ts"
import type { EventPage, EventQuery } from "../EventQuery.ts"
import { SearchIds } from "../stream/SearchIds.ts"
import { connect, errorCode, isCorrupt, isFinal, words } from "./rows/SqliteConnection.ts"
import { Index } from "./search/Index.ts"
import type { Search } from "./search/Search.ts"

/** Milliseconds between checkpoints: while much is written, and while little is. */
const interval = { busy: 100, calm: 400 }
/** With fewer frames in the log, little is being written: the log can't get long before the next checkpoint. */
const fewFrames = 64
/** The worker rests after this many checkpoints that found nothing. */
const idlePasses = 3

/** The journal that a worker is started on. */
interface WorkerData {
  readonly path: string
  /** JSON Pointers to the ids of objects. */
  readonly searchIds: ReadonlyArray<string>
}

/** Milliseconds that a search runs before a checkpoint may; then it continues. */
const searchSlice = 20

type ToWorker =
  | { readonly number: number; readonly query: EventQuery }
  /** Something was written, so checkpoints continue. */
  | "written"
  | "stop"

interface Failed {
  readonly failed: string
  readonly code: number
}

type FromWorker =
  /** The worker listens. Under Deno, a message that was sent before is lost. */
  | "listening"
  /** The worker makes no checkpoints until it hears of a write. */
  | "resting"
  /** Number of frames in the log after a checkpoint. */
  | { readonly frames: number }
  | Failed
  /** The result of a search. */
  | { readonly number: number; readonly answer: EventPage | Failed }
  | "stopped"

const failedBy = (error: unknown): Failed => ({
  failed: words(error),
  code: errorCode(error),
})

/** SQLite's code of a failed fsync. Data written before it can't be trusted. */
const failedSync = 1034

const sync = (fd: number): void => {
  try {
    fdatasyncSync(fd)
  } catch (error) {
    throw Object.assign(error instanceof Error ? error : new Error(String(error)), { errcode: failedSync })
  }
}

/** Opens the file twice: for SQLite, and to sync it. */
const open = (path: string): { readonly db: DatabaseSync; readonly fd: number } => {
  const db = connect(path)
  try {
    db.prepare("PRAGMA busy_timeout = 1000").get()
    db.prepare("PRAGMA wal_autocheckpoint = 0").get()
    db.prepare("PRAGMA synchronous = FULL").run()
    return { db, fd: openSync(path, "r+") }
  } catch (error) {
    db.close()
    throw error
  }
}

/** Milliseconds until the file is opened again: descriptors may be used up for a while. */
const reopenAfter = 1_000

/** The worker's side. The main module calls it in a worker thread. */
export const runWorker = (): void => {
  let stop = (): void => {}
  let written = (): void => {}
  let look = async (_: EventQuery): Promise<EventPage> => ({ events: [], looked: 0, lookedTo: 0 })
  const report = (message: FromWorker): void => parentPort?.postMessage(message)
  const serve = ({ path, searchIds: pointers }: WorkerData): void => {
    const { db, fd } = open(path)
    const passive = db.prepare("PRAGMA wal_checkpoint(PASSIVE)")
    let synced = ""
    let idle = 0
    let isCalm = false
    const pass = (): void => {
      try {
        const row = passive.get()
        const state = `${row?.log} ${row?.checkpointed}`
        idle = state === synced && row?.log === row?.checkpointed ? idle + 1 : 0
        isCalm = idle > 0 || Number(row?.log ?? 0) < fewFrames
        if (state === synced) return
        sync(fd)
        synced = state
        report({ frames: Number(row?.log ?? 0) })
      } catch (error) {
        idle = 0
        // A full disk or a lack of descriptors is temporary: the checkpoints continue after it.
        if (isFinal(error)) end()
        report(failedBy(error))
      }
    }
    const searchIds = new SearchIds(pointers)
    // If there can't be an index, searches only take longer.
    const index = orUndefined(() => new Index(db, path, searchIds))
    let search: Search | undefined
    look = async (query) => {
      // Most workers never search, so the code for it is loaded with the first query.
      const { Search } = await import("./search/Search.ts")
      search ??= new Search(db, searchIds, index)
      return search.look(query, searchSlice)
    }
    // The index grows between two checkpoints. After a checkpoint the writer may try to reach the end of the
    // log, and it can't while the index reads the log.
    let isPassNext = true
    let timer: ReturnType<typeof setTimeout> | undefined
    let hasEnded = false
    const turn = (): void => {
      if (isPassNext) pass()
      else if (index?.grow() === true) idle = 0
      isPassNext = !isPassNext
      timer = undefined
      if (idle >= idlePasses) report("resting")
      else if (!hasEnded) timer = setTimeout(turn, (isCalm ? interval.calm : interval.busy) / 2)
    }
    written = () => {
      idle = 0
      if (!hasEnded) timer ??= setTimeout(turn, interval.busy / 2)
    }
    const end = (): void => {
      hasEnded = true
      clearTimeout(timer)
    }
    written()
    stop = () => {
      end()
      index?.close()
      db.close()
    }
  }
  const answer = async ({ number, query }: Exclude<ToWorker, string>) =>
    report({ number, answer: await look(query).catch(failedBy) })
  parentPort?.on("message", (message: ToWorker) => {
    if (message === "written") return written()
    if (message !== "stop") return answer(message)
    stop()
    report("stopped")
  })
  const begin = (): void => {
    try {
      serve(workerData)
    } catch (error) {
      if (isCorrupt(error)) throw error
      report(failedBy(error))
      look = () => Promise.reject(error)
      const timer = setTimeout(begin, reopenAfter)
      stop = () => clearTimeout(timer)
    }
  }
  begin()
  report("listening")
}

/** A started worker. */
export interface JournalWorker {
  /** Searches for a moment. Rejects with SQLite's error. Returns `undefined` if the worker has ended. */
  readonly search: (query: EventQuery) => Promise<EventPage | undefined>
  /** Call it after something was written. */
  readonly written: () => void
  readonly stop: () => Promise<void>
}

/** Starts the worker on a journal. */
export const start = (
  entry: URL,
  journal: WorkerData,
  on: {
    readonly checkpoint: (frames: number) => void
    /** Called when it makes no checkpoints until it hears of a write. */
    readonly rests?: () => void
    /** Called when the worker can't continue. `code` is an SQLite result code, or 0 for another error. */
    readonly failure: (message: string, code: number) => void
  },
): JournalWorker => {
  // The worker of `node:worker_threads`. In a global `Worker`, Deno says that the code runs in the main thread.
  const worker = new Worker(entry, { workerData: journal })
  const end = Promise.withResolvers<void>()
  let hasEnded = false
  /** Messages to send as soon as the worker listens. */
  let waiting: Array<ToWorker> | undefined = []
  const send = (message: ToWorker): void => {
    if (waiting === undefined) worker.postMessage(message)
    else waiting.push(message)
  }
  let isResting = false
  /** True if something was written that the worker may not have seen when it began to rest. */
  let hasNews = false
  const written = (): void => {
    if (isResting) send("written")
    hasNews = !isResting
    isResting = false
  }
  const rests = (): void => {
    isResting = true
    on.rests?.()
    if (hasNews) written()
  }
  const listening = (): void => {
    for (const message of waiting ?? []) worker.postMessage(message)
    waiting = undefined
  }
  let searches = 0
  const searching = new Map<number, PromiseWithResolvers<EventPage | undefined>>()
  const ended = (): void => {
    hasEnded = true
    for (const { resolve } of searching.values()) resolve(undefined)
    searching.clear()
    end.resolve()
  }
  const answered = (number: number, answer: EventPage | Failed): void => {
    const search = searching.get(number)
    searching.delete(number)
    if ("failed" in answer) search?.reject(Object.assign(new Error(answer.failed), { errcode: answer.code }))
    else search?.resolve(answer)
  }
  worker.on("message", (message: FromWorker) => {
    if (message === "listening") listening()
    else if (message === "resting") rests()
    else if (message === "stopped") ended()
    else if ("frames" in message) on.checkpoint(message.frames)
    else if ("answer" in message) answered(message.number, message.answer)
    else on.failure(message.failed, message.code)
  })
  worker.on("error", (error) => {
    on.failure(words(error), 0)
    ended()
  })
  worker.on("exit", ended)
  return {
    written,
    search: (query) => {
      if (hasEnded) return Promise.resolve(undefined)
      const search = Promise.withResolvers<EventPage | undefined>()
      searching.set(++searches, search)
      send({ number: searches, query })
      return search.promise
    },
    stop: async () => {
      send("stop")
      const deadline = Promise.withResolvers<void>()
      const timer = setTimeout(deadline.resolve, 1000)
      await Promise.race([end.promise, deadline.promise])
      clearTimeout(timer)
      await worker.terminate()
    },
  }
}
