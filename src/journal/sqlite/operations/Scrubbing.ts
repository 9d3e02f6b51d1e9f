/**
 * Overwrites the free space of the journal's file while the relay runs: see
 * `FreeSpace.ts`.
 *
 * A connection that reads from the file alone, because the write-ahead log was
 * empty when it began, keeps SQLite from writing to the file: commits go to the log
 * until it ends. Pages that were committed meanwhile may have the old bytes, from
 * the page cache: they are cleaned again in one step, before the next commit.
 */
import { closeSync, openSync, readSync, statSync } from "node:fs"
import { unavailable } from "../../JournalError.ts"
import type { Engine } from "../commit/Engine.ts"
import { FreeSpace } from "../file/FreeSpace.ts"
import { int } from "../rows/Rows.ts"
import { connect } from "../rows/SqliteConnection.ts"
import { words } from "../rows/SqliteErrors.ts"
import { forgetOutcomes } from "./Retention.ts"

/** Milliseconds of the event loop that a step takes. */
const usualBudget = 5

const walHeader = 32

/** The pages in a write-ahead log. */
const pagesIn = (log: string, frameSize: number): ReadonlySet<number> => {
  const pages = new Set<number>()
  const fd = openSync(log, "r")
  try {
    const number = Buffer.alloc(4)
    for (let at = walHeader; readSync(fd, number, 0, 4, at) === 4; at += frameSize) pages.add(number.readUInt32BE(0))
  } finally {
    closeSync(fd)
  }
  return pages
}

/** Runs work on the file itself. Its errors don't mean that the journal is damaged. */
const onFile = <A>({ store: { path } }: Engine, work: () => A): A => {
  try {
    return work()
  } catch (error) {
    throw unavailable(
      `The events are erased, but the free space of ${path} still has copies: it can't be overwritten (${words(error)}). Repeat the command.`,
    )
  }
}

/**
 * Overwrites it, and empties the write-ahead log. Returns the number of pages that are damaged and stay as they are, or
 * `undefined` if another process or a search read from the log: then it must be repeated.
 */
export const scrub = function* (engine: Engine, budget = usualBudget): Generator<void, number | undefined> {
  const { db, path, descriptor } = engine.store
  const log = `${path}-wal`
  const isEmptied = (): boolean => engine.guard(() => engine.checkpoints.empty())
  // Receivers' answers are in the outcomes of events that no search finds any more.
  forgetOutcomes(engine)
  const reader = connect(path)
  let space: FreeSpace
  try {
    reader.prepare("PRAGMA query_only = ON").run()
    if (!isEmptied()) return undefined
    reader.prepare("BEGIN").run()
    const roots = reader.prepare("SELECT rootpage FROM sqlite_schema WHERE rootpage > 0").all()
    // Another process may have written in between.
    if (statSync(log).size > 0) return undefined
    space = new FreeSpace(descriptor())
    const steps = space.overwrite(roots.map(({ rootpage }) => int(rootpage)))
    for (let isDone = false; !isDone; ) {
      const until = performance.now() + budget
      isDone = onFile(engine, () => {
        do if (steps.next().done === true) return true
        while (performance.now() < until)
        return false
      })
      if (!isDone) yield
    }
  } finally {
    reader.close()
  }
  const again = pagesIn(log, engine.space.frameSize)
  if (!isEmptied()) return undefined
  db.prepare("PRAGMA shrink_memory").run()
  onFile(engine, () => space.overwriteAgain(again))
  return space.damaged
}
