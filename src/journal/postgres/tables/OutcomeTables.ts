/**
 * Records in the database how events ended at their lanes: see `OutcomeRecord.ts`. Each statement is part of a
 * statement that is needed anyway, or of its transaction.
 */
import { Effect } from "effect"
import { ceilingOf } from "../../Sequences.ts"
import type { Settlement } from "../../Settlement.ts"
import type { Removal } from "../../stream/BulkSlices.ts"
import { type Ended, encodeRanges, span } from "../../stream/OutcomeRecord.ts"
import { type Queries, unnested } from "../connection/Database.ts"

/**
 * The rows that settlements add to, as three parameters: `unnest($bucket::bigint[], $lane::text[],
 * $bytes::bytea[])`.
 */
export const deliveredRows = (
  settlements: ReadonlyArray<Pick<Settlement, "lane" | "delivered">>,
): ReadonlyArray<ReadonlyArray<unknown>> => {
  const rows = settlements.flatMap(({ lane, delivered }) =>
    [...encodeRanges(delivered)].map(([bucket, bytes]) => [bucket, lane, Buffer.from(bytes)]),
  )
  return unnested(3, rows, (row) => row)
}

/** A part of a WITH, which adds these rows. If the table `from` has no row, nothing is stored. */
export const addDelivered = (parameters: string, from = ""): string =>
  `delivered AS (
     INSERT INTO outcome AS o (bucket, lane, bytes)
     SELECT n.bucket, n.lane, n.bytes FROM ${from}unnest(${parameters}) AS n(bucket, lane, bytes) ORDER BY n.bucket, n.lane
     ON CONFLICT (bucket, lane) DO UPDATE SET bytes = o.bytes || excluded.bytes)`

/** The columns that {@link endedRows} fills. */
export const endedColumns = "sequence, lane, at, outcome, last, copy, note"

/** A row of the table `ended`. */
export interface EndedRow {
  readonly sequence: number
  readonly lane: string
  readonly at: number
  readonly outcome: Ended["outcome"]
  readonly last: number | null
  readonly copy: number | null
  readonly note: string
}

/** Decodes a row. */
export const endedOf = ({ sequence, lane, at, outcome, last, copy, note }: EndedRow): Ended => ({
  ...{ sequence, lane, at, outcome },
  ...(last !== null && { last }),
  ...(copy !== null && { copy }),
  note: JSON.parse(note),
})

/** The parameters of `unnest` for ended events. */
export const endedRows = (ended: ReadonlyArray<Ended>): ReadonlyArray<ReadonlyArray<unknown>> =>
  unnested(7, ended, ({ sequence, lane, at, outcome, last = null, copy = null, note }) => [
    ...[sequence, lane, Math.round(at), outcome, last, copy],
    JSON.stringify(note),
  ])

/** The types of these parameters. The first has the number `first`. */
export const endedTypes = (first: number): string =>
  ["bigint", "text", "bigint", "text", "bigint", "bigint", "text"]
    .map((type, at) => `$${first + at}::${type}[]`)
    .join(", ")

/** Records how events ended. It takes one round trip, or none if there are none. */
export const putEnded = (queries: Queries, ended: ReadonlyArray<Ended>) =>
  ended.length === 0
    ? Effect.void
    : Effect.asVoid(
        queries.query(`INSERT INTO ended (${endedColumns}) SELECT * FROM unnest(${endedTypes(1)})`, endedRows(ended)),
      )

/**
 * Deletes rows of `dead` or `retry`, and records why, in one statement that returns each row's sequence. `$1`
 * is the time and `$2` the operator, as JSON. `outcome` and `copy` are SQL, and `before` is a part of the WITH.
 */
export const takenFrom = (
  table: "dead" | "retry",
  where: string,
  outcome: string,
  copy = "NULL::bigint",
  before = "",
): string =>
  `WITH ${before}gone AS (DELETE FROM ${table} AS t WHERE ${where} RETURNING t.*)
   INSERT INTO ended (sequence, lane, at, outcome, copy, note)
   SELECT gone.sequence, gone.lane, $1, ${outcome}, ${copy},
     '{"by":' || $2 || ${table === "dead" ? `',"deadAt":' || gone.at ||` : ""} ',"attempts":' || gone.attempts || '}'
   FROM gone RETURNING sequence`

/** The first parameters of the statement above. */
export const removalParams = ({ at, by }: Removal): ReadonlyArray<unknown> => [at, JSON.stringify(by)]

/** SQL that reports that no event in a range of sequences is kept beyond the log. */
const noneKept = (from: string, to: string): string =>
  ["dead", "retry"]
    .map((table) => `NOT EXISTS (SELECT FROM ${table} WHERE ${table}.sequence BETWEEN ${from} AND ${to})`)
    .join(" AND ")
const noneInBucket = noneKept(`bucket * ${span}`, `bucket * ${span} + ${span - 1}`)
const isNotKept = ["dead", "retry"]
  .map((table) => `NOT EXISTS (SELECT FROM ${table} WHERE ${table}.sequence = ended.sequence)`)
  .join(" AND ")

/**
 * Parts of a WITH after `gone`. They delete the outcomes of events whose rows of the log were deleted, except
 * of events that are kept beyond the log.
 */
export const pruneOutcomes = `pruned AS (
   DELETE FROM outcome USING gone WHERE bucket >= gone.first / ${span} AND bucket < (gone.first + gone.count) / ${span}
     AND ${noneInBucket}
 ), forgotten AS (
   DELETE FROM ended USING gone WHERE ended.sequence >= gone.first AND ended.sequence < gone.first + gone.count
     AND ${isNotKept})`

/** Deletes the outcomes of events that were kept beyond the log and no longer are. No search finds them. */
export const forgetOutcomes = Effect.fnUntraced(function* (queries: Queries) {
  const { rows } = yield* queries.query<{ readonly floor: number; readonly first: number }>(
    `SELECT id * ${ceilingOf(0)} AS floor, coalesce(
       (SELECT min(first) FROM log WHERE first > id * ${ceilingOf(0)} AND first < (id + 1) * ${ceilingOf(0)}),
       (id + 1) * ${ceilingOf(0)}) AS first
     FROM stream`,
  )
  for (const { floor, first } of rows) {
    yield* queries.query(
      `WITH pruned AS (
         DELETE FROM outcome WHERE bucket >= $1::bigint / ${span} AND bucket < $2::bigint / ${span} AND ${noneInBucket})
       DELETE FROM ended WHERE sequence > $1 AND sequence < $2 AND coalesce(last, 0) < $2 AND ${isNotKept}`,
      [floor, first],
    )
  }
})
