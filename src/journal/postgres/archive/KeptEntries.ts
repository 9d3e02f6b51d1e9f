/**
 * Entries by their sequences, wherever they are kept: in the log, or as a retry
 * or a dead letter that the log was pruned of.
 */
import { Effect } from "effect"
import type { Entry } from "../../../event/Entry.ts"
import { floorOf, streamOf } from "../../Sequences.ts"
import { readBytes } from "../../stream/BulkSlices.ts"
import { decode } from "../../stream/Record.ts"
import type { Queries } from "../connection/Database.ts"
import { refusing } from "../connection/DatabaseRefusal.ts"
import { type StreamRow, storedOf } from "../tables/StreamRows.ts"

/** Their bytes are absent where all before them are enough already. */
type SizedRow = Omit<StreamRow, "bytes"> & { readonly bytes: Uint8Array | null }

/** Rows of the log, in the order in which they are asked for. */
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

export interface Found {
  /** How many of the sequences were looked for: the first one at least, and as many as some megabytes hold. */
  readonly done: number
  readonly entries: ReadonlyMap<number, Entry>
}

/** One round trip, and another where the log does not have all. */
export const find = Effect.fnUntraced(function* (db: Queries, sequences: ReadonlyArray<number>) {
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
