/**
 * Moves and drops lanes: in one stream, or in all, also those of other relays.
 *
 * Nobody runs a lane that is moved or dropped, so its place may be stored beside
 * what the stream's owner stores of its other lanes.
 */
import { Effect } from "effect"
import { type JournalError, unavailable } from "../JournalError.ts"
import type { Cursor } from "../Settlement.ts"
import { Backlog } from "../stream/Backlog.ts"
import { Origin } from "../stream/Record.ts"
import type { Queries } from "./Database.ts"
import { refusing } from "./DatabaseRefusal.ts"
import { ceilingOf, floorOf } from "./Sequences.ts"
import type { StreamState } from "./StreamState.ts"
import type { Reappended, StreamWriter } from "./StreamWriter.ts"

const slice = { entries: 256, bytes: 1024 * 1024 }

/** Moves what `from` holds in a stream to `to`: how many events. It is left empty, at the head. */
export const moveWithin = Effect.fnUntraced(function* (
  stream: StreamState,
  writer: StreamWriter,
  from: string,
  to: string,
): Effect.fn.Return<number, JournalError> {
  const source = stream.backlogs.get(from)
  if (source === undefined || from === to) return 0
  const end = stream.end
  const target = stream.backlogs.get(to) ?? new Backlog(to, { sequence: end, settled: [] })
  stream.backlogs.set(to, target)
  const range = [from, to, floorOf(stream.id), ceilingOf(stream.id)]
  // First: a move that is cut short must not leave them behind later events of their key.
  const retries = yield* stream.transact((queries) =>
    Effect.gen(function* () {
      yield* stream.insertLanes(queries, [to])
      const { rows: moved } = yield* queries.query<{ sequence: number }>(
        `UPDATE retry SET lane = $2,
           first_attempt_at = CASE first_attempt_at WHEN 0 THEN 0 ELSE greatest(first_attempt_at + $5::bigint, 1) END
         WHERE lane = $1 AND sequence > $3 AND sequence < $4
           AND NOT EXISTS (SELECT FROM retry AS own WHERE own.lane = $2 AND own.sequence = retry.sequence)
         RETURNING sequence`,
        [...range, source.pausedFor - target.pausedFor],
      )
      // Where both lanes have the event, one of the two is enough.
      const { count: twice } = yield* queries.query(
        "DELETE FROM retry WHERE lane = $1 AND sequence > $2 AND sequence < $3",
        [from, floorOf(stream.id), ceilingOf(stream.id)],
      )
      return { moved: moved.map(({ sequence }) => sequence), count: moved.length + twice }
    }),
  )
  source.retrying.clear()
  for (const sequence of retries.moved) target.retrying.add(sequence)
  let count = retries.count
  while (source.cursor.sequence < end) {
    const again: Array<Reappended> = []
    let last = end
    let size = 0
    for (const { sequence, event, sinks } of yield* stream.read(source.cursor.sequence, slice.entries)) {
      if (sequence > end) break
      last = sequence
      if (!sinks.includes(from) || !source.isPending(sequence)) continue
      again.push({ event, sinks: [to] })
      size += event.body.length
      if (size >= slice.bytes) break
    }
    const cursor = { sequence: last, settled: source.cursor.settled.filter(([, to]) => to > last) }
    const advance = (queries: Queries) => store(queries, stream, source, cursor)
    if (again.length > 0) yield* writer.reappend(again, Origin.moved, advance)
    else yield* refusing(advance(stream.owner.db))
    source.settle(cursor)
    count += again.length
  }
  const letters = yield* stream.transact((queries) =>
    Effect.gen(function* () {
      const { count: moved } = yield* queries.query(
        `UPDATE dead SET lane = $2 WHERE lane = $1 AND sequence > $3 AND sequence < $4
           AND NOT EXISTS (SELECT FROM dead AS own WHERE own.lane = $2 AND own.sequence = dead.sequence)`,
        range,
      )
      const { count: twice } = yield* queries.query(
        "DELETE FROM dead WHERE lane = $1 AND sequence > $2 AND sequence < $3",
        [from, floorOf(stream.id), ceilingOf(stream.id)],
      )
      return moved + twice
    }),
  )
  stream.recount()
  return count + letters
})

/** Fails where the lane does not stand where it did: another relay moves it too, or this was stored already. */
const store = Effect.fnUntraced(function* (queries: Queries, { id }: StreamState, source: Backlog, cursor: Cursor) {
  const { lane, pausedFor } = source
  const { count } = yield* queries.query(
    "UPDATE progress SET lanes = lanes || $2::jsonb WHERE stream = $1 AND lanes -> $3 ->> 'sequence' = $4",
    [id, JSON.stringify({ [lane]: { ...cursor, pausedFor } }), lane, String(source.cursor.sequence)],
  )
  if (count === 0) return yield* unavailable(`The lane ${lane} has changed meanwhile. Look again, and repeat it.`)
})

/** Removes a lane from a stream with all that it holds there: how many events were given up. */
export const dropWithin = Effect.fnUntraced(function* (
  stream: StreamState,
  name: string,
): Effect.fn.Return<number, JournalError> {
  const range = [name, floorOf(stream.id), ceilingOf(stream.id)]
  const letters = yield* stream.transact((queries) =>
    Effect.gen(function* () {
      yield* queries.query("DELETE FROM retry WHERE lane = $1 AND sequence > $2 AND sequence < $3", range)
      const { count } = yield* queries.query(
        "DELETE FROM dead WHERE lane = $1 AND sequence > $2 AND sequence < $3",
        range,
      )
      yield* queries.query("UPDATE progress SET lanes = lanes - $2::text WHERE stream = $1", [stream.id, name])
      return count
    }),
  )
  const given = (stream.backlogs.get(name)?.size ?? 0) + letters
  stream.backlogs.delete(name)
  stream.open.delete(name)
  stream.recount()
  return given
})

/** A renamed sink takes over what its former name holds in a stream. */
export const adopt = Effect.fnUntraced(function* (
  stream: StreamState,
  writer: StreamWriter,
  from: string,
  to: string,
): Effect.fn.Return<void, JournalError> {
  if (!stream.backlogs.has(from) || from === to) return
  yield* moveWithin(stream, writer, from, to)
  yield* dropWithin(stream, from)
})

/** Fails where another relay's config has the sink: it would miss the events. */
export const requireOrphaned = (name: string, relays: ReadonlyArray<string>): Effect.Effect<void, JournalError> =>
  relays.length === 0
    ? Effect.void
    : unavailable(
        `The sink ${name} is in the config of ${relays.join(", ")}: only a lane that no relay has a sink for can be moved or dropped.`,
      )
