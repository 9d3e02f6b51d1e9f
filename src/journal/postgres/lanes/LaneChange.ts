/**
 * Changes the lanes of a stream at one point of its log.
 *
 * **Guarantee.** A change is one transaction, and no append to the stream overlaps it. An event comes before or
 * after it, and in either case the stored names determine the event's lane. A relay that changes another
 * relay's stream begins a new epoch of the stream, so the owner reads the stream again before it stores
 * anything more. A relay also does so with its own stream if it didn't hear whether its change was committed.
 */
import { Effect } from "effect"
import { type JournalError, unavailable } from "../../JournalError.ts"
import { ceilingOf, floorOf, sharedStream } from "../../Sequences.ts"
import type { Queries } from "../connection/Database.ts"
import type { DatabaseError } from "../connection/DatabaseError.ts"
import { refusing } from "../connection/DatabaseRefusal.ts"
import { LaneNames, type StoredLanes } from "../tables/LaneNames.ts"
import type { StreamState } from "./StreamState.ts"

/** A change to make. */
export interface Change<A> {
  readonly lanes: LaneNames
  readonly value: A
  /** Makes the change in memory, once it is committed and before anything is added to the stream. */
  readonly inMemory: (stream: StreamState) => void
}

/** Decides on a change from the lanes and the head of the log, and stores whatever belongs to it. */
type Decide<A> = (before: LaneNames, head: number, queries: Queries) => Effect.Effect<Change<A>, DatabaseError>

/** It takes at most eight round trips, plus the round trips of `decide`. */
export const change = <A>(stream: StreamState, decide: Decide<A>): Effect.Effect<A, JournalError> =>
  stream.owner.exclusively(stream, refusing(changeNow(stream, decide)))

/**
 * Adds a renamed sink's events to the lane of its former name, until that lane is renamed. It must be called
 * between two appends.
 */
export const alsoName = (
  stream: StreamState,
  sink: string,
  former: string,
): Effect.Effect<void, JournalError | DatabaseError> =>
  changeNow(stream, (before, head) =>
    Effect.succeed({ lanes: before.alsoNamed(sink, former, head), value: undefined, inMemory: () => {} }),
  )

const changeNow = <A>(stream: StreamState, decide: Decide<A>): Effect.Effect<A, JournalError | DatabaseError> => {
  const { db } = stream.owner
  const [floor, ceiling] = [floorOf(stream.id), ceilingOf(stream.id)]
  let mayBeDone = false
  const transaction = db.transact((queries) =>
    Effect.gen(function* () {
      // Appends to the shared stream hold this lock. Appends to any other stream lock its row.
      if (stream.id === sharedStream) yield* queries.query(`SELECT pg_advisory_xact_lock('log'::regclass::oid::bigint)`)
      if (stream.isVisited) yield* queries.query("SELECT FROM stream WHERE id = $1 FOR UPDATE", [stream.id])
      else yield* stream.holdIn(queries, "UPDATE")
      const { rows } = yield* queries.query<StoredLanes & { head: number; first: number }>(
        `SELECT coalesce(lanes, '{}') AS lanes, coalesce(names, '{}') AS names, coalesce(past, '[]') AS past,
           coalesce((SELECT first + count - 1 FROM log WHERE first > $2 AND first < $3 ORDER BY first DESC LIMIT 1), $2) AS head,
           coalesce((SELECT min(first) FROM log WHERE first > $2 AND first < $3), $3) AS first
         FROM stream LEFT JOIN progress ON stream = id WHERE id = $1`,
        [stream.id, floor, ceiling],
      )
      const [found] = rows
      if (found === undefined) return yield* unavailable(`The database has no stream ${stream.id} any more.`)
      const before = LaneNames.of(found)
      const decided = yield* decide(before, found.head, queries)
      mayBeDone = true
      if (decided.lanes === before) return { ...decided, after: before }
      const after = decided.lanes.since(found.first)
      const { lanes, names, past } = after.stored
      yield* queries.query(
        `INSERT INTO progress (stream, lanes, names, past) VALUES ($1, $2, $3, $4)
         ON CONFLICT (stream) DO UPDATE SET lanes = excluded.lanes, names = excluded.names, past = excluded.past`,
        [stream.id, ...[lanes, names, past].map((part) => JSON.stringify(part))],
      )
      if (stream.isVisited) {
        yield* queries.query("UPDATE stream SET epoch = next_epoch(epoch) WHERE id = $1", [stream.id])
      }
      return { ...decided, after }
    }),
  )
  return transaction.pipe(
    Effect.map(({ after, value, inMemory }) => {
      stream.names = after
      inMemory(stream)
      return value
    }),
    // If the answer to the commit was lost, the database may have the change, but memory doesn't. So the stream
    // is read again.
    Effect.tapError(() => Effect.sync(() => mayBeDone && stream.lost())),
  )
}
