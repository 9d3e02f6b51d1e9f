/** A lane's rows in the database: its cursor in the stream's row of `progress`, its retries and its dead letters. */
import { Effect } from "effect"
import type { ImportNote } from "../../archive/JournalTables.ts"
import type { Attempt } from "../../DeliveryStatus.ts"
import {
  letterId,
  type Retry,
  type Returned,
  returnedDelay,
  type StoredAlert,
  type StoredDeadLetter,
} from "../../LaneInfo.ts"
import { rangeOf } from "../../Sequences.ts"
import { type AlertChange, attemptsOf as triesOf, type Wait } from "../../Settlement.ts"
import { WebhookBytes } from "../../stream/Backlog.ts"
import type { Removal } from "../../stream/BulkSlices.ts"
import { type LetterToPut, letterColumns, type RetryToPut } from "../../stream/Cursors.ts"
import { decode, encode } from "../../stream/Record.ts"
import { type Queries, unnested } from "../connection/Database.ts"
import { removalParams } from "./OutcomeTables.ts"

/** The key of a row in these tables. */
export interface LaneRow {
  readonly lane: string
  readonly sequence: number
}

/** For `(lane, sequence) IN (SELECT * FROM unnest($1::text[], $2::bigint[]))`. */
export const placesOf = (rows: ReadonlyArray<LaneRow>) => unnested(2, rows, ({ lane, sequence }) => [lane, sequence])

/** Decodes the attempts of an event from JSON. */
export const attemptsOf = (text: string): ReadonlyArray<Attempt> => JSON.parse(text)

/** The columns of `retry`. */
export interface RetryRow {
  readonly sequence: number
  readonly key: string
  readonly due: number
  readonly delay: number
  readonly first_attempt_at: number
  readonly tried: number
  readonly attempts: string
  readonly record: Uint8Array
}

/** Decodes a row of the table `retry`, without its record. */
export const waitOf = ({ sequence, key, due, delay, first_attempt_at, tried }: Omit<RetryRow, "record">): Wait => ({
  ...{ sequence, due, delay, tried },
  key: JSON.parse(key),
  firstAttemptAt: first_attempt_at,
})

/** Returns the oldest replayed dead letters of a lane that the lane has not taken up yet. */
export const returnedOf = (db: Queries, stream: number, lane: string) =>
  Effect.map(
    db.query<Pick<RetryRow, "sequence" | "attempts">>(
      `SELECT sequence, attempts FROM retry
       WHERE lane = $1 AND sequence > $2 AND sequence < $3 AND delay = ${returnedDelay} ORDER BY sequence LIMIT 500`,
      [lane, ...rangeOf(stream)],
    ),
    ({ rows }) =>
      rows.map(({ sequence, attempts }): Returned => ({ sequence, attempts: triesOf(attemptsOf(attempts)) })),
  )

/** Returns the retries of a lane by sequence, without those that it has not taken up yet. */
export const retriesOf = (db: Queries, stream: number, lane: string) =>
  Effect.map(
    db.query<Omit<RetryRow, "record">>(
      `SELECT sequence, key, due, delay, first_attempt_at, tried, attempts FROM retry
       WHERE lane = $1 AND sequence > $2 AND sequence < $3 AND delay <> ${returnedDelay} ORDER BY sequence`,
      [lane, ...rangeOf(stream)],
    ),
    ({ rows }) =>
      rows.map((row): Retry => {
        const attempts = attemptsOf(row.attempts)
        return { ...waitOf(row), lastFailure: attempts.at(-1)?.reason ?? "", attempts: triesOf(attempts) }
      }),
  )

/** Returns stored retries by lane and sequence. */
export const keptRetries = Effect.fnUntraced(function* (db: Queries, keys: ReadonlyArray<LaneRow>) {
  const { rows } = yield* db.query<LaneRow & { attempts: string; record: Uint8Array }>(
    `SELECT lane, sequence, attempts, record FROM retry
     WHERE (lane, sequence) IN (SELECT * FROM unnest($1::text[], $2::bigint[]))`,
    placesOf(keys),
  )
  return new Map(
    rows.map(({ lane, sequence, attempts, record }) => [
      `${lane}:${sequence}`,
      { attempts: attemptsOf(attempts), entry: () => decode(record, sequence) },
    ]),
  )
})

/** Returns the keys that have a dead letter, as `lane:sequence`. Queries nothing without keys. */
export const deadAmong = Effect.fnUntraced(function* (db: Queries, keys: ReadonlyArray<LaneRow>) {
  if (keys.length === 0) return new Set<string>()
  const { rows } = yield* db.query<LaneRow>(
    "SELECT lane, sequence FROM dead WHERE (lane, sequence) IN (SELECT * FROM unnest($1::text[], $2::bigint[]))",
    placesOf(keys),
  )
  return new Set(rows.map(({ lane, sequence }) => `${lane}:${sequence}`))
})

const noBytes = Buffer.alloc(0)

/** A part of a WITH, which records replays of dead letters. */
const returned = `, returned AS (
   INSERT INTO ended (sequence, lane, at, outcome, note)
   SELECT sequence, lane, $8, 'returned', '{"by":' || $9 || ',"deadAt":' || at || '}' FROM letter)`

/**
 * Turns dead letters back into retries, if they still exist. With `why`, an operator did it, and that is
 * recorded. Returns their number.
 */
export const takeBack = (db: Queries, waits: ReadonlyArray<LaneRow & Wait>, why?: Removal) =>
  waits.length === 0
    ? Effect.succeed({ count: 0 })
    : db.query(
        `WITH wait AS (
           SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::int[])
             AS new(lane, sequence, key, due, delay, first_attempt_at, tried)),
         letter AS (
           DELETE FROM dead USING wait WHERE (dead.lane, dead.sequence) = (wait.lane, wait.sequence)
           RETURNING dead.lane, dead.sequence, dead.at, dead.attempts, dead.record)${why === undefined ? "" : returned}
         INSERT INTO retry (lane, sequence, key, due, delay, first_attempt_at, tried, attempts, record)
         SELECT lane, sequence, key, due, delay, first_attempt_at, tried, attempts, record
         FROM wait JOIN letter USING (lane, sequence) ON CONFLICT DO NOTHING`,
        [
          ...unnested(7, waits, ({ lane, sequence, key, due, delay, firstAttemptAt, tried }) => [
            ...[lane, sequence, JSON.stringify(key), due, delay, firstAttemptAt, tried],
          ]),
          ...(why === undefined ? [] : removalParams(why)),
        ],
      )

/** Returns the alerts of a lane. */
export const alertsOf = (db: Queries, stream: number, lane: string) =>
  Effect.map(
    db.query<StoredAlert>("SELECT key, state FROM alert WHERE stream = $1 AND lane = $2 ORDER BY key", [stream, lane]),
    ({ rows }) => rows.map(({ key, state }): StoredAlert => ({ key: JSON.parse(key), state })),
  )

/** Returns the alerts of all lanes of all streams. */
export const allAlerts = (db: Queries) =>
  Effect.map(
    db.query<StoredAlert & { readonly lane: string }>("SELECT lane, key, state FROM alert ORDER BY lane, key"),
    ({ rows }) => rows.map(({ key, ...row }) => ({ ...row, key: String(JSON.parse(key)) })),
  )

/** Stores and deletes alerts in one round trip. Does nothing without changes. */
export const putAlerts = (
  db: Queries,
  stream: number,
  changes: ReadonlyArray<AlertChange & { readonly lane: string }>,
) =>
  changes.length === 0
    ? Effect.void
    : db.query(
        `WITH change AS (SELECT * FROM unnest($2::text[], $3::text[], $4::text[]) AS new(lane, key, state)),
           gone AS (
             DELETE FROM alert USING change WHERE change.state IS NULL AND alert.stream = $1
               AND (alert.lane, alert.key) = (change.lane, change.key))
         INSERT INTO alert (stream, lane, key, state)
         SELECT $1, lane, key, state FROM change WHERE state IS NOT NULL
         ON CONFLICT (stream, lane, key) DO UPDATE SET state = excluded.state`,
        [stream, ...unnested(3, changes, ({ lane, key, state = null }) => [lane, JSON.stringify(key), state])],
      )

/** Stores new and changed retries. */
export const putRetries = (db: Queries, puts: ReadonlyArray<RetryToPut>) =>
  puts.length === 0
    ? Effect.void
    : db.query(
        `INSERT INTO retry (lane, sequence, key, due, delay, first_attempt_at, tried, attempts, record)
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::int[],
           $8::text[], $9::bytea[])
         ON CONFLICT (lane, sequence) DO UPDATE SET key = excluded.key, due = excluded.due, delay = excluded.delay,
           first_attempt_at = excluded.first_attempt_at, tried = excluded.tried, attempts = excluded.attempts`,
        unnested(9, puts, ({ lane, change, attempts, entry }) => [
          lane,
          change.sequence,
          JSON.stringify(change.key),
          change.due,
          change.delay,
          change.firstAttemptAt,
          change.tried,
          JSON.stringify(attempts),
          entry === undefined ? noBytes : Buffer.from(encode(entry)),
        ]),
      )

export const endRetries = (db: Queries, ends: ReadonlyArray<LaneRow>) =>
  ends.length === 0
    ? Effect.void
    : db.query(
        "DELETE FROM retry WHERE (lane, sequence) IN (SELECT * FROM unnest($1::text[], $2::bigint[]))",
        placesOf(ends),
      )

/**
 * Stores dead letters, and replaces earlier letters of the same events. A letter that is stored a second time is left
 * unchanged, because it may have been erased since.
 */
export const putLetters = (db: Queries, letters: ReadonlyArray<LetterToPut>) =>
  letters.length === 0
    ? Effect.void
    : db.query(
        `INSERT INTO dead (lane, sequence, at, type, size, attempts, record, webhook)
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::int[], $6::text[], $7::bytea[], $8::text[])
         ON CONFLICT (sequence, lane) DO UPDATE SET at = excluded.at, attempts = excluded.attempts,
           size = excluded.size, record = excluded.record, webhook = excluded.webhook
         WHERE dead.at <> excluded.at`,
        unnested(8, letters, ({ lane, at, attempts, entry: { sequence, event }, entry }) => {
          const columns = letterColumns(Buffer.from(encode(entry)), attempts)
          return [
            ...[lane, sequence, at, JSON.stringify(event.type)],
            ...[columns.size, columns.attempts, columns.record, event.webhook],
          ]
        }),
      )

/** The columns of `dead` that form a dead letter. */
export interface LetterRow extends LaneRow {
  readonly at: number
  readonly attempts: string
  readonly record: Uint8Array
}

/** Returns `undefined` if the record can't be read as it was written. */
export const letterOf = ({ lane, sequence, at, attempts, record }: LetterRow): StoredDeadLetter | undefined => {
  const entry = decode(record, sequence)
  return entry && { id: letterId(lane, sequence), lane, sequence, at, attempts: attemptsOf(attempts), entry }
}

/**
 * Returns for each lane of a stream the number of dead letters, their bytes by
 * webhook, and the number of replayed dead letters that it has not taken up yet.
 */
export const letterCounts = (db: Queries, stream: number) =>
  Effect.map(
    db.query<{ lane: string; webhook: string; letters: number; bytes: number; returned: number }>(
      `SELECT lane, webhook, count(*) AS letters, coalesce(sum(size), 0)::bigint AS bytes, 0::bigint AS returned FROM dead
       WHERE sequence > $1 AND sequence < $2 GROUP BY lane, webhook
       UNION ALL SELECT lane, '', 0, 0, count(*) FROM retry
       WHERE sequence > $1 AND sequence < $2 AND delay = ${returnedDelay} GROUP BY lane`,
      rangeOf(stream),
    ),
    ({ rows }) => {
      const counts = new Map<string, { letters: number; returned: number; readonly bytes: WebhookBytes }>()
      for (const { lane, webhook, letters, bytes, returned } of rows) {
        const count = counts.get(lane) ?? { letters: 0, returned: 0, bytes: new WebhookBytes() }
        counts.set(lane, count)
        count.letters += letters
        count.returned += returned
        count.bytes.add(webhook, bytes)
      }
      return counts
    },
  )

/**
 * Adds lanes to the table `imported`, which has the lanes that events of other journals were imported for. Takes one
 * round trip, or none if there is nothing to note.
 */
export const noteImports = (queries: Queries, imported: ReadonlyArray<ImportNote>) =>
  imported.length === 0
    ? Effect.void
    : queries.query(
        `INSERT INTO imported (journal, sequence, lanes)
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::jsonb[])
         ON CONFLICT (journal, sequence) DO UPDATE SET lanes = (
           SELECT jsonb_agg(DISTINCT lane) FROM jsonb_array_elements(imported.lanes || excluded.lanes) AS lane)`,
        unnested(3, imported, ({ journal, sequence, lanes }) => [journal, sequence, JSON.stringify(lanes)]),
      )
