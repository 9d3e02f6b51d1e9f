/** A stream of the database for a copy or a check. It is numbered from 1, and its lanes have their present names. */
import { Effect } from "effect"
import { type After, type CopiedOutcomes, type CopiedStream, soundPages } from "../../JournalCopy.ts"
import type { MaintenanceError } from "../../JournalError.ts"
import { rangeOf } from "../../Sequences.ts"
import { bucketOf } from "../../stream/OutcomeRecord.ts"
import { decode } from "../../stream/Record.ts"
import type { LaneNames } from "../tables/LaneNames.ts"
import * as LaneTables from "../tables/LaneTables.ts"
import { type EndedRow, endedOf } from "../tables/OutcomeTables.ts"
import { columns, holding, type StreamRow, storedOf } from "../tables/StreamRows.ts"

/** Rows read at a time. */
export const page = 64

/** Reads rows. A database error ends the copy. */
export type ReadRows = <Row>(
  sql: string,
  params?: ReadonlyArray<unknown>,
) => Effect.Effect<ReadonlyArray<Row>, MaintenanceError>

export interface StreamSourceOptions {
  readonly read: ReadRows
  readonly id: number
  /** Its highest sequence, or `null` if it is empty. */
  readonly last: number | null
  readonly rows: number
  readonly names: LaneNames
  /** Called for each record that can't be read as it was written. */
  readonly lose: () => void
  /** Returns an event's stream, and its sequence there, by its sequence in the database. */
  readonly placeOf: (sequence: number) => { readonly stream: number; readonly sequence: number }
}

/** Returns a stream that reads on demand. It keeps nothing in memory. */
export const make = ({ read, id, last, rows, names, lose, placeOf }: StreamSourceOptions): CopiedStream => {
  const [floor, ceiling] = rangeOf(id)
  /** Returns pages of a lane's rows, numbered as in the stream. */
  const paged =
    <Row extends After>(table: "retry" | "dead") =>
    ({ lane, sequence }: After) =>
      read<Row>(
        `SELECT *, sequence - $1 AS sequence FROM ${table}
         WHERE sequence > $1 AND sequence < $2 AND (lane, sequence) > ($3, $4::bigint)
         ORDER BY lane, ${table}.sequence LIMIT $5`,
        [floor, ceiling, lane, floor + sequence, page],
      )
  const entryOf = ({ record, sequence }: { readonly record: Uint8Array; readonly sequence: number }) => {
    const entry = decode(record, floor + sequence)
    if (entry === undefined) lose()
    return entry === undefined ? [] : [{ ...entry, sequence }]
  }
  /** Returns the present names of lanes. A removed lane keeps its name, as in the history. */
  const presentOf = (sinks: ReadonlyArray<string>, sequence: number) =>
    names.isPlain ? sinks : [...new Set(sinks.map((name) => names.laneOf(name, sequence) || name))]
  const storedAbove = (after: number, row: StreamRow) =>
    storedOf(row, lose)
      .filter(({ entry }) => entry.sequence > after && !row.void.includes(entry.sequence - row.first))
      .map((one) => {
        const { sequence, sinks } = one.entry
        return { ...one, entry: { ...one.entry, sequence: sequence - floor, sinks: presentOf(sinks, sequence) } }
      })
  return {
    last: last === null ? 0 : last - floor,
    rows,
    lanes: [...names.places].map(([name, { sequence, settled, pausedFor }]) => ({
      name,
      cursor: { sequence: sequence - floor, settled: settled.map(([from, to]) => [from - floor, to - floor]) },
      pausedFor,
    })),
    events: Effect.fnUntraced(function* (after) {
      for (let from = floor + after; ; ) {
        const rows = yield* read<StreamRow>(`SELECT ${columns} FROM log WHERE ${holding} ORDER BY first LIMIT $4`, [
          floor,
          from + 1,
          ceiling,
          page,
        ])
        const stored = rows.flatMap((row) => storedAbove(floor + after, row))
        const end = rows.at(-1)
        if (end === undefined || stored.length > 0) return stored
        const next = end.first + end.count - 1
        if (next <= from) return []
        from = next
      }
    }),
    retries: soundPages(paged<LaneTables.RetryRow & LaneTables.LaneRow>("retry"), (row) =>
      entryOf(row).map((entry) => ({
        ...LaneTables.waitOf(row),
        lane: row.lane,
        attempts: LaneTables.attemptsOf(row.attempts),
        entry,
      })),
    ),
    letters: soundPages(paged<LaneTables.LetterRow>("dead"), (row) =>
      entryOf(row).map((entry) => ({
        lane: row.lane,
        at: row.at,
        attempts: LaneTables.attemptsOf(row.attempts),
        entry,
      })),
    ),
    outcomes: (from, to) =>
      read<CopiedOutcomes>("SELECT bucket - $1 AS bucket, lane, bytes FROM outcome WHERE bucket BETWEEN $2 AND $3", [
        bucketOf(floor),
        bucketOf(floor + from),
        bucketOf(floor + to),
      ]),
    ends: (after) =>
      Effect.map(
        read<EndedRow & { readonly id: number }>(
          "SELECT * FROM ended WHERE id > $1 AND sequence > $2 AND sequence < $3 ORDER BY id LIMIT $4",
          [after, floor, ceiling, page],
        ),
        (rows) =>
          rows.map((row) => {
            const { copy, last, ...end } = endedOf(row)
            return {
              ...end,
              id: row.id,
              sequence: end.sequence - floor,
              ...(last !== undefined && { last: last - floor }),
              ...(copy !== undefined && { copy: placeOf(copy) }),
            }
          }),
      ),
  }
}
