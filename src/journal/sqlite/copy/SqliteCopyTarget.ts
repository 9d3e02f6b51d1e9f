/**
 * Stores a copy in a new file.
 *
 * **Guarantee.** The journal has its name only once all of it is stored.
 */
import { randomBytes } from "node:crypto"
import { chmodSync, existsSync, renameSync, rmSync } from "node:fs"
import type { DatabaseSync } from "node:sqlite"
import { Effect } from "effect"
import { orUndefined } from "../../../event/Tolerance.ts"
import { type CopiedRows, type CopySource, type CopyTarget, markOf, type Put } from "../../JournalCopy.ts"
import { MaintenanceError } from "../../JournalError.ts"
import { CommitBatch } from "../../stream/CommitBatch.ts"
import { keyOf } from "../../stream/DuplicateKey.ts"
import { JournalLock } from "../file/JournalLock.ts"
import { AuditRows } from "../rows/AuditRows.ts"
import { CursorRows } from "../rows/CursorRows.ts"
import { DeadLetters } from "../rows/DeadLetters.ts"
import { LogRows } from "../rows/LogRows.ts"
import { migrate } from "../rows/Migrations.ts"
import { OutcomeRows } from "../rows/OutcomeRows.ts"
import { Retries } from "../rows/Retries.ts"
import { int, meta, setMeta } from "../rows/Rows.ts"
import { connect } from "../rows/SqliteConnection.ts"
import { lockOf, type SqliteConfig } from "../SqliteConfig.ts"
import { attemptOn } from "./SqliteCopySource.ts"

/** The mark of the source of an unfinished copy. */
const markKey = "copy"

const begin = (path: string, mark: string): DatabaseSync => {
  // A journal of SQLite's that outlives its file would be played back into the next one.
  for (const suffix of ["", "-journal"]) rmSync(`${path}${suffix}`, { force: true })
  const db = connect(path)
  chmodSync(path, 0o600)
  db.prepare("PRAGMA page_size = 32768").run()
  migrate(db, path)
  setMeta(db, "identity", randomBytes(16).toString("hex"))
  setMeta(db, markKey, mark)
  return db
}

/** Continues the copy at this path if it has this mark, or begins one. */
const open = (path: string, mark: string): DatabaseSync => {
  if (!existsSync(path)) return begin(path, mark)
  const db = connect(path)
  const found = orUndefined(() => {
    migrate(db, path)
    return meta(db, markKey)
  })
  if (found === mark) return db
  db.close()
  return begin(path, mark)
}

/** Returns a function that stores rows, within a transaction. */
const storing = (db: DatabaseSync) => {
  const batch = new CommitBatch()
  const log = new LogRows(db, () => {})
  const outcomes = new OutcomeRows(db)
  const retryRows = new Retries(db)
  const letterRows = new DeadLetters(db, () => {})
  const imports = db.prepare("INSERT OR IGNORE INTO imported (journal, sequence, lanes) VALUES (?, ?, ?)")
  const records = new AuditRows(db)
  const cursors = new CursorRows(db)
  return (rows: Partial<CopiedRows>): void => {
    const {
      events = [],
      delivered = [],
      retries = [],
      letters = [],
      ended = [],
      imported = [],
      audit = [],
      lanes = [],
    } = rows
    for (const { entry, origin } of events) {
      const { sequence, event, sinks } = entry
      if (batch.isEmpty) batch.clear(sequence)
      batch.add(event, sinks, origin, keyOf(event))
      if (!batch.isFull && entry !== events.at(-1)?.entry) continue
      log.insert(batch)
      batch.clear(0)
    }
    for (const { lane, delivered: ranges } of delivered) outcomes.delivered(lane, ranges)
    for (const retry of retries) retryRows.put(retry)
    for (const letter of letters) letterRows.put(letter)
    for (const end of ended) outcomes.ended(end)
    for (const { journal, sequence, lanes } of imported) imports.run(journal, sequence, JSON.stringify(lanes))
    for (const record of audit) records.add(record, record.relay)
    for (const { name, cursor, pausedFor, paused, mute } of lanes) {
      cursors.insert([name], cursor.sequence)
      cursors.move(name, cursor, pausedFor)
      cursors.setPaused(name, paused, mute)
    }
  }
}

const requireAbsent = (path: string): void => {
  if (!existsSync(path)) return
  throw new MaintenanceError({ message: `There is a journal at ${path}: a copy is written into a new file.` })
}

/** Returns a new journal at the config's path as the target of a copy. Fails if there is one already. */
export const target = Effect.fnUntraced(function* ({ path }: SqliteConfig, source: CopySource) {
  const write = attemptOn(path, "written")
  const unfinished = `${path}.copying`
  yield* write(() => requireAbsent(path))
  // Two copies at a time would take turns in one file.
  yield* Effect.acquireRelease(
    write(() => new JournalLock(unfinished)),
    (lock) =>
      Effect.sync(() => {
        lock.close()
        rmSync(lockOf(unfinished), { force: true })
      }),
  )
  const db = yield* Effect.acquireRelease(
    write(() => open(unfinished, markOf(source))),
    (db) =>
      Effect.sync(() => {
        if (db.isOpen) db.close()
      }),
  )
  const known = yield* write(() => int(db.prepare("SELECT coalesce(sum(count), 0) AS known FROM log").get()?.known))
  const store = yield* write(() => storing(db))
  const put: Put = (rows) => write(() => store(rows))
  const run = (sql: string) => write(() => void db.prepare(sql).run())
  // If `work` fails, the copy ends, and its rows go with the connection.
  const commit: CopyTarget["commit"] = (work) => Effect.andThen(run("BEGIN"), work(put)).pipe(Effect.tap(run("COMMIT")))
  return {
    first: 1,
    known,
    isComplete: false,
    commit,
    complete: (work) =>
      commit((put) => Effect.tap(work(put), run(`DELETE FROM meta WHERE key = '${markKey}'`))).pipe(
        Effect.tap(
          write(() => {
            db.close()
            // A relay may have created one meanwhile.
            requireAbsent(path)
            renameSync(unfinished, path)
          }),
        ),
      ),
  } satisfies CopyTarget
})
