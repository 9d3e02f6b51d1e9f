/**
 * Changes the lanes of a stream at one point of its log.
 *
 * **Guarantee.** A change is one transaction, and no append to the stream overlaps it. An event comes before or
 * after it, and in either case the stored names determine the event's lane. A relay that changes another
 * relay's stream begins a new epoch of the stream, so the owner reads the stream again before it stores
 * anything more. A relay also does so with its own stream if it didn't hear whether its change was committed.
 *
 * **Guarantee.** A database that went back to before a change of this relay's own stream takes nothing more from
 * it. The change counts as a heartbeat, so such a database lacks the last heartbeat that the relay knows.
 */
import { Effect } from "effect"
import { laneChanged } from "../../archive/MovedLanes.ts"
import { type JournalError, unavailable } from "../../JournalError.ts"
import { returnedDelay } from "../../LaneInfo.ts"
import { ceilingOf, floorOf, sharedStream } from "../../Sequences.ts"
import { type Removal, removal } from "../../stream/BulkSlices.ts"
import type { Queries } from "../connection/Database.ts"
import { type DatabaseError, refusing } from "../connection/DatabaseError.ts"
import { allPlaces, LaneNames, type Opened, type Opening, type StoredLanes } from "../tables/LaneNames.ts"
import * as OutcomeTables from "../tables/OutcomeTables.ts"
import { pendingIn } from "./StreamLoading.ts"
import { countAsBeat, type StreamState } from "./StreamState.ts"

/** A change to make. */
interface Change<A> {
  readonly lanes: LaneNames
  readonly value: A
  /** Makes the change in memory, once it is committed and before anything is added to the stream. */
  readonly inMemory: (stream: StreamState) => void
}

/** A change that was made. */
interface Made<A> extends Change<A> {
  readonly after: LaneNames
  /** This relay's number of heartbeats, if the change raised it. */
  readonly beat?: number | undefined
}

/** Decides on a change from the lanes and the head of the log, and stores its rows. */
type Decide<A> = (
  before: LaneNames,
  head: number,
  queries: Queries,
) => Effect.Effect<Change<A>, JournalError | DatabaseError>

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
    Effect.gen(function* (): Effect.fn.Return<Made<A>, JournalError | DatabaseError> {
      // Appends to the shared stream hold this lock. Appends to any other stream lock its row.
      if (stream.id === sharedStream) yield* queries.query(`SELECT pg_advisory_xact_lock('log'::regclass::oid::bigint)`)
      if (stream.isVisited) yield* queries.query("SELECT FROM stream WHERE id = $1 FOR UPDATE", [stream.id])
      else yield* stream.holdIn(queries, "UPDATE")
      const { rows } = yield* queries.query<StoredLanes & { head: number; first: number }>(
        `SELECT coalesce(${allPlaces}, '{}') AS lanes, coalesce(names, '{}') AS names, coalesce(past, '[]') AS past,
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
      const marking = stream.isVisited
        ? "begun AS (UPDATE stream SET epoch = next_epoch(epoch) WHERE id = $1) SELECT"
        : `${countAsBeat("$5", "$6")} SELECT beat FROM counted`
      const { rows: marks } = yield* queries.query<{ beat?: number }>(
        `WITH stored AS (
           INSERT INTO progress (stream, lanes, names, past) VALUES ($1, $2, $3, $4)
           ON CONFLICT (stream) DO UPDATE SET lanes = excluded.lanes, changed = '{}', names = excluded.names, past = excluded.past
         ), ${marking}`,
        [
          stream.id,
          ...[lanes, names, past].map((part) => JSON.stringify(part)),
          ...(stream.isVisited ? [] : stream.beatParams),
        ],
      )
      return { ...decided, after, beat: marks[0]?.beat }
    }),
  )
  return transaction.pipe(
    Effect.map(({ after, value, inMemory, beat }) => {
      stream.names = after
      stream.beatStored(beat)
      inMemory(stream)
      return value
    }),
    // If the answer to the commit was lost, the database may have the change, but memory doesn't. So the stream
    // is read again.
    Effect.tapError(() => Effect.sync(() => mayBeDone && stream.lost())),
  )
}

/**
 * Moves retries and dead letters to another lane. An event that both lanes have is kept once. It takes five
 * round trips, and another if a rename also changes the name in the records of imports.
 */
const moveKept = Effect.fnUntraced(function* (
  queries: Queries,
  { id }: StreamState,
  from: string,
  to: string,
  pausedLonger: number,
  isRenamed: boolean,
) {
  const { at, by } = yield* removal
  const range = [from, floorOf(id), ceilingOf(id)]
  const within = "lane = $1 AND sequence > $2 AND sequence < $3"
  const move = (table: string, set: string, params: ReadonlyArray<unknown>) =>
    queries.query<{ sequence: number; delay: number }>(
      `WITH moved AS (
         UPDATE ${table} SET lane = $4 ${set} WHERE ${within}
           AND NOT EXISTS (SELECT FROM ${table} AS own WHERE own.lane = $4 AND own.sequence = ${table}.sequence)
         RETURNING ${table}.*
       ), noted AS (
         INSERT INTO ended (sequence, lane, at, outcome, note)
         SELECT sequence, $1, $5, 'moved', ${table === "dead" ? `rtrim($6, '}') || ',"deadAt":' || at || '}'` : "$6"}
         FROM moved WHERE NOT $7::boolean
       )
       SELECT sequence, ${table === "retry" ? "delay" : "0 AS delay"} FROM moved`,
      [...range, to, at, JSON.stringify({ by, to }), isRenamed, ...params],
    )
  const shifted =
    ", first_attempt_at = CASE first_attempt_at WHEN 0 THEN 0 ELSE greatest(first_attempt_at + $8::bigint, 1) END"
  // Dead letters move first. A dead letter that is replayed meanwhile is either among the retries before those
  // move, or not replayed.
  const letters = yield* move("dead", "", [])
  const twiceDead = yield* queries.query(`DELETE FROM dead WHERE ${within}`, range)
  const retries = yield* move("retry", shifted, [pausedLonger])
  const twice = yield* queries.query(`DELETE FROM retry WHERE ${within}`, range)
  // An alert of a lane that is moved into another ends, and begins again with its next failure.
  yield* isRenamed
    ? queries.query("UPDATE alert SET lane = $2 WHERE stream = $3 AND lane = $1", [from, to, id])
    : queries.query("DELETE FROM alert WHERE stream = $2 AND lane = $1", [from, id])
  if (isRenamed) {
    yield* queries.query(
      "UPDATE imported SET lanes = lanes - $1::text || to_jsonb($2::text) WHERE lanes @> to_jsonb($1::text)",
      [from, to],
    )
  }
  return {
    retries: retries.rows.filter(({ delay }) => delay !== returnedDelay).map(({ sequence }) => sequence),
    letters: letters.count + twiceDead.count,
    count: retries.count + letters.count + twice.count + twiceDead.count,
  }
})

type Kept = Effect.Success<ReturnType<typeof moveKept>>

const isOpen = ({ names, backlogs }: StreamState, name: string, { renamedFrom }: Opening): boolean => {
  if (!backlogs.has(name) || !names.places.has(name) || names.aliases.has(name)) return false
  if (renamedFrom === undefined || renamedFrom === name) return true
  return names.aliases.has(renamedFrom) && !names.places.has(renamedFrom)
}

/**
 * A renamed lane keeps its events in their place, and so keeps their order. If both names are lanes,
 * `LaneEmptying.ts` appends the former lane's events again, behind the events of the other lane. Opens a lane of a
 * stream. If its former name is a lane, that lane is renamed; or its retries and dead letters move, and `empty`
 * must move the rest. Returns the number of events that came with it. It takes no round trip if nothing changes,
 * otherwise at most twelve.
 */
export const open = Effect.fnUntraced(function* (
  stream: StreamState,
  name: string,
  opening: Opening,
): Effect.fn.Return<number, JournalError> {
  if (isOpen(stream, name, opening)) return 0
  return yield* change(stream, (before, head, queries) =>
    Effect.gen(function* () {
      const opened = before.opened(name, head, opening)
      const from = opened.renamed ?? opened.moving
      const pausedFor = (lane: string) => before.places.get(lane)?.pausedFor ?? 0
      const longer = opened.moving === undefined ? 0 : pausedFor(opened.moving) - pausedFor(name)
      const kept =
        from === undefined
          ? undefined
          : yield* moveKept(queries, stream, from, name, longer, opened.renamed !== undefined)
      const pending = opened.renamed === undefined ? 0 : (stream.backlogs.get(opened.renamed)?.size ?? 0)
      return {
        lanes: opened.lanes,
        value: opened.renamed === undefined ? (kept?.count ?? 0) : pending + (kept?.letters ?? 0),
        inMemory: (stream) => openInMemory(stream, name, opened, kept),
      }
    }),
  )
})

/** Creates lanes at the end of a stream. It takes no round trip if all exist, otherwise five. */
export const create = (stream: StreamState, names: ReadonlyArray<string>): Effect.Effect<void, JournalError> =>
  Effect.suspend(() => {
    if (stream.names.created(names, stream.end) === stream.names) return Effect.void
    return change(stream, (before, head) => {
      const inMemory = ({ names: { places }, backlogs }: StreamState): void => {
        for (const [name, cursor] of places) if (names.includes(name)) backlogs.begun(name, cursor)
      }
      return Effect.succeed({ lanes: before.created(names, head), value: undefined, inMemory })
    })
  })

const openInMemory = (stream: StreamState, name: string, { renamed, moving }: Opened, kept: Kept | undefined): void => {
  const { backlogs, names } = stream
  const former = renamed === undefined ? undefined : backlogs.get(renamed)
  const { pausedFor = 0, ...cursor } = names.places.get(name) ?? { sequence: stream.end, settled: [] }
  if (former !== undefined) backlogs.set(name, former.renamed(name))
  const backlog = backlogs.begun(name, cursor, pausedFor)
  if (renamed !== undefined) {
    backlogs.delete(renamed)
    stream.open.delete(renamed)
    if (stream.alerting.delete(renamed)) stream.alerting.add(name)
  }
  if (moving !== undefined) {
    backlogs.get(moving)?.endRetries()
    for (const sequence of kept?.retries ?? []) backlog.retries(sequence)
  }
  stream.recount()
}

/**
 * Removes a lane from a stream with all its events there. Returns the number of events dropped. If its events up to
 * `moved` were moved, and it has others, it fails and removes nothing. It takes at most ten round trips,
 * and one for each 256 commits of other relays that memory doesn't have yet.
 */
export const remove = (
  stream: StreamState,
  name: string,
  why: Removal,
  moved?: number,
): Effect.Effect<number, JournalError> =>
  change(stream, (before, head, queries) =>
    Effect.gen(function* () {
      // Another relay has opened the lane again, or has moved events to it.
      const hasOthers = before.places.has(name) && before.movingFrom(name)?.after !== moved
      if (moved !== undefined && hasOthers) return yield* laneChanged(name)
      const params = [...OutcomeTables.removalParams(why), name, floorOf(stream.id), ceilingOf(stream.id)]
      const within = "t.lane = $3 AND t.sequence > $4 AND t.sequence < $5"
      // Records the lane's pending events in the log, from its cursor on.
      const waiting = `waiting AS (
        INSERT INTO ended (sequence, last, lane, at, outcome, note)
        SELECT $6::bigint + 1, $7::bigint, $3, $1, 'laneRemoved', '{"by":' || $2 || '}' WHERE $6::bigint < $7::bigint), `
      const { count } = yield* queries.query(OutcomeTables.takenFrom("dead", within, "'dropped'", undefined, waiting), [
        ...params,
        moved ?? before.places.get(name)?.sequence ?? head,
        moved ?? head,
      ])
      // Retries come after the dead letters, because a dead letter may be replayed meanwhile.
      const retries = yield* queries.query(OutcomeTables.takenFrom("retry", within, "'dropped'"), params)
      if (moved !== undefined && count + retries.count > 0) return yield* laneChanged(name)
      yield* queries.query("DELETE FROM alert WHERE stream = $1 AND lane = $2", [stream.id, name])
      const pending = moved === undefined ? yield* pendingIn(stream, queries, before, name, head) : 0
      return {
        lanes: before.removed(name, head),
        value: pending + retries.count + count,
        inMemory: (stream) => {
          stream.backlogs.delete(name)
          stream.open.delete(name)
          stream.recount()
        },
      }
    }),
  )
