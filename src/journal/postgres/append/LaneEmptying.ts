/**
 * Empties a lane whose sink has another name since, where that name is a lane of
 * its own: its events are appended again for that one.
 *
 * In slices, each in one transaction: after a crash those that were committed
 * stay, and whoever opens the lane by its new name goes on.
 */
import { Effect } from "effect"
import { type JournalError, unavailable } from "../../JournalError.ts"
import type { Cursor } from "../../Settlement.ts"
import type { Backlog } from "../../stream/Backlog.ts"
import type { Ended } from "../../stream/OutcomeRecord.ts"
import { type Reappended, toMove } from "../../stream/Reappended.ts"
import { Origin } from "../../stream/Record.ts"
import type { Queries } from "../connection/Database.ts"
import { refusing } from "../connection/DatabaseRefusal.ts"
import { remove } from "../lanes/LaneMoves.ts"
import type { StreamState } from "../lanes/StreamState.ts"
import * as OutcomeTables from "../tables/OutcomeTables.ts"
import type { StreamWriter } from "./StreamWriter.ts"

const slice = { entries: 256, bytes: 1024 * 1024 }

/**
 * Appends again for another lane what a lane holds that was renamed to it, and
 * removes the lane: how many events. Two round trips for 256 events, about.
 */
export const empty = Effect.fnUntraced(function* (
  stream: StreamState,
  writer: StreamWriter,
  from: string,
): Effect.fn.Return<number, JournalError> {
  const source = stream.backlogs.get(from)
  const moving = stream.names.movingFrom(from)
  if (source === undefined || moving === undefined) return 0
  const { to, after: end } = moving
  yield* stream.reach(end)
  let count = 0
  while (source.cursor.sequence < end) {
    const again: Array<Reappended & { readonly sequence: number }> = []
    let last = end
    let size = 0
    for (const entry of yield* stream.read(source.cursor.sequence, slice.entries)) {
      const { sequence, event, sinks } = entry
      if (sequence > end) break
      last = sequence
      if (!sinks.includes(from) || !source.isPending(sequence)) continue
      again.push({ event: toMove(entry), sinks: [to], sequence })
      size += event.body.length
      if (size >= slice.bytes) break
    }
    const cursor = { sequence: last, settled: source.cursor.settled.filter(([, to]) => to > last) }
    const advance = (queries: Queries, ended: ReadonlyArray<Ended> = []) =>
      store(queries, stream, source, cursor, ended)
    const { at, by } = yield* OutcomeTables.removal
    const moved = (first: number) =>
      again.map(({ sequence }, index) => ({
        ...{ sequence, lane: from, at, outcome: "moved" as const, copy: first + index },
        note: { by, to },
      }))
    if (again.length > 0) {
      yield* writer.reappend(again, Origin.moved, (queries, first) => advance(queries, moved(first)))
    } else yield* refusing(advance(stream.owner.db))
    source.settle(cursor)
    count += again.length
  }
  yield* remove(stream, from)
  return count
})

/** Fails where the lane does not stand where it did: another relay moves it too, or this was stored already. */
const store = Effect.fnUntraced(function* (
  queries: Queries,
  { id }: StreamState,
  source: Backlog,
  cursor: Cursor,
  ended: ReadonlyArray<Ended>,
) {
  const { lane, pausedFor } = source
  const { count } = yield* queries.query(
    `WITH moved AS (
       INSERT INTO ended (${OutcomeTables.endedColumns}) SELECT * FROM unnest(${OutcomeTables.endedTypes(5)}))
     UPDATE progress SET lanes = lanes || $2::jsonb WHERE stream = $1 AND lanes -> $3 ->> 'sequence' = $4`,
    [
      id,
      JSON.stringify({ [lane]: { ...cursor, pausedFor } }),
      lane,
      String(source.cursor.sequence),
      ...OutcomeTables.endedRows(ended),
    ],
  )
  if (count === 0) return yield* unavailable(`The lane ${lane} has changed meanwhile. Look again, and repeat it.`)
})
