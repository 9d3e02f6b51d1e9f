/**
 * The journal's schema, as the list of steps that create it.
 *
 * The version is `PRAGMA user_version`, and `writer` in `meta` is the relay that brought the file to that
 * version. A released step is never edited: a change is a new step. An older relay refuses a newer file.
 */
import type { DatabaseSync } from "node:sqlite"
import { orUndefined } from "../../../event/Tolerance.ts"
import { relayVersion } from "../../../runtime/Version.ts"
import { broken, newerJournal } from "../../JournalError.ts"
import { meta, setMeta } from "./Rows.ts"
import { transactions } from "./SqliteConnection.ts"

const steps: ReadonlyArray<ReadonlyArray<string>> = [
  [
    `CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID`,
    // One row per group commit. "routes" lists the distinct sets of sinks. "keys" holds 16 bytes an event: both
    // hashes of the duplicate key, the body's checksum, and its index in "routes". The start reads only these,
    // a fiftieth of the log; the events are in "bytes".
    `CREATE TABLE log (
      first INTEGER PRIMARY KEY, count INTEGER NOT NULL,
      received_from INTEGER NOT NULL, received_to INTEGER NOT NULL,
      routes TEXT NOT NULL, keys BLOB NOT NULL, bytes BLOB NOT NULL) STRICT`,
    // Sequences of known losses, so that each loss is reported once.
    `CREATE TABLE hole (first INTEGER PRIMARY KEY, last INTEGER NOT NULL) STRICT`,
    // "crc" is a checksum of name, cursor and settled ranges. "paused_for" is the total milliseconds of the
    // lane's pauses, which don't age its events. "paused" is 1, or the end of the pause in epoch milliseconds.
    `CREATE TABLE lane (
      name TEXT PRIMARY KEY, cursor INTEGER NOT NULL, settled TEXT NOT NULL, paused INTEGER NOT NULL,
      crc INTEGER NOT NULL, paused_for INTEGER NOT NULL DEFAULT 0
    ) STRICT, WITHOUT ROWID`,
    // An event's due time changes often, and its bytes never do, so the bytes are in a table of their own.
    `CREATE TABLE retry (
      lane TEXT NOT NULL, sequence INTEGER NOT NULL, key TEXT NOT NULL, due INTEGER NOT NULL, delay INTEGER NOT NULL,
      first_attempt_at INTEGER NOT NULL, tried INTEGER NOT NULL, attempts TEXT NOT NULL,
      PRIMARY KEY (lane, sequence)) STRICT, WITHOUT ROWID`,
    // "duplicate_key" is used if the record is damaged. It is the event's key among the duplicates, 12 bytes; a
    // replay has none.
    `CREATE TABLE retry_record (
      lane TEXT NOT NULL, sequence INTEGER NOT NULL, record BLOB NOT NULL, duplicate_key BLOB,
      PRIMARY KEY (lane, sequence)) STRICT`,
    // A search queries the retries of all lanes by their events.
    `CREATE INDEX retry_event ON retry_record (sequence, lane)`,
    `CREATE TABLE dead (
      lane TEXT NOT NULL, sequence INTEGER NOT NULL, at INTEGER NOT NULL, type TEXT NOT NULL, size INTEGER NOT NULL,
      attempts TEXT NOT NULL, record BLOB NOT NULL, duplicate_key BLOB, webhook TEXT NOT NULL,
      PRIMARY KEY (lane, sequence)) STRICT`,
    `CREATE INDEX dead_newest ON dead (sequence, lane)`,
    // The share of each webhook in the quarantine is counted at the start, without reading the records.
    `CREATE INDEX dead_size ON dead (lane, webhook, size)`,
    // Pending events that are no longer in the log. "sinks" is the router's answer, which the record holds too.
    `CREATE TABLE owed (
      sequence INTEGER PRIMARY KEY, sinks TEXT NOT NULL, record BLOB NOT NULL, duplicate_key BLOB) STRICT`,
    `CREATE INDEX owed_sinks ON owed (sequence, sinks)`,
    // How events ended at their lanes: see "OutcomeRecord.ts". "bucket" is the sequence by 128.
    `CREATE TABLE outcome (
      bucket INTEGER NOT NULL, lane TEXT NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (bucket, lane)
    ) STRICT, WITHOUT ROWID`,
    // Ends that those ranges can't record: events that took several attempts, and who dropped, replayed or
    // moved an event.
    `CREATE TABLE ended (
      id INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, lane TEXT NOT NULL, at INTEGER NOT NULL, outcome TEXT NOT NULL,
      last INTEGER, copy INTEGER, note TEXT NOT NULL) STRICT`,
    `CREATE INDEX ended_event ON ended (sequence)`,
    `CREATE INDEX ended_copy ON ended (copy) WHERE copy IS NOT NULL`,
    `CREATE INDEX ended_range ON ended (last) WHERE last IS NOT NULL`,
    // Events imported from other journals, by the id of the journal: each once per lane.
    `CREATE TABLE imported (
      journal TEXT NOT NULL, sequence INTEGER NOT NULL, lanes TEXT NOT NULL, PRIMARY KEY (journal, sequence)
    ) STRICT, WITHOUT ROWID`,
    // Operators' changes: see "AuditLog.ts".
    `CREATE TABLE audit (
      id INTEGER PRIMARY KEY, at INTEGER NOT NULL, who TEXT NOT NULL, "by" TEXT NOT NULL, what TEXT NOT NULL,
      "on" TEXT NOT NULL, result TEXT NOT NULL, note TEXT NOT NULL, relay TEXT NOT NULL) STRICT`,
  ],
  [
    // The rule for the end of a pause as JSON, or empty.
    "ALTER TABLE lane ADD COLUMN mute TEXT NOT NULL DEFAULT ''",
    // All other tables name a lane by its id: see "NamedLanes.ts". "crc" is a checksum of the other columns.
    `CREATE TABLE lane_name (
      name TEXT PRIMARY KEY, id TEXT NOT NULL, former INTEGER NOT NULL, crc INTEGER NOT NULL) STRICT, WITHOUT ROWID`,
  ],
  [
    // The alerts of lanes with a policy. Only the lane reads "state": see "Alerts.ts".
    `CREATE TABLE alert (
      lane TEXT NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL, PRIMARY KEY (lane, key)) STRICT, WITHOUT ROWID`,
  ],
]

/** The schema version that this relay writes. */
export const current = steps.length

/** Reports whether a file's bytes contain a part of the schema that every journal begins with. */
export const isInSchema = (bytes: string): boolean => steps[0]?.some((statement) => bytes.includes(statement)) === true

/** Returns the schema version of an open file, or 0 if it is new. */
export const version = (db: DatabaseSync): number => Number(db.prepare("PRAGMA user_version").get()?.user_version ?? 0)

/** Returns the relay that wrote the schema, or `undefined` if that isn't recorded: a newer relay may have no such table. */
const writer = (db: DatabaseSync): string | undefined => orUndefined(() => meta(db, "writer"))

/** Why this relay can't use the file: a newer relay wrote it. */
export const refusal = (db: DatabaseSync, path: string): string => newerJournal(`the journal ${path}`, writer(db))

/** Migrates an open file to the current version, in one transaction. Throws a JournalError if the file is newer. */
export const migrate = (db: DatabaseSync, path: string): void => {
  const found = version(db)
  if (found > current) throw broken(`${refusal(db, path)}.`)
  if (found === current) return
  transactions(db)(() => {
    for (const step of steps.slice(found)) for (const statement of step) db.prepare(statement).run()
    setMeta(db, "writer", relayVersion)
    db.prepare(`PRAGMA user_version = ${current}`).run()
  })
}
