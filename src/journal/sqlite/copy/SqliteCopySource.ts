/**
 * Reads a SQLite journal. A copy holds the relay's lock, so that no relay writes to it meanwhile. A check only reads,
 * and works while a relay runs on it.
 */
import { existsSync } from "node:fs"
import type { DatabaseSync } from "node:sqlite"
import { Effect } from "effect"
import type { Entry } from "../../../event/Event.ts"
import type { Attempt } from "../../DeliveryStatus.ts"
import { type After, type CopiedStream, type CopySource, soundPages } from "../../JournalCopy.ts"
import { JournalError, MaintenanceError } from "../../JournalError.ts"
import { bucketOf } from "../../stream/OutcomeRecord.ts"
import { decode, decodeRow, decodeStored, type Stored } from "../../stream/Record.ts"
import { JournalLock } from "../file/JournalLock.ts"
import { requireReadable } from "../maintenance/Maintenance.ts"
import { auditOf } from "../rows/AuditRows.ts"
import { CursorRows } from "../rows/CursorRows.ts"
import { current, migrate, refusal, version } from "../rows/Migrations.ts"
import { NamedLanes } from "../rows/NamedLanes.ts"
import { endedOf } from "../rows/OutcomeRows.ts"
import { waitOf } from "../rows/Retries.ts"
import { bytes, erasuresOf, int, list, meta, type Row, text } from "../rows/Rows.ts"
import { connect, words } from "../rows/SqliteConnection.ts"
import type { SqliteConfig } from "../SqliteConfig.ts"

/** Rows that are read at a time. */
const page = 64

/** Runs work on the file at a path. If the work throws, the message says that the journal can't be read or written. */
export const attemptOn =
  (path: string, verb: "read" | "written") =>
  <A>(work: () => A): Effect.Effect<A, MaintenanceError> =>
    Effect.try({
      try: work,
      catch: (error) =>
        error instanceof JournalError || error instanceof MaintenanceError
          ? new MaintenanceError({ message: error.message })
          : new MaintenanceError({ message: `The journal ${path} can't be ${verb} (${words(error)}).` }),
    })

const open = (path: string): DatabaseSync => {
  const db = connect(path)
  db.prepare("PRAGMA busy_timeout = 5000").get()
  // A file of an earlier relay gets the current schema, as at the next start.
  migrate(db, path)
  return db
}

/** Opens a journal of this relay's schema without changing it. */
const openToCheck = (path: string): DatabaseSync => {
  const db = connect(path, { readOnly: true })
  db.prepare("PRAGMA busy_timeout = 5000").get()
  if (version(db) === current) return db
  const older = `The journal ${path} is of another version than this relay: start this relay on it once`
  const message = version(db) > current ? refusal(db, path) : older
  db.close()
  throw new MaintenanceError({ message: `${message}.` })
}

/** The journal in a file as a source. A copy fails if a relay runs on it. */
export const source = ({ path }: SqliteConfig, use: "copy" | "check" = "copy") =>
  Effect.gen(function* () {
    if (use === "check") yield* requireReadable(path)
    if (!existsSync(path)) return yield* new MaintenanceError({ message: `There is no journal at ${path}.` })
    const attempt = attemptOn(path, "read")
    if (use === "copy") {
      const lock = yield* Effect.acquireRelease(
        attempt(() => new JournalLock(path)),
        (lock) => Effect.sync(() => lock.close()),
      )
      yield* attempt(() => lock.holdFile())
    }
    const db = yield* Effect.acquireRelease(
      attempt(() => (use === "copy" ? open(path) : openToCheck(path))),
      (db) => Effect.sync(() => db.close()),
    )
    return yield* attempt(() => sourceOf(new Reader(db, path)))
  })

class Reader {
  readonly db: DatabaseSync
  readonly path: string
  readonly names: NamedLanes
  readonly attempt
  /** Records that could not be read. */
  damaged = 0
  readonly #firstOfLog: number
  readonly #owed
  readonly #log

  constructor(db: DatabaseSync, path: string) {
    this.db = db
    this.path = path
    this.names = new NamedLanes(db)
    this.attempt = attemptOn(path, "read")
    this.#firstOfLog = this.number("SELECT min(first) AS n FROM log")
    this.#owed = db.prepare("SELECT sequence, record FROM owed WHERE sequence > ? ORDER BY sequence LIMIT ?")
    this.#log = db.prepare(
      "SELECT first, count, bytes FROM log WHERE first >= coalesce((SELECT max(first) FROM log WHERE first <= ?1), ?1) ORDER BY first LIMIT ?2",
    )
  }

  number(sql: string): number {
    return int(this.db.prepare(sql).get()?.n ?? 0)
  }

  sound<A>(found: A | undefined): ReadonlyArray<A> {
    if (found !== undefined) return [found]
    this.damaged += 1
    return []
  }

  /** Events with the names of their lanes. */
  events(after: number): ReadonlyArray<Stored> {
    return this.#stored(after).map(({ entry, origin }) => ({ entry: this.names.entryOf(entry), origin }))
  }

  #stored(after: number): ReadonlyArray<Stored> {
    // Pending events that are no longer in the log have lower sequences than the log.
    const pruned = this.#owed
      .all(after, page)
      .filter(({ sequence }) => this.#firstOfLog === 0 || int(sequence) < this.#firstOfLog)
      .flatMap(({ sequence, record }) => this.sound(decodeStored(bytes(record), int(sequence))))
    if (pruned.length > 0) return pruned
    for (let from = after; ; ) {
      const rows = this.#log.all(from + 1, page)
      const stored = rows.flatMap((row) => {
        const decoded = decodeRow(bytes(row.bytes), int(row.first), int(row.count))
        this.damaged += decoded.damaged.filter((sequence) => sequence > from).length
        return decoded.stored.filter(({ entry }) => entry.sequence > after)
      })
      const end = rows.at(-1)
      if (end === undefined || stored.length > 0) return stored
      // No event of these rows can be read. Later rows may be readable.
      const next = int(end.first) + int(end.count) - 1
      if (next <= from) return []
      from = next
    }
  }

  /** Pages of a table of lanes' own, by lane and sequence, with the names of the lanes and their entries. */
  kept<A>(
    sql: string,
    decoded: (lane: string, row: Row, entry: Entry) => A,
  ): (after: After) => Effect.Effect<ReadonlyArray<A>, MaintenanceError> {
    const statement = this.db.prepare(`${sql} WHERE (lane, sequence) > (?, ?) ORDER BY lane, sequence LIMIT ?`)
    const read = ({ lane, sequence }: After) =>
      this.attempt(() =>
        statement
          .all(this.names.idOf(lane), sequence, page)
          .map((row) => ({ lane: this.names.nameOf(text(row.lane)), sequence: int(row.sequence), row })),
      )
    return soundPages(read, ({ lane, sequence, row }) =>
      this.sound(decode(bytes(row.record), sequence)).map((entry) => decoded(lane, row, this.names.entryOf(entry))),
    )
  }
}

const sourceOf = (reader: Reader): CopySource => {
  const { db, path, attempt, names } = reader
  const { rows: lanes } = new CursorRows(db).find()
  const imports = db.prepare(
    "SELECT journal, sequence, lanes FROM imported WHERE (journal, sequence) > (?, ?) ORDER BY journal, sequence LIMIT ?",
  )
  const outcomes = db.prepare("SELECT bucket, lane, bytes FROM outcome WHERE bucket BETWEEN ? AND ?")
  const ends = db.prepare("SELECT * FROM ended WHERE id > ? ORDER BY id LIMIT ?")
  const audit = db.prepare("SELECT * FROM audit WHERE id > ? ORDER BY id LIMIT ?")
  const stream: CopiedStream = {
    last: Math.max(reader.number("SELECT max(first + count - 1) AS n FROM log"), int(meta(db, "base") ?? 0)),
    rows: reader.number("SELECT (SELECT count(*) FROM log) + (SELECT count(*) FROM owed) AS n"),
    lanes: lanes.map(({ name, cursor, pausedFor }) => ({ name: names.nameOf(name), cursor, pausedFor })),
    events: (after) => attempt(() => reader.events(after)),
    retries: reader.kept("SELECT * FROM retry JOIN retry_record USING (lane, sequence)", (lane, row, entry) => ({
      lane,
      ...waitOf(row),
      attempts: list<Attempt>(row.attempts),
      entry,
    })),
    letters: reader.kept("SELECT * FROM dead", (lane, row, entry) => ({
      lane,
      at: int(row.at),
      attempts: list<Attempt>(row.attempts),
      entry,
    })),
    outcomes: (from, to) =>
      attempt(() =>
        outcomes.all(bucketOf(from), bucketOf(to)).map(({ bucket, lane, bytes: record }) => ({
          bucket: int(bucket),
          lane: names.nameOf(text(lane)),
          bytes: bytes(record),
        })),
      ),
    ends: (after) =>
      attempt(() =>
        ends.all(after, page).map((row) => {
          const { copy, lane, note, ...end } = endedOf(row)
          const to = note.to === undefined ? {} : { to: names.nameOf(note.to) }
          return {
            ...end,
            lane: names.nameOf(lane),
            note: { ...note, ...to },
            id: int(row.id),
            ...(copy !== undefined && { copy: { stream: 0, sequence: copy } }),
          }
        }),
      ),
  }
  return {
    identity: meta(db, "identity") ?? path,
    streams: [stream],
    erasures: erasuresOf(db),
    paused: new Map(
      lanes.map(({ name, paused, mute }) => [names.nameOf(name), { paused, ...(mute !== undefined && { mute }) }]),
    ),
    imported: ({ journal, sequence }) =>
      attempt(() =>
        imports.all(journal, sequence, page).map((row) => ({
          journal: text(row.journal),
          sequence: int(row.sequence),
          lanes: names.namesOf(list<string>(row.lanes)),
        })),
      ),
    audit: (after) => attempt(() => audit.all(after, page).map(auditOf)),
    damaged: () => reader.damaged,
  }
}
