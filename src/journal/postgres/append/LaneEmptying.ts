/**
 * Moves a renamed lane's events to its new name, if a lane of that name exists already. The events are appended
 * again for that lane.
 *
 * It works in slices, each in one transaction. A crash keeps the committed slices, and the relay that next
 * opens the lane by its new name continues.
 */
import { Effect } from "effect"
import { laneChanged, type MovingLog, moveLog } from "../../archive/MovedLanes.ts"
import type { JournalError } from "../../JournalError.ts"
import type { Cursor } from "../../Settlement.ts"
import type { Backlog } from "../../stream/Backlog.ts"
import { removal } from "../../stream/BulkSlices.ts"
import type { Ended } from "../../stream/OutcomeRecord.ts"
import { Origin } from "../../stream/Record.ts"
import type { Queries } from "../connection/Database.ts"
import { refusing } from "../connection/DatabaseError.ts"
import { remove } from "../lanes/LaneChange.ts"
import type { StreamState } from "../lanes/StreamState.ts"
import { allPlaces } from "../tables/LaneNames.ts"
import * as OutcomeTables from "../tables/OutcomeTables.ts"
import type { StreamWriter } from "./StreamWriter.ts"

/** The log of a lane that is to be moved to another lane, or `undefined` if it was moved already. */
export const logOf = Effect.fnUntraced(function* (
  stream: StreamState,
  writer: StreamWriter,
  from: string,
): Effect.fn.Return<MovingLog | undefined, JournalError> {
  const source = stream.backlogs.get(from)
  const moving = stream.names.movingFrom(from)
  if (source === undefined || moving === undefined) return undefined
  yield* stream.reach(moving.after)
  return {
    ...{ source, to: moving.to, end: moving.after },
    slice: (work) => work,
    read: (after, limit) => stream.read(after, limit),
    append: (again, ended, cursor) => {
      const advance = (queries: Queries, ended: ReadonlyArray<Ended> = []) =>
        store(queries, stream, { source, moved: moving.after, cursor, ended })
      const stored: Effect.Effect<unknown, JournalError> =
        again.length === 0
          ? refusing(advance(stream.owner.db))
          : writer.reappend(again, Origin.moved, (queries, first) => advance(queries, ended(first)))
      return Effect.map(stored, () => source.settle(cursor))
    },
  }
})

/**
 * Moves the events of a renamed lane to its new lane and deletes the old one. It takes about two round trips for
 * 256 events.
 */
export const empty = Effect.fnUntraced(function* (
  stream: StreamState,
  writer: StreamWriter,
  from: string,
): Effect.fn.Return<void, JournalError> {
  const log = yield* logOf(stream, writer, from)
  if (log === undefined) return
  const why = yield* removal
  yield* moveLog(log, why)
  yield* remove(stream, from, why, log.end)
})

interface Slice {
  readonly source: Backlog
  /** The sequence of the last event that is moved. */
  readonly moved: number
  readonly cursor: Cursor
  readonly ended: ReadonlyArray<Ended>
}

/**
 * Fails if the lane's cursor has moved, because another relay moves the lane too or this slice is stored already. Also
 * fails if another relay has opened the lane again.
 */
const store = Effect.fnUntraced(function* (
  queries: Queries,
  { id }: StreamState,
  { source, moved, cursor, ended }: Slice,
) {
  const { lane, pausedFor } = source
  const { count } = yield* queries.query(
    `WITH moved AS (
       INSERT INTO ended (${OutcomeTables.endedColumns}) SELECT * FROM unnest(${OutcomeTables.endedTypes(6)}))
     UPDATE progress SET changed = changed || $2::jsonb
     WHERE stream = $1 AND (${allPlaces}) -> $3 ->> 'sequence' = $4 AND names -> $3 ->> 'after' = $5`,
    [
      id,
      JSON.stringify({ [lane]: { ...cursor, pausedFor } }),
      lane,
      String(source.cursor.sequence),
      String(moved),
      ...OutcomeTables.endedRows(ended),
    ],
  )
  if (count === 0) return yield* laneChanged(lane)
})
