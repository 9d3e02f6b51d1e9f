/**
 * The rows of operators' changes on PostgreSQL. Any relay can change what any
 * other has stored.
 *
 * A statement costs one round trip, whatever it holds. A slice of dropped dead
 * letters costs one, of replayed ones three, of replays or an import seven. It costs some more
 * if the log was pruned of some events, or if they go to both kinds of streams.
 */
import { Effect } from "effect"
import type { Entry } from "../../../event/Event.ts"
import * as Pattern from "../../../routing/Pattern.ts"
import { lettersChanged } from "../../archive/DeadLetterChanges.ts"
import type { JournalTables, RemovedLetters, SliceRows } from "../../archive/JournalTables.ts"
import { type JournalError, unavailable } from "../../JournalError.ts"
import {
  type DeadLetterKey,
  type DeadLetterQuery,
  parseLetterId,
  returning,
  type StoredDeadLetter,
} from "../../LaneInfo.ts"
import { floorOf, streamOf } from "../../Sequences.ts"
import { type Reappended, readBytes, slice } from "../../stream/BulkSlices.ts"
import { keyOf } from "../../stream/DuplicateKey.ts"
import { decode, Origin } from "../../stream/Record.ts"
import type { StreamWriter } from "../append/StreamWriter.ts"
import type { Database, Queries } from "../connection/Database.ts"
import { refusing } from "../connection/DatabaseError.ts"
import * as LaneTables from "../tables/LaneTables.ts"
import * as OutcomeTables from "../tables/OutcomeTables.ts"
import { type StreamRow, storedOf } from "../tables/StreamRows.ts"
import { erasuresOf, requireNoErasureSince } from "./EventErasing.ts"

/** A row without its bytes if the rows before it are enough. */
type SizedRow = Omit<StreamRow, "bytes"> & { readonly bytes: Uint8Array | null }

/** SQL for rows of the log, in the order of the parameters. */
const rowsSql = `SELECT first, count, void, altered, CASE WHEN before < ${readBytes} THEN bytes END AS bytes FROM (
    SELECT log.*, sum(octet_length(bytes)) OVER (ORDER BY place) - octet_length(bytes) AS before FROM (
      SELECT at, min(place) AS place FROM (
        SELECT place, (SELECT max(first) FROM log WHERE first > floor AND first <= sequence) AS at
        FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS asked(sequence, floor, place)
      ) AS placed GROUP BY at
    ) AS rows JOIN log ON first = at
  ) AS sized`

const copiesSql = `SELECT sequence, CASE WHEN before < ${readBytes} THEN record END AS record FROM (
    SELECT *, sum(octet_length(record)) OVER (ORDER BY array_position($1::bigint[], sequence)) - octet_length(record) AS before
    FROM (
      SELECT DISTINCT ON (sequence) sequence, record FROM (
        SELECT sequence, record FROM dead WHERE sequence = ANY($1::bigint[])
        UNION ALL SELECT sequence, record FROM retry WHERE sequence = ANY($1::bigint[])
      ) AS kept ORDER BY sequence
    ) AS copies
  ) AS sized`

interface Found {
  /** The number of sequences that were searched for: at least one, and as many as fit into some megabytes. */
  readonly done: number
  readonly entries: ReadonlyMap<number, Entry>
}

/** Takes one round trip, and another if some entries are not in the log. */
const find = Effect.fnUntraced(function* (db: Queries, sequences: ReadonlyArray<number>) {
  const entries = new Map<number, Entry>()
  const { rows } = yield* refusing(
    db.query<SizedRow>(rowsSql, [sequences, sequences.map((sequence) => floorOf(streamOf(sequence)))]),
  )
  const unread: Array<SizedRow> = []
  for (const row of rows) {
    const { bytes } = row
    if (bytes === null) unread.push(row)
    else for (const { entry } of storedOf({ ...row, bytes }, () => {})) entries.set(entry.sequence, entry)
  }
  const until = (isUnread: (sequence: number) => boolean): number => {
    const at = sequences.findIndex(isUnread)
    return at < 0 ? sequences.length : at
  }
  const done = until((one) => unread.some(({ first, count }) => first <= one && one < first + count))
  const isLogged = (sequence: number) => entries.has(sequence) && entries.get(sequence)?.duplicate !== true
  const others = sequences.slice(0, done).filter((sequence) => !isLogged(sequence))
  if (others.length === 0) return { done, entries } satisfies Found
  for (const sequence of others) entries.delete(sequence)
  const copies = yield* refusing(
    db.query<{ sequence: number; record: Uint8Array | null }>(copiesSql, [[...new Set(others)]]),
  )
  const left = new Set<number>()
  for (const { sequence, record } of copies.rows) {
    const entry = record === null ? undefined : decode(record, sequence)
    if (entry !== undefined) entries.set(sequence, entry)
    if (record === null) left.add(sequence)
  }
  return {
    done: Math.min(
      done,
      until((sequence) => left.has(sequence)),
    ),
    entries,
  } satisfies Found
})

/** Makes the tables of a database. `recount` is called after dead letters may have changed. */
export const make = (db: Database, writer: StreamWriter, whyFull: () => string, recount: () => void): JournalTables => {
  const rowsOf = (): SliceRows => {
    /** The count of erasures before the slice's first read; `undefined` until then. */
    let erasures: string | undefined
    const reading = <A>(read: Effect.Effect<A, JournalError>): Effect.Effect<A, JournalError> =>
      Effect.flatMap(refusing(erasuresOf(db)), (count) => {
        erasures = count
        return read
      })
    return {
      letters: (keys) => reading(lettersOf(db, keys)),
      entries: (sequences) => reading(find(db, sequences)),
      received: (entries) => receivedOf(db, entries),
      importedFor: (journal, sequences) =>
        Effect.map(
          refusing(
            db.query<{ sequence: number; lanes: ReadonlyArray<string> }>(
              "SELECT sequence, lanes FROM imported WHERE journal = $1 AND sequence = ANY($2::bigint[])",
              [journal, sequences],
            ),
          ),
          ({ rows }) => new Map(rows.map(({ sequence, lanes }) => [sequence, lanes])),
        ),
      append: (entries, origin, also) => {
        // If only one of two equal deliveries is appended, this can't tell which sequence it got.
        const isEach =
          origin !== Origin.delivered ||
          new Set(entries.map(({ event }) => JSON.stringify(keyOf(event)))).size === entries.length
        const store = Effect.fnUntraced(function* (queries: Queries, first: number) {
          const copies = entries.map((_, index) => (isEach ? first + index : undefined))
          const { removed, ended = [], imported = [], letters = [] } = also(copies)
          if (erasures !== undefined) yield* requireNoErasureSince(queries, erasures)
          if (removed !== undefined && (yield* remove(queries, removed)) < removed.keys.length) {
            return yield* lettersChanged
          }
          yield* OutcomeTables.putEnded(queries, ended)
          yield* LaneTables.noteImports(queries, imported)
          yield* LaneTables.putLetters(queries, letters)
        })
        return Effect.map(writer.reappend(entries, origin, store), recount)
      },
      giveBack: (keys, why) =>
        Effect.map(
          refusing(
            LaneTables.takeBack(
              db,
              keys.map(({ lane, sequence }) => ({ lane, ...returning(sequence, why.at) })),
              why,
            ),
          ),
          ({ count }) => {
            recount()
            return count
          },
        ),
      remove: (removed) => Effect.tap(refusing(remove(db, removed)), () => Effect.sync(recount)),
    }
  }
  return {
    whyFull,
    logOf: (sinks) => (writer.isShared(sinks) ? "shared" : "own"),
    importable: (journal, events) =>
      Effect.flatMap(
        refusing(
          db.query("SELECT FROM meta WHERE (key = 'identity' AND value = $1) OR key = 'copy:' || $1", [journal]),
        ),
        ({ count }) => (count > 0 ? isOwn : Effect.succeed(events)),
      ),
    slice: (work) => Effect.suspend(() => work(rowsOf())),
  }
}

const isOwn = unavailable(
  "That is the journal that the relay runs on, a copy of it, or one that was copied into it: what it owes is on its way. Only what another journal owed can be imported.",
)

/** Reads dead letters in the order of their keys, until their records have a slice's bytes. */
const lettersOf = Effect.fnUntraced(function* (db: Database, keys: ReadonlyArray<DeadLetterKey>) {
  const { rows } = yield* refusing(
    db.query<Omit<LaneTables.LetterRow, "record"> & { place: number; record: Uint8Array | null }>(
      `SELECT lane, sequence, at, attempts, place, CASE WHEN before < ${slice.bytes} THEN record END AS record FROM (
         SELECT dead.*, place, sum(size) OVER (ORDER BY place) - size AS before
         FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS asked(lane, sequence, place)
         JOIN dead USING (lane, sequence)
       ) AS sized ORDER BY place`,
      LaneTables.placesOf(keys),
    ),
  )
  const unread = rows.find(({ record }) => record === null)
  const letters = rows.flatMap((row) =>
    row.record === null ? [] : (LaneTables.letterOf({ ...row, record: row.record }) ?? []),
  )
  return { done: unread === undefined ? keys.length : unread.place - 1, letters }
})

/** Returns the deliveries that the database has seen. An empty list costs no query. */
const receivedOf = Effect.fnUntraced(function* <A extends Pick<Reappended, "event">>(
  db: Database,
  entries: ReadonlyArray<A>,
) {
  if (entries.length === 0) return new Set<A>()
  const keys = entries.map(({ event }) => keyOf(event))
  const { rows } = yield* refusing(
    db.query<{ place: number }>(
      `SELECT place FROM unnest($1::int[], $2::int[], $3::int[]) WITH ORDINALITY AS asked(lo, hi, crc, place)
       JOIN seen USING (lo, hi, crc)`,
      [keys.map(({ lo }) => lo | 0), keys.map(({ hi }) => hi | 0), keys.map(({ bodyCrc }) => bodyCrc | 0)],
    ),
  )
  return new Set(rows.flatMap(({ place }) => entries[place - 1] ?? []))
})

/** Removes dead letters and records their outcomes. */
const remove = (queries: Queries, { keys, outcome, copies, why }: RemovedLetters) => {
  const asked = "unnest($3::text[], $4::bigint[], $5::bigint[]) AS asked(lane, sequence, copy)"
  const sql = OutcomeTables.takenFrom(
    "dead",
    `(t.lane, t.sequence) IN (SELECT lane, sequence FROM ${asked})`,
    "$6::text",
    `(SELECT asked.copy FROM ${asked} WHERE asked.lane = gone.lane AND asked.sequence = gone.sequence)`,
  )
  const params = [...OutcomeTables.removalParams(why), ...LaneTables.placesOf(keys)]
  return Effect.map(
    queries.query(sql, [...params, keys.map((_, index) => copies[index] ?? null), outcome]),
    ({ count }) => count,
  )
}

/** Returns dead letters, newest first. Takes one round trip for each 4 MB, or 1,000 letters, that it searches. */
export const deadLetters = Effect.fnUntraced(function* (db: Database, query: DeadLetterQuery) {
  const matches = query.type === undefined ? undefined : Pattern.make(query.type)
  const letters: Array<StoredDeadLetter> = []
  let before = parseLetterId(query.before)
  for (let size = 0; letters.length < query.limit && size < readBytes; ) {
    const { rows } = yield* refusing(
      db.query<LaneTables.LetterRow & { type: string }>(
        `SELECT lane, sequence, at, type, attempts, record FROM (
           SELECT *, sum(size) OVER (ORDER BY sequence DESC, lane COLLATE "C" DESC) - size AS before FROM (
             SELECT * FROM dead WHERE ($1::text IS NULL OR lane = $1)
               AND ($2::bigint IS NULL OR (sequence, lane COLLATE "C") < ($2, $3))
             ORDER BY sequence DESC, lane COLLATE "C" DESC LIMIT $4
           ) AS next
         ) AS sized WHERE before < ${readBytes} ORDER BY sequence DESC, lane COLLATE "C" DESC`,
        [query.lane ?? null, before?.sequence ?? null, before?.lane ?? null, Math.min(query.limit, 1_000)],
      ),
    )
    for (const row of rows) {
      before = row
      if (matches !== undefined && !matches.matches(JSON.parse(row.type))) continue
      const letter = LaneTables.letterOf(row)
      if (letter === undefined) continue
      letters.push(letter)
      size += letter.entry.event.body.length
      if (letters.length === query.limit) break
    }
    if (rows.length === 0) break
  }
  return letters
})
