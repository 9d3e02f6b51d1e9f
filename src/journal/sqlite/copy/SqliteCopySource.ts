/** Reads a SQLite journal for a copy. It holds the relay's lock, so that no relay writes to it meanwhile. */
import { existsSync } from "node:fs"
import { DatabaseSync, type StatementSync } from "node:sqlite"
import { Effect } from "effect"
import { type After, type CopiedStream, type CopySource, soundPages } from "../../JournalCopy.ts"
import { JournalError, MaintenanceError } from "../../JournalError.ts"
import type { Attempt } from "../../Settlement.ts"
import { bucketOf } from "../../stream/OutcomeRecord.ts"
import { decode, decodeRow, decodeStored, type Stored } from "../../stream/Record.ts"
import { JournalLock } from "../file/JournalLock.ts"
import { CursorRows } from "../rows/CursorRows.ts"
import { meta } from "../rows/Meta.ts"
import { migrate } from "../rows/Migrations.ts"
import { endedOf } from "../rows/OutcomeRows.ts"
import { bytes, int, list, text } from "../rows/Rows.ts"
import { words } from "../rows/SqliteErrors.ts"
import type { SqliteConfig } from "../SqliteConfig.ts"

/** Rows that are read at a time. */
const page = 64

const failure = (path: string) => (error: unknown) =>
  error instanceof JournalError || error instanceof MaintenanceError
    ? new MaintenanceError({ message: error.message })
    : new MaintenanceError({ message: `The journal ${path} can't be read (${words(error)}).` })

const open = (path: string): DatabaseSync => {
  const db = new DatabaseSync(path)
  db.prepare("PRAGMA busy_timeout = 5000").get()
  // One of an earlier relay is brought to this one's schema, as its next start would.
  migrate(db, path)
  return db
}

export const source = ({ path }: SqliteConfig) =>
  Effect.gen(function* () {
    if (!existsSync(path)) return yield* new MaintenanceError({ message: `There is no journal at ${path}.` })
    const attempt = <A>(work: () => A) => Effect.try({ try: work, catch: failure(path) })
    const lock = yield* Effect.acquireRelease(
      attempt(() => new JournalLock(path)),
      (lock) => Effect.sync(() => lock.close()),
    )
    yield* attempt(() => lock.holdFile())
    const db = yield* Effect.acquireRelease(
      attempt(() => open(path)),
      (db) => Effect.sync(() => db.close()),
    )
    return yield* attempt(() => read(db, path))
  })

const read = (db: DatabaseSync, path: string): CopySource => {
  const attempt = <A>(work: () => A) => Effect.try({ try: work, catch: failure(path) })
  const { rows: lanes } = new CursorRows(db).find()
  const number = (sql: string): number => int(db.prepare(sql).get()?.n ?? 0)
  const firstOfLog = number("SELECT min(first) AS n FROM log")
  const last = Math.max(number("SELECT max(first + count - 1) AS n FROM log"), int(meta(db, "base") ?? 0))
  const owed = db.prepare("SELECT sequence, record FROM owed WHERE sequence > ? ORDER BY sequence LIMIT ?")
  const log = db.prepare(
    "SELECT first, count, bytes FROM log WHERE first >= coalesce((SELECT max(first) FROM log WHERE first <= ?1), ?1) ORDER BY first LIMIT ?2",
  )
  const retries = db.prepare(
    `SELECT lane, sequence, key, due, delay, first_attempt_at, tried, attempts, record
     FROM retry JOIN retry_record USING (lane, sequence) WHERE (lane, sequence) > (?, ?) ORDER BY lane, sequence LIMIT ?`,
  )
  const letters = db.prepare(
    "SELECT lane, sequence, at, attempts, record FROM dead WHERE (lane, sequence) > (?, ?) ORDER BY lane, sequence LIMIT ?",
  )
  const imports = db.prepare(
    "SELECT journal, sequence, lanes FROM imported WHERE (journal, sequence) > (?, ?) ORDER BY journal, sequence LIMIT ?",
  )
  const outcomes = db.prepare("SELECT bucket, lane, bytes FROM outcome WHERE bucket BETWEEN ? AND ?")
  const ends = db.prepare("SELECT * FROM ended WHERE id > ? ORDER BY id LIMIT ?")
  let damaged = 0
  const sound = <A>(found: A | undefined): ReadonlyArray<A> => {
    if (found === undefined) damaged += 1
    return found === undefined ? [] : [found]
  }
  const events = (after: number): ReadonlyArray<Stored> => {
    // Events that the log was pruned of while a lane waited for them lie below the log.
    const pruned = owed
      .all(after, page)
      .filter(({ sequence }) => firstOfLog === 0 || int(sequence) < firstOfLog)
      .flatMap(({ sequence, record }) => sound(decodeStored(bytes(record), int(sequence))))
    if (pruned.length > 0) return pruned
    for (let from = after; ; ) {
      const rows = log.all(from + 1, page)
      const stored = rows.flatMap((row) => {
        const decoded = decodeRow(bytes(row.bytes), int(row.first), int(row.count))
        damaged += decoded.damaged.filter((sequence) => sequence > from).length
        return decoded.stored.filter(({ entry }) => entry.sequence > after)
      })
      const end = rows.at(-1)
      if (end === undefined || stored.length > 0) return stored
      // Nothing of these can be read: the next ones may.
      const next = int(end.first) + int(end.count) - 1
      if (next <= from) return []
      from = next
    }
  }
  /** Rows of a lane's own, in pages. */
  const paged = (statement: StatementSync) => (after: After) =>
    attempt(() =>
      statement
        .all(after.lane, after.sequence, page)
        .map((row) => ({ lane: text(row.lane), sequence: int(row.sequence), row })),
    )
  const stream: CopiedStream = {
    name: meta(db, "identity") ?? path,
    last,
    lanes: lanes.map(({ name, cursor, pausedFor }) => ({ name, cursor, pausedFor })),
    events: (after) => attempt(() => events(after)),
    retries: soundPages(paged(retries), ({ lane, sequence, row }) =>
      sound(decode(bytes(row.record), sequence)).map((entry) => ({
        lane,
        sequence,
        key: text(row.key),
        due: int(row.due),
        delay: int(row.delay),
        firstAttemptAt: int(row.first_attempt_at),
        tried: int(row.tried),
        attempts: list<Attempt>(row.attempts),
        entry,
      })),
    ),
    letters: soundPages(paged(letters), ({ lane, sequence, row }) =>
      sound(decode(bytes(row.record), sequence)).map((entry) => ({
        lane,
        at: int(row.at),
        attempts: list<Attempt>(row.attempts),
        entry,
      })),
    ),
    outcomes: (from, to) =>
      attempt(() =>
        outcomes
          .all(bucketOf(from), bucketOf(to))
          .map(({ bucket, lane, bytes: record }) => ({ bucket: int(bucket), lane: text(lane), bytes: bytes(record) })),
      ),
    ends: (after) =>
      attempt(() =>
        ends.all(after, page).map((row) => {
          const { copy, ...end } = endedOf(row)
          return { ...end, id: int(row.id), ...(copy !== undefined && { copy: { stream: 0, sequence: copy } }) }
        }),
      ),
  }
  return {
    streams: [stream],
    paused: lanes.flatMap(({ name, paused }) => (paused ? [name] : [])),
    imported: ({ journal, sequence }) =>
      attempt(() =>
        imports.all(journal, sequence, page).map((row) => ({
          journal: text(row.journal),
          sequence: int(row.sequence),
          lanes: list<string>(row.lanes),
        })),
      ),
    damaged: () => damaged,
  }
}
